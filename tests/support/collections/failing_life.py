"""The life of a collection of which any call to long-term storage may fail, next to its model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from siltstone.bindings.memory.bucket import Bucket
from siltstone.collections.async_collection import AsyncCollection
from siltstone.core.errors import (
    ChunkError,
    ChunkUnavailableError,
    CollectionNotFoundError,
    Outcome,
    OutcomeUnknownError,
    SiltstoneError,
)
from siltstone.core.storage.optional_verbs import delete_many
from siltstone.testing.virtual_time import Clock, VirtualEnvironment
from tests.support.collections.collections_world import (
    NAME,
    CollectionsWorld,
    Opener,
    pairs_of,
)
from tests.support.collections.update_model import Row, UpdateModel, rows_of
from tests.support.soak import shared

FATES: Final = (
    "refused",
    "lost call",
    "lost reply",
    "torn",
    "dies torn",
    "late",
    "dies before",
    "dies after",
    "refused for long",
    "lost for long",
)
"""What becomes of a call; for long means all calls from it on, until no commit may try any more. A
torn one does half: of an object half of the bytes are there, of many objects half are deleted."""

LATE_S: Final = 40.0
LONG_S: Final = 70.0
ATTEMPTS_MAX: Final = 8


class Fates:
    """Counts the calls of processes while it is armed, and gives one of them a fate.

    Args:
        number: which call, 1 being the first; 0 means none.
        fate: one of ``FATES``.
        clock: the time.

    Attributes:
        armed: whether calls are counted.
        seen: the calls, for people.
        is_dying: whether the process died in its call.
    """

    def __init__(self, number: int, fate: str, clock: Clock) -> None:
        self.armed = False
        self.is_dying = False
        self.seen: list[str] = []
        self._number = number
        self._fate = fate
        self._clock = clock
        self._away_until = -1.0

    def watch(self, opener: Opener) -> None:
        """Count the calls of a process, and fail one."""
        inner = opener.storage.inner

        def deleted(names: Sequence[str]) -> Any:
            return self._fated(
                "delete_many",
                " ".join(names[:1]),
                lambda: delete_many(inner, names),
                torn=lambda: delete_many(inner, names[: (len(names) + 1) // 2]),
            )

        opener.storage._fated = self._fated  # type: ignore[method-assign]
        opener.storage.delete_many = deleted  # type: ignore[method-assign]

    def _fated(
        self,
        operation: str,
        name: str,
        action: Callable[[], Any],
        *,
        torn: Callable[[], object] | None = None,
    ) -> Any:
        is_it = False
        if self.armed:
            kinds = [kind for kind in ("entries", "rollups", "parts") if f"/{kind}" in name]
            self.seen.append(" ".join([operation, *kinds]))
            is_it = len(self.seen) == self._number
        if self.is_dying:
            raise failed(operation, name, Outcome.UNKNOWN)
        if is_it and self._fate.endswith("for long"):
            self._away_until = self._clock.now + LONG_S
        if self._clock.now < self._away_until:
            is_lost = self._fate == "lost for long"
            raise failed(operation, name, Outcome.UNKNOWN if is_lost else Outcome.NOT_APPLIED)
        return self._failing(operation, name, action, torn) if is_it else action()

    def _failing(
        self,
        operation: str,
        name: str,
        action: Callable[[], Any],
        torn: Callable[[], object] | None,
    ) -> Any:
        """The call that is meant."""
        match self._fate:
            case "refused":
                raise failed(operation, name, Outcome.NOT_APPLIED)
            case "lost reply":
                action()
            case "torn" if torn is not None:
                torn()
            case "dies torn":
                self.is_dying = True
                if torn is not None:
                    torn()
            case "late":
                asyncio.get_running_loop().call_later(LATE_S, quietly(action))
            case "dies before":
                self.is_dying = True
            case "dies after":
                action()
                self.is_dying = True
        raise failed(operation, name, Outcome.UNKNOWN)


def failed(operation: str, name: str, outcome: Outcome) -> ChunkUnavailableError:
    """What a caller is told who gets no answer."""
    return ChunkUnavailableError(
        "injected: no answer", chunk=name, operation=operation, outcome=outcome
    )


def quietly(action: Callable[[], object]) -> Callable[[], None]:
    """A call whose answer nobody gets."""

    def act() -> None:
        with suppress(SiltstoneError):
            action()

    return act


@dataclass
class Life:
    """An application that does something until it took place, and remembers what should be there.

    Attributes:
        world: where it lives.
        fates: of its calls.
        model: what was acknowledged.
        doubtful: rows of appends that nobody can repeat, whose outcome is unknown.
        opener: its process; ``None`` before the first one, and when that died.
        name: of the collection.
    """

    world: CollectionsWorld
    fates: Fates
    model: UpdateModel = field(default_factory=UpdateModel)
    doubtful: list[Sequence[Row]] = field(default_factory=list)
    opener: Opener | None = None
    name: str = NAME

    def process(self) -> Opener:
        """The process, or the one that follows it."""
        if self.opener is not None and self.fates.is_dying:
            self.opener.die()
            self.opener = None
            self.fates.is_dying = False
        if self.opener is None:
            self.opener = self.world.open()
            self.fates.watch(self.opener)
        return self.opener

    async def collection(self) -> AsyncCollection:
        """The collection, in the process of the moment."""
        return await self.process().collection(self.name)

    async def do(self, step: Callable[[], Awaitable[object]]) -> None:
        """Make a step that may be repeated, again and again until it succeeds."""
        failure: SiltstoneError | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                await step()
            except (ChunkError, OutcomeUnknownError) as error:
                failure = error
                await self.world.sleep(LONG_S / 4)
            else:
                return
        raise AssertionError("the step never succeeds") from failure

    async def append(self, table: Any, sequence: int, name: str = "loader") -> None:
        """Append by a writer with a name, until that is acknowledged."""

        async def step() -> None:
            writer = (await self.collection()).writer(name)
            done = await writer.append(table, sequence=sequence)
            self.model.add(done.time, pairs_of(table))

        await self.do(step)

    async def append_unnamed(self, table: Any) -> None:
        """Append once; what is unknown stays so, and what was refused is made again."""

        async def step() -> None:
            gusts = await self.collection()
            try:
                done = await gusts.append(table)
            except OutcomeUnknownError:
                self.doubtful.append(pairs_of(table))
            else:
                self.model.add(done.time, pairs_of(table))

        await self.do(step)

    async def look_back(self) -> None:
        """All of it is there, once, whatever is compacted and collected then."""
        late = await self.world.open().collection(self.name)
        for _ in range(2):
            found = rows_of(await (await late.snapshot()).to_arrow())
            wanted = self.model.rows(2**63)
            for rows in self.doubtful:
                if rows[0] in found and rows[0] not in wanted:
                    wanted.update(rows)
            assert found == wanted
            await late.append([])
            await late.compact()
            await self.world.sleep(1)
            await late.collect()
        await self.process().collections.close()
        await self.world.sleep(5_000)  # all leases end
        await late.append([])
        await late.compact()
        await self.world.sleep(1)
        await late.collect()
        await late.sweep()
        assert len(self.world.names("/parts/")) <= (await late.info()).parts


Step = Callable[[Life], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionOperation:
    """What is done with one call failing.

    Attributes:
        before: what it needs; nothing fails there.
        act: the operation, repeated until it took place.
        is_gone: whether there is no collection after it.
    """

    before: Step
    act: Step
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """A bucket in which an operation can begin.

    Attributes:
        operation: the operation.
        bucket: copied for each play.
        model: what is in it, copied as well.
        now: the time of the clock.
    """

    operation: CollectionOperation
    bucket: Bucket
    model: UpdateModel
    now: float

    @classmethod
    def of(cls, operation: CollectionOperation) -> Prepared:
        """Do what comes before an operation, once for all its plays."""
        environment = VirtualEnvironment(1)
        world = CollectionsWorld(1, clock=environment.clock)
        life = Life(world, Fates(0, "", environment.clock))

        async def made() -> None:
            await world.create()
            await operation.before(life)
            for opener in world.openers:
                await opener.collections.close()

        with environment.runner() as runner:
            runner.run(made())
        return cls(operation, world.bucket, life.model, environment.clock.now)

    def play(self, number: int = 0, fate: str = "") -> list[str]:
        """Play the operation with one of its calls failing; return the calls."""
        environment = VirtualEnvironment(2)
        environment.clock.now = self.now
        world = CollectionsWorld(1_000, clock=environment.clock)
        for key in self.bucket.keys:
            world.bucket.insert(key, self.bucket.chunks[key])
        fates = Fates(number, fate, environment.clock)
        model = UpdateModel(list(self.model.updates), self.model.upper, self.model.since)
        life = Life(world, fates, model)

        async def played() -> None:
            await life.collection()
            fates.armed = True
            await self.operation.act(life)
            fates.armed = False
            await world.sleep(2 * LATE_S)
            if self.operation.is_gone:
                await is_gone(world)
            else:
                await life.look_back()

        try:
            with environment.runner() as runner:
                runner.run(played())
        except BaseException as error:
            seen = fates.seen[number - 1] if 0 < number <= len(fates.seen) else "none"
            error.add_note(f"call {number} ({seen}) {fate}")
            raise
        return fates.seen


async def is_gone(world: CollectionsWorld) -> None:
    """The name is free, and nothing is left but a tombstone."""
    opener = world.open()
    assert await opener.collections.list() == []
    with suppress(CollectionNotFoundError):
        await opener.collection()
        raise AssertionError("it is there")
    await world.sleep(5_000)
    await opener.collections.sweep()
    assert world.names("/parts/") == []


def cases(prepared: Prepared) -> list[tuple[int, str]]:
    """Every call of an operation with every fate."""
    return [(n, fate) for n in range(1, len(prepared.play()) + 1) for fate in FATES]


def play_some(name: str, prepared: Prepared, count: int) -> None:
    """Play some of the cases, at most ``count``: those that ``name`` draws, always the same."""
    every = cases(prepared)
    for number, fate in Random(name).sample(every, min(count, len(every))):
        prepared.play(number, fate)


def play_every(prepared: Prepared) -> None:
    """Play every case of this share of a soak."""
    for number, fate in shared(cases(prepared)):
        prepared.play(number, fate)
