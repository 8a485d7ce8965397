"""Every call of every operation meets every fault.

What may fail: one call to long-term storage or the log, of one operation: refused; lost; applied
with its reply lost; applied by half; answered too late, with its effect later still; or the process
dies ahead of the call or behind it. What must hold: whoever repeats the operation comes to its end,
or hears that it took place; what was acknowledged is there, for this owner, for a reader, and for
an owner without a local index; every invariant holds.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.container import Container
from siltstone.core.chunk_names import data_chunk
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
from tests.faults.test_container_four_outcomes import Life, look_back
from tests.support.container.container_world import World, small_slices, with_settings, world
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
SAMPLE = 8
"""Runs of each operation without ``soak``."""

STORAGE_FATES = ("refused", "lost call", "lost reply", "torn", "late", "dies before", "dies behind")
LOG_FATES = ("lost call", "lost reply", "full", "dies before", "dies behind")


class Faults:
    """Counts the calls between two marks, and gives one of them a fate.

    Attributes:
        armed: whether calls are counted.
        dying: the process is as good as dead: none of its calls has an effect.
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
        self._is_behind = False

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
            case "dies behind":
                action()
                self.dying = True
        raise _unknown(operation, name)

    def _before_log(self, method: str, number: int) -> None:
        self._is_behind = False
        if self.dying:
            raise LogError("the process is dead")
        if method not in ("append", "claim", "truncate", "newest_epoch"):
            return
        is_it = self._is_it(f"log {method}", is_log=True)
        self._is_behind = is_it and self.fate == "dies behind"
        if not is_it:
            return
        if self.fate == "dies before":
            self.dying = True
            raise LogError("the process is dead")
        if self.fate in LOG_FAULTS and (self.fate != "full" or method == "append"):
            applied, error = LOG_FAULTS[self.fate]
            self.log_plan.faults[method, number] = Fault(applied=applied, error=error)

    def _after_log(self, method: str, number: int) -> None:
        if self._is_behind:
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
    """An application whose process may die; the next one goes on with what it wanted."""

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
        await self.do(lambda c: c._parts.optimiser.round())

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


# --- operations: what comes before, and the one that is looked at ---------------------------------


async def nothing(life: Mortal) -> None:
    """No more than every life begins with."""


async def open_chunk(life: Mortal) -> None:
    await life.filled(600)


async def append_and_flush(life: Mortal) -> None:
    await life.append("a", 900)
    await life.append_once("a", 3, 1_500)
    await life.flush()


async def create(life: Mortal) -> None:
    await life.create("new")


async def seal(life: Mortal) -> None:
    await life.append("a", 100)
    await life.seal("a")
    await life.flush("a")


async def several_chunks(life: Mortal) -> None:
    await life.filled(1_900, 1_900, 1_900)


async def truncate(life: Mortal) -> None:
    """Past one chunk and into the next one, whose rest is then relocated."""
    await life.truncate("a", 3_600)
    await life.do(lambda c: c.collect())
    await life.optimise()


async def delete(life: Mortal) -> None:
    await life.delete("a")
    await life.do(lambda c: c.garbage.run())
    await life.create("a")


async def a_source(life: Mortal) -> None:
    await life.filled(700)
    await life.create("source")
    for _ in range(5):
        await life.append("source", 300)
        await life.flush()
    await life.append("a", 80)
    await life.append("source", 60)
    await life.seal("source")


async def concat(life: Mortal) -> None:
    await life.concat("a", "source")


async def commit(life: Mortal) -> None:
    await life.commit("a", 300, b"key")


async def checkpoint(life: Mortal) -> None:
    await life.append("a", 300)
    await life.do(lambda c: c.checkpoint())


async def garbage(life: Mortal) -> None:
    await several_chunks(life)
    await life.create("gone")
    await life.append("gone", 3_000)
    await life.flush()
    await life.delete("gone")
    await life.truncate("a", 2_500)


async def collect(life: Mortal) -> None:
    await life.do(lambda c: c.garbage.run())


async def small_chunks(life: Mortal) -> None:
    """Chunks of closed owners, which the optimiser merges."""
    for _ in range(4):
        await life.filled(200)
        await life.close()


async def optimise(life: Mortal) -> None:
    await life.optimise()
    # The delay of garbage is longer than calls are late. What comes later still is for a sweep.
    await life.wait(2 * LATE_S)
    await life.do(lambda c: c.garbage.run())


async def left_behind(life: Mortal) -> None:
    """A chunk of an owner that died, three days old."""
    await life.filled(500)
    await life.close()
    life.world.new_storage().create(data_chunk(0, 1, "late", 0, 9), [b"late"])
    life.world.environment.clock.now += DAYS_S
    await life.opened()


async def sweep(life: Mortal) -> None:
    await life.sweep()


async def a_tail(life: Mortal) -> None:
    """Something in chunks, in tier 1, and in the tables."""
    await life.filled(2_500)
    await life.commit("a", 700, b"key")
    await life.truncate("a", 300)


async def boot(life: Mortal) -> None:
    await life.close()
    await life.append("a", 10)


async def boot_without_index(life: Mortal) -> None:
    await life.close()
    shutil.rmtree(life.world.folder / "index", ignore_errors=True)
    await life.append("a", 10)


async def rename(life: Mortal) -> None:
    await life.rename("a", "b")
    await life.append("b", 20)


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


async def many_small(life: Mortal) -> None:
    for name in ("x", "y", "z"):
        await life.create(name)
        await life.append(name, 150)
    await life.flush()


WRITE_ONCE = Profile(append=False, concat=False, seal=False)
OPERATIONS = {
    "append and flush": Operation(before=open_chunk, act=append_and_flush),
    "append and flush, write once": Operation(
        before=open_chunk, act=append_and_flush, profile=WRITE_ONCE
    ),
    "boot": Operation(before=a_tail, act=boot),
    "boot without index": Operation(before=a_tail, act=boot_without_index),
    "checkpoint": Operation(before=a_tail, act=checkpoint),
    "collect": Operation(before=garbage, act=collect),
    "commit": Operation(before=open_chunk, act=commit),
    "concat": Operation(before=a_source, act=concat),
    "concat in slices": Operation(before=a_source, act=concat, slices=2),
    "create": Operation(before=nothing, act=create),
    "delete": Operation(before=several_chunks, act=delete),
    "optimise": Operation(before=small_chunks, act=optimise),
    "pack": Operation(before=nothing, act=many_small, pack_bytes=500),
    "rename": Operation(before=open_chunk, act=rename),
    "seal": Operation(before=open_chunk, act=seal),
    "sweep": Operation(before=left_behind, act=sweep),
    "truncate and relocate": Operation(before=several_chunks, act=truncate),
}


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

        def new_log() -> MemoryFencedLog:
            log = MemoryFencedLog("world", 0, shared=made.shared_log)
            faults.logs.append(log)
            return log

        made.new_log = new_log
        try:
            made.run(operated(made))
        except BaseException as error:
            seen = faults.seen[number - 1] if 0 < number <= len(faults.seen) else "none"
            error.add_note(f"call {number} ({seen}) {fate}")
            raise
    return faults


def cases(operation: Operation) -> list[tuple[int, str]]:
    """Every call of an operation with every fate that it may have."""
    found = []
    for number, is_log in enumerate(play(operation).is_log, 1):
        found += [(number, fate) for fate in (LOG_FATES if is_log else STORAGE_FATES)]
    return found


def play_some(name: str, operation: Operation, count: int) -> None:
    """Play some of the cases, at most ``count``: those that ``name`` draws, always the same."""
    every = cases(operation)
    for number, fate in Random(name).sample(every, min(count, len(every))):
        play(operation, number, fate)


def play_every(operation: Operation) -> None:
    """Play every case of this share of a soak."""
    for number, fate in shared(cases(operation)):
        play(operation, number, fate)


def test_calls_of_every_kind_meet_faults() -> None:
    names = ("append and flush", "checkpoint", "collect", "optimise", "sweep")
    seen = {call.split()[0] for name in names for call in play(OPERATIONS[name]).seen}
    assert seen >= {"create", "write", "concat", "list", "read_into", "delete", "log"}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_some_calls_fail(name: str) -> None:
    play_some(name, OPERATIONS[name], SAMPLE)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_call_fails(name: str) -> None:
    play_every(OPERATIONS[name])
