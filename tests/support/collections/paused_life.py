"""A process that stands still at one of its calls, while another one does something from its
beginning to its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

import pyarrow

from siltstone.bindings.memory.bucket import Bucket
from siltstone.core.errors import CollectionDroppedError, CollectionNotFoundError, Outcome
from siltstone.testing.virtual_time import Clock, VirtualEnvironment
from tests.support.collections.collections_world import NAME, SETTINGS, CollectionsWorld, pairs_of
from tests.support.collections.failing_life import LATE_S, Fates, Life, failed, quietly
from tests.support.collections.update_model import UpdateModel

PAUSES: Final = (
    "before",
    "after",
    "dies before",
    "dies after",
    "lands after death",
    "lands late",
    "sleeps",
)
"""How a process stands still at a call: before it has its effect, or after it; then the process
goes on, or never does. Or the call lands when the other process has ended: its caller is dead, or
was told that nothing is known, and goes on. Or it sleeps until all leases ended."""

LEASES_S: Final = 5_000.0
"""All leases end in it."""

KEPT_MS: Final = 10**9
"""Before the plays nothing is collected."""

NEW: Final = "new"
"""The collection that is made."""


@dataclass
class Actor(Life):
    """One of two applications at work.

    Attributes:
        who: its name, in its rows and its writers.
        models: of both collections, by name.
        told: the times that appends have which both of them make, by writer and sequence.
    """

    who: str = "a"
    models: dict[str, UpdateModel] = field(default_factory=dict)
    told: dict[tuple[str, int], int] = field(default_factory=dict)

    def turn_to(self, name: str) -> None:
        """Work with another collection from now on."""
        self.name, self.model = name, self.models[name]

    async def append_shared(self, table: pyarrow.Table, sequence: int) -> None:
        """Make an append that the other one makes as well: it counts once."""

        async def step() -> None:
            writer = (await self.collection()).writer("shared")
            done = await writer.append(table, sequence=sequence)
            if ("shared", sequence) not in self.told:
                self.told["shared", sequence] = done.time
                self.model.add(done.time, pairs_of(table))
            assert done.time == self.told["shared", sequence]

        await self.do(step)


Act = Callable[[Actor], Coroutine[Any, Any, None]]


class Pause(Fates):
    """The fate of a process that stands still at one call.

    Args:
        number: which call, 1 being the first; 0 means none.
        how: one of ``PAUSES``.
        clock: the time.
        meanwhile: what the other process does.

    Attributes:
        failure: what went wrong in the other process.
        began: whether the other process did anything.
    """

    def __init__(self, number: int, how: str, clock: Clock, meanwhile: Callable[[], None]) -> None:
        super().__init__(number, how, clock)
        self.failure: BaseException | None = None
        self.began = False
        self._meanwhile = meanwhile

    def _failing(
        self,
        operation: str,
        name: str,
        action: Callable[[], Any],
        torn: Callable[[], object] | None,
    ) -> Any:
        match self._fate:
            case "before" | "sleeps":
                self._stand_still()
                return action()
            case "after":
                try:
                    return action()
                finally:
                    self._stand_still()
            case "dies before":
                self.is_dying = True
                self._stand_still()
            case "dies after":
                self.is_dying = True
                quietly(action)()
                self._stand_still()
            case "lands after death":
                self.is_dying = True
                self._stand_still()
                quietly(action)()
            case "lands late":
                self._stand_still()
                asyncio.get_running_loop().call_later(LATE_S, quietly(action))
        raise failed(operation, name, Outcome.UNKNOWN)

    def _stand_still(self) -> None:
        self.began = True
        try:
            self._meanwhile()
        except BaseException as error:
            self.failure = self.failure or error
            raise


def run_elsewhere(work: Callable[[], Coroutine[Any, Any, None]], clock: Clock) -> None:
    """Run a process to its end, on a loop and a thread of its own, while the caller waits."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with VirtualEnvironment(clock=clock).runner() as runner:
                runner.run(work())
        except BaseException as error:  # noqa: BLE001 - it is raised by the thread that waits
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    for failure in failures:
        raise failure


@dataclass(frozen=True, slots=True)
class Beginning:
    """A bucket in which every operation has something to do.

    Attributes:
        bucket: copied for each play.
        model: what is in it, copied as well.
        now: the time of the clock.
    """

    bucket: Bucket
    model: UpdateModel
    now: float

    @classmethod
    def of(cls, prepare: Callable[[Life], Coroutine[Any, Any, None]]) -> Beginning:
        """Make a collection, and do what comes before all plays."""
        environment = VirtualEnvironment(1)
        keeping = replace(SETTINGS, garbage_delay_ms=KEPT_MS)
        world = CollectionsWorld(1, clock=environment.clock, settings=keeping)
        life = Life(world, Fates(0, "", environment.clock))

        async def made() -> None:
            maker = await world.create()
            await prepare(life)
            await maker.collections.close()
            await life.process().collections.close()

        with environment.runner() as runner:
            runner.run(made())
        return cls(world.bucket, life.model, environment.clock.now)

    def play(self, first: Act, second: Act, number: int = 0, how: str = "") -> list[str]:
        """Let one process stand still at a call while another one acts; return the calls of it.

        Args:
            first: what is done by the one that stands still.
            second: what the other one does then.
            number: of the call, 1 being the first; 0: nobody stands still.
            how: one of ``PAUSES``.
        """
        return _Play(self, first, second, number, how).result()


class _Play:
    """One play; see ``Beginning.play``."""

    def __init__(
        self, beginning: Beginning, first: Act, second: Act, number: int, how: str
    ) -> None:
        self._environment = VirtualEnvironment(2)
        self._clock = self._environment.clock
        self._clock.now = beginning.now
        self._world = CollectionsWorld(1_000, clock=self._clock)
        for key in beginning.bucket.keys:
            self._world.bucket.insert(key, beginning.bucket.chunks[key])
        old = beginning.model
        known = UpdateModel(list(old.updates), old.upper, old.since)
        self._models = {NAME: known, NEW: UpdateModel()}
        self._told: dict[tuple[str, int], int] = {}
        self._first, self._second = first, second
        self._number, self._how = number, how
        self._pause = Pause(
            number, how, self._clock, lambda: run_elsewhere(self._meanwhile, self._clock)
        )

    def result(self) -> list[str]:
        """Play it, and return the calls of the first process."""
        pause = self._pause
        try:
            with self._environment.runner() as runner:
                runner.run(self._played())
            if pause.failure is not None:
                raise pause.failure
            assert pause.began == (0 < self._number <= len(pause.seen))
        except BaseException as error:
            seen = pause.seen[self._number - 1] if 0 < self._number <= len(pause.seen) else "none"
            names = f"{self._first.__name__}, {self._second.__name__}"
            error.add_note(f"{names}: call {self._number} ({seen}) {self._how}")
            raise
        return pause.seen

    async def _played(self) -> None:
        actor = self._actor("a", self._pause)
        await actor.collection()
        self._pause.armed = True
        with self._suppressed():
            await self._first(actor)
        self._pause.armed = False
        await self._world.sleep(2 * LATE_S)
        models = dict(self._models)
        if self._is_dropped:
            del models[NAME]
        if not models[NEW].updates:
            del models[NEW]
        for name in models:
            actor.turn_to(name)
            await actor.look_back()
        await actor.process().collections.close()
        await self._world.sleep(LEASES_S)
        checking = self._world.open().collections
        assert await checking.list() == sorted(models)
        await checking.sweep()
        assert NAME in models or self._world.names("/parts/") == []
        found = [one async for one in checking.check(deep=True)]
        assert found == [], found

    async def _meanwhile(self) -> None:
        """What the other process does, from its beginning to its end."""
        actor = self._actor("b", Fates(0, "", self._clock))
        if self._how == "sleeps":
            await self._world.sleep(LEASES_S)
        with self._suppressed():
            await self._second(actor)
        if self._how == "sleeps":
            with self._suppressed():
                await (await actor.collection()).append([])
            await actor.process().collections.collect()
            await actor.process().collections.sweep()
        await actor.process().collections.close()

    @property
    def _is_dropped(self) -> bool:
        return "drop" in (self._first.__name__, self._second.__name__) and (
            self._first.__name__ == "drop" or self._pause.began
        )

    def _suppressed(self) -> suppress:
        """What is told to those who work with what another one drops."""
        is_dropped = "drop" in (self._first.__name__, self._second.__name__)
        told = (CollectionDroppedError, CollectionNotFoundError) if is_dropped else ()
        return suppress(*told)

    def _actor(self, who: str, fates: Fates) -> Actor:
        return Actor(
            self._world,
            fates,
            model=self._models[NAME],
            models=self._models,
            told=self._told,
            who=who,
        )


def draws(name: str, calls: int, count: int) -> list[tuple[int, str]]:
    """Some calls, each with a pause: those that ``name`` draws, always the same."""
    every = [(number, how) for number in range(1, calls + 1) for how in PAUSES]
    return Random(name).sample(every, min(count, len(every)))
