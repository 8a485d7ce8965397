"""An application of a keyspace of which any call may fail, next to a model of what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from siltstone.core.errors import (
    BackPressureError,
    ClosedError,
    ConditionFailedError,
    SafeModeError,
    SiltstoneError,
    StorageFullError,
)
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.errors import KeyspaceExistsError
from siltstone.objects.records.keys import LargeStatus
from siltstone.objects.records.space_rows import ValueStatus
from tests.support import inside
from tests.support.container.container_world import World, world
from tests.support.faults.failing_calls import SETTINGS, Faults, fates_of, run_watched
from tests.support.objects.space_check import SeenSpace, look
from tests.support.objects.space_model import REFUSED, Change, SpaceModel, ask, told
from tests.support.objects.space_world import NAMES, Opened, open_owner, open_reader
from tests.support.objects.streams_to_put import left
from tests.support.soak import shared

ATTEMPTS_MAX = 12
NOT_APPLIED = (BackPressureError, SafeModeError, StorageFullError, ClosedError)
"""Nothing was changed; of a container that is being opened again as well."""


def outcomes(
    model: SpaceModel, changes: Sequence[Change], results: Sequence[object], now_s: float
) -> list[SpaceModel]:
    """The states in which a keyspace may be after changes that were told this, in their order.

    Of those whose outcome is unknown a beginning took place.
    """
    unknown = [
        number
        for number, result in enumerate(results)
        if isinstance(result, BaseException)
        and not isinstance(result, (*NOT_APPLIED, ConditionFailedError))
    ]
    found = []
    for count in range(len(unknown) + 1):
        state, fits = model.copy(), True
        for number, (change, result) in enumerate(zip(changes, results, strict=True)):
            if number in unknown[count:] or isinstance(result, NOT_APPLIED):
                continue
            expected = state.apply(change, now_s)
            if isinstance(result, ConditionFailedError):
                fits = fits and expected == REFUSED
            elif not isinstance(result, BaseException):
                fits = fits and told(result) == expected
        if fits:
            found.append(state)
    assert found, f"no state explains what was told: {results}"
    return found


@dataclass
class SpaceLife:
    """The application: what it did so far, and how it continues after a failure."""

    world: World
    faults: Faults
    model: SpaceModel
    chance: Random
    opened: Opened | None = None
    keyspace: AsyncKeyspace | None = None

    async def do(self, step: Callable[[Opened], Awaitable[Any]]) -> Any:
        """Make a step in a living process, again and again until it succeeds."""
        failure: SiltstoneError | None = None
        for _ in range(ATTEMPTS_MAX):
            try:
                return await step(await self.living())
            except SiltstoneError as error:
                failure = error
                await self.world.environment.sleep(2)
        raise AssertionError("the step never succeeds") from failure

    async def living(self) -> Opened:
        """A process whose store is open."""
        if self.faults.dying:
            await self.end()
            for log in self.faults.logs:
                log.abandon()
            self.faults.dying = False
        if self.opened is None:
            self.opened = await open_owner(self.world, plan=self.faults.log_plan)
        return self.opened

    async def end(self) -> None:
        """The process dies."""
        if self.opened is not None:
            await self.opened.die()
        self.opened = self.keyspace = None

    async def make(self) -> None:
        """Make the keyspace; a repeat may hear that it is there."""

        async def step(opened: Opened) -> None:
            try:
                await opened.make()
            except KeyspaceExistsError:
                assert tried, "it was never made"
            finally:
                tried.append(True)

        tried: list[bool] = []
        await self.do(step)

    async def open_space(self) -> AsyncKeyspace:
        """The open keyspace of a living process."""

        async def step(opened: Opened) -> AsyncKeyspace:
            return await opened.keyspace()

        if self.keyspace is None or self.faults.dying:
            self.keyspace = None
            self.keyspace = await self.do(step)
        return self.keyspace

    async def reopen(self) -> None:
        """Close the store, and open it again."""
        if self.opened is not None and not self.faults.dying:
            try:
                await self.opened.store.close()
            except SiltstoneError:
                await self.opened.die()
            self.opened = self.keyspace = None
        await self.open_space()

    async def upload(self) -> None:
        """Put a large value, and see what came of it."""
        value = self.chance.randbytes(self.chance.choice([1_600, 4_000]))
        wanted = replace(self.some_change(), value=value, stream=self.chance.random() < 0.5)
        await self.ask_for([wanted])

    async def burst(self, count: int) -> None:
        """Ask for many changes at once, and see what came of them."""
        await self.ask_for([self.some_change() for _ in range(count)])

    async def ask_for(self, changes: list[Change]) -> None:
        """Ask for changes at once, and see what came of them."""
        keyspace = await self.open_space()
        futures = [ask(keyspace, change, self.arguments(change)) for change in changes]
        results = await asyncio.gather(*futures, return_exceptions=True)
        for result in results:
            assert not isinstance(result, BaseException) or isinstance(result, SiltstoneError)
        states = outcomes(self.model, changes, results, self.world.environment.time())
        seen = await self.seen()
        now_s = self.world.environment.time()
        same = [state for state in states if not state.differs(seen, now_s)]
        assert same, [results, [state.differs(seen, now_s) for state in states]]
        self.model = same[0]

    def some_change(self) -> Change:
        """A put, or now and then a delete, of one of a few keys."""
        key = ("o", "b", f"k{self.chance.randrange(6)}")
        condition = self.chance.choice(["any", "any", "absent"])
        if self.chance.random() < 0.2:
            return Change(key=key, condition=condition)
        value = self.chance.randbytes(self.chance.choice([0, 9, 200, 700]))
        index = tuple(("f", str(self.chance.randrange(4))) for _ in range(2))
        return Change(key=key, value=value, index=index, condition=condition)

    @staticmethod
    def arguments(change: Change) -> dict[str, Any]:
        """The condition as the verb takes it."""
        return {"expected": None} if change.condition == "absent" else {}

    async def seen(self) -> SeenSpace:
        """All that is there now."""
        self.faults.armed, armed = False, self.faults.armed
        seen: SeenSpace = await self.do(lambda opened: look(opened.store, NAMES))
        self.faults.armed = armed
        return seen

    async def same(self) -> SeenSpace:
        """All that is there now, which is what the model has."""
        seen = await self.seen()
        assert self.model.differs(seen, self.world.environment.time()) == ""
        return seen

    async def look_back(self) -> None:
        """Everything is there: now, for a reader, and for the next owner; footers are written."""
        await self.same()
        await self.open_space()
        await self.burst(7)
        await self.world.environment.sleep(200)
        seen = await self.same()
        assert {row.status for row in seen.manifest[:-1]} <= {ValueStatus.SEALED}
        space = inside.open_space(await self.open_space())
        assert (await left(space))[0] <= {LargeStatus.LIVE}
        reader = await open_reader(self.world)
        await reader.keyspace()
        now_s = self.world.environment.time()
        assert self.model.differs(await look(reader.store, NAMES), now_s) == ""
        await reader.store.close()
        await self.end()
        await self.open_space()
        await self.same()


Step = Callable[[SpaceLife], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SpaceOperation:
    """What is done with one call failing: ``act``, after ``before``."""

    before: Step
    act: Step


def play(operation: SpaceOperation, number: int = 0, fate: str = "") -> Faults:
    """Play an operation with one of its calls failing, and look at what came of it."""
    faults = Faults(number, fate)

    async def operated(made: World) -> None:
        life = SpaceLife(made, faults, SpaceModel(), Random(number))
        await operation.before(life)
        await life.living()
        faults.armed = True
        await operation.act(life)
        faults.armed = False
        await life.living()
        await life.look_back()

    with world(settings=SETTINGS) as made:
        made.storage_hook = faults.watch

        run_watched(made, faults, operated(made))
    return faults


def cases(operation: SpaceOperation) -> list[tuple[int, str]]:
    """Every call of an operation with every fate that it may have."""
    return fates_of(play(operation))


def play_some(name: str, operation: SpaceOperation, count: int) -> None:
    """Play some of the cases, at most ``count``: those that ``name`` draws, always the same."""
    every = cases(operation)
    for number, fate in Random(name).sample(every, min(count, len(every))):
        play(operation, number, fate)


def play_every(operation: SpaceOperation) -> None:
    """Play every case of this share of a soak."""
    for number, fate in shared(cases(operation)):
        play(operation, number, fate)
