"""An operation on a container, played with each of its calls failing in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.container import Container
from siltstone.core.errors import (
    ChunkUnavailableError,
    LogError,
    Outcome,
    SiltstoneError,
    StorageFullError,
)
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from siltstone.testing.faults.faulty_fenced_log import Fault, FaultPlan
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from tests.support import inside
from tests.support.container.container_world import World, small_slices, with_settings, world
from tests.support.faults.container_life import Life, look_back
from tests.support.soak import shared

SETTINGS = with_settings(
    chunk_bytes=2_000,
    flush_bytes=10**6,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    garbage_delay_s=0.0,
    garbage_interval_s=1e6,
    append_deadline_s=5.0,
    pack_bytes=1,
    optimiser_interval_s=1e6,
    optimiser_chunks_min=2,
    relocation_chunk_bytes_min=1,
    relocation_percent=50,
    storage_deadline_s=20.0,
    storage_attempts=1,
)
"""Nothing happens by itself, so a call has the same number in every run."""


LATE_S = 40.0


DAYS_S = 3 * 24 * 3600.0


STORAGE_FATES = ("refused", "lost call", "lost reply", "torn", "late", "dies before", "dies after")


LOG_FATES = ("lost call", "lost reply", "full", "dies before", "dies after")


class Faults:
    """Counts the calls between two marks, and gives one of them a fate.

    Attributes:
        armed: whether calls are counted.
        dying: the process counts as dead: none of its calls has an effect.
        seen: the calls, for people.
        is_log: for each of them, whether it went to the log.
        logs: every handle that was made.
    """

    def __init__(self, number: int = 0, fate: str = "") -> None:
        self.number = number
        self.fate = fate
        self.armed = False
        self.dying = False
        self.seen: list[str] = []
        self.is_log: list[bool] = []
        self.logs: list[MemoryFencedLog] = []
        self.log_plan = FaultPlan()
        self.log_plan.before = self._before_log
        self.log_plan.after = self._after_log
        self._is_after = False

    @property
    def told(self) -> str:
        """Which call it was, and its fate, for people."""
        called = self.seen[self.number - 1] if 0 < self.number <= len(self.seen) else "none"
        return f"call {self.number} ({called}) {self.fate}"

    def _is_it(self, what: str, *, is_log: bool) -> bool:
        if not self.armed:
            return False
        self.seen.append(what)
        self.is_log.append(is_log)
        return len(self.seen) == self.number

    def watch(self, storage: FaultyChunkStorage) -> None:
        """See ``World.storage_hook``."""

        def call(
            operation: str,
            name: str,
            action: Callable[[], Any],
            *,
            torn: Callable[[], object] | None = None,
        ) -> Any:
            is_it = self._is_it(f"{operation} {name}", is_log=False)
            if self.dying:
                raise _unknown(operation, name)
            if not is_it:
                return action()
            return self._storage_call(operation, name, action, torn)

        storage._fated = call  # type: ignore[method-assign]

    def _storage_call(
        self,
        operation: str,
        name: str,
        action: Callable[[], Any],
        torn: Callable[[], object] | None,
    ) -> Any:
        """The call that is meant."""
        match self.fate:
            case "refused":
                raise ChunkUnavailableError("injected: refused", chunk=name, operation=operation)
            case "lost reply":
                action()
            case "torn" if torn is not None:
                torn()
            case "late":
                asyncio.get_running_loop().call_later(LATE_S, _quietly(action))
            case "dies before":
                self.dying = True
            case "dies after":
                action()
                self.dying = True
        raise _unknown(operation, name)

    def _before_log(self, method: str, number: int) -> None:
        self._is_after = False
        if self.dying:
            raise LogError("the process is dead")
        if method not in ("append", "claim", "truncate", "newest_epoch"):
            return
        is_it = self._is_it(f"log {method}", is_log=True)
        self._is_after = is_it and self.fate == "dies after"
        if not is_it:
            return
        if self.fate == "dies before":
            self.dying = True
            raise LogError("the process is dead")
        if self.fate in LOG_FAULTS and (self.fate != "full" or method == "append"):
            applied, error = LOG_FAULTS[self.fate]
            self.log_plan.faults[method, number] = Fault(applied=applied, error=error)

    def _after_log(self, method: str, number: int) -> None:
        if self._is_after:
            self.dying = True
            raise LogError("the process is dead")


LOG_FAULTS = {
    "lost call": (False, LogError("injected: lost call")),
    "lost reply": (True, LogError("injected: lost reply")),
    "full": (False, StorageFullError("injected: full")),
}


def _unknown(operation: str, name: str) -> ChunkUnavailableError:
    return ChunkUnavailableError(
        "injected: no answer", chunk=name, operation=operation, outcome=Outcome.UNKNOWN
    )


def _quietly(action: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        with suppress(SiltstoneError):
            action()

    return act


@dataclass
class Mortal(Life):
    """An application whose process may die; the next one continues with what it wanted."""

    faults: Faults = field(default_factory=Faults)

    async def opened(self) -> Container:
        if self.faults.dying:
            if self.owner is not None:
                await self.world.crash(self.owner)
                self.owner = None
            for log in self.faults.logs:
                log.abandon()
            self.faults.dying = False
        return await super().opened()

    async def optimise(self) -> None:
        """One round."""
        await self.do(lambda c: inside.parts(c).optimiser.round())

    async def sweep(self) -> None:
        """A sweep, and the garbage that it found."""

        async def step(container: Container) -> None:
            async for _ in container.garbage.sweep(delete=True):
                pass
            await container.garbage.run()

        await self.do(step)

    async def rename(self, name: str, new_name: str) -> None:
        """Give a segment another name."""
        await self.do(lambda c: c.rename(name, new_name))
        self.model.segments[new_name] = self.model.segments.pop(name)

    async def flush(self, name: str | None = None) -> None:
        """Bring everything to long-term storage."""
        await self.do(lambda c: c.flush(name))

    async def filled(self, *lengths: int) -> None:
        """The segment ``a`` with appends of these lengths, each flushed."""
        for length in lengths:
            await self.append("a", length)
            await self.flush()


async def open_chunk(life: Mortal) -> None:
    await life.filled(600)


async def a_source(life: Mortal) -> None:
    await life.filled(700)
    await life.create("source")
    for _ in range(5):
        await life.append("source", 300)
        await life.flush()
    await life.append("a", 80)
    await life.append("source", 60)
    await life.seal("source")


Step = Callable[[Mortal], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is done with one call failing.

    Attributes:
        before: what it needs.
        act: the operation, repeated until it took place.
        slices: most extents that a concat moves at once.
        pack_bytes: what may share a chunk.
        profile: the service.
    """

    before: Step
    act: Step
    slices: int = 100
    pack_bytes: int = 1
    profile: Profile = field(default_factory=Profile)


def run_watched(made: World, faults: Faults, story: Coroutine[Any, Any, None]) -> None:
    """Run a story in which one call may fail; what it raises says which."""

    def new_log() -> MemoryFencedLog:
        log = MemoryFencedLog("world", 0, shared=made.shared_log)
        faults.logs.append(log)
        return log

    made.new_log = new_log
    try:
        made.run(story)
    except BaseException as error:
        error.add_note(faults.told)
        raise


def fates_of(watched: Faults) -> list[tuple[int, str]]:
    """Every call that was watched, with every fate that it may have."""
    return [
        (number, fate)
        for number, is_log in enumerate(watched.is_log, 1)
        for fate in (LOG_FATES if is_log else STORAGE_FATES)
    ]


def play(operation: Operation, number: int = 0, fate: str = "") -> Faults:
    """Play an operation with one of its calls failing, and look at what came of it."""
    faults = Faults(number, fate)
    chosen = replace(SETTINGS, pack_bytes=operation.pack_bytes)

    async def operated(made: World) -> None:
        life = Mortal(made, faults.log_plan, faults=faults)
        await life.create("a")
        await life.do(lambda c: c.create_table("table", exist_ok=True))
        await operation.before(life)
        await life.opened()
        faults.armed = True
        await operation.act(life)
        faults.armed = False
        await life.opened()
        await life.wait(2 * LATE_S)
        await look_back(life)

    with small_slices(operation.slices), world(settings=chosen, profile=operation.profile) as made:
        made.storage_hook = faults.watch

        run_watched(made, faults, operated(made))
    return faults


def cases(operation: Operation) -> list[tuple[int, str]]:
    """Every call of an operation with every fate that it may have."""
    return fates_of(play(operation))


def play_some(name: str, operation: Operation, count: int) -> None:
    """Play some of the cases, at most ``count``: those that ``name`` draws, always the same."""
    every = cases(operation)
    for number, fate in Random(name).sample(every, min(count, len(every))):
        play(operation, number, fate)


def play_every(operation: Operation) -> None:
    """Play every case of this share of a soak."""
    for number, fate in shared(cases(operation)):
        play(operation, number, fate)
