"""One fault at a time, at every call of flushes that put many segments into shared chunks.

What may fail: one call to long-term storage, refused, lost, applied with its reply lost, or so slow
that its deadline passes and its effect comes late; one call to the log, lost, applied with its
reply lost, or refused since the log is full; or the process, before or after a call has had its
effect. Segments are deleted and truncated meanwhile. What must hold: the application repeats the
flush, and opens again when it has to; every byte is there, exactly-once writers have no duplicates,
the references of a chunk are the extents that name it, and whatever this owner put on storage has a
row or a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.container.container import Container
from siltstone.core.environment import Pool
from siltstone.core.errors import (
    ChunkError,
    ClosedError,
    LogError,
    OutcomeUnknownError,
    SegmentNotFoundError,
    StorageFullError,
)
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage, StorageCall
from siltstone.testing.faults.faulty_fenced_log import Fault, FaultPlan
from tests.support.container.container_world import (
    Owner,
    World,
    all_chunks,
    close_quietly,
    pattern,
    with_settings,
    world,
)
from tests.support.model.container_model import Model, ModelSegment, compare
from tests.support.soak import shared

PROFILES = {
    "write once": Profile(append=False, concat=False, seal=False),
    "append": Profile(),
}
NEVER = 1e6
SETTINGS = with_settings(
    chunk_bytes=2_000,
    flush_bytes=1 << 40,
    flush_age_s=NEVER,
    table_flush_age_s=NEVER,
    checkpoint_age_s=NEVER,
    garbage_interval_s=NEVER,
    garbage_delay_s=1.0,
    append_deadline_s=5.0,
)
TABLE = "table"
COUNT = 20
LENGTH = 130
"""So that a round fills more than one chunk."""

ATTEMPTS_MAX = 8
CALL_S = 0.02
LATE_S = 3 * SETTINGS.storage_deadline_s
SAMPLE = 2
"""Runs of each kind without ``soak``."""


@dataclass
class Trouble:
    """What goes wrong, at which call; counts calls while ``armed``.

    Attributes:
        number: the call that it happens at, 1 being the first.
        fate: what becomes of that call.
        crash: the process dies there.
        late: it takes longer than its deadline.
    """

    number: int = 0
    fate: Fate = Fate.DONE
    crash: bool = False
    late: bool = False
    armed: bool = False
    count: int = 0
    started: int = 0
    hit: str = ""
    dying: asyncio.Event = field(default_factory=asyncio.Event)

    def plan(self, call: StorageCall) -> Fate:
        if not self.armed:
            return Fate.DONE
        self.count += 1
        if self.count != self.number:
            return Fate.DONE
        self.hit = f"{call.operation} {call.name}"
        if self.crash:
            self.dying.set()
        return self.fate

    def latency(self, pool: Pool, chance: Random) -> float:
        if self.armed and pool.name.startswith("chunks"):
            self.started += 1
            if self.late and self.started == self.number:
                self.hit = "late"
                return LATE_S
        return CALL_S


class Life:
    """Many small segments, and how their application continues after a failure."""

    def __init__(self, made: World, trouble: Trouble, log_plan: FaultPlan) -> None:
        self.world = made
        self.trouble = trouble
        self.log_plan = log_plan
        self.owner: Owner | None = None
        self.model = Model()

    async def opened(self) -> Container:
        if self.owner is not None and self.owner.container.closed:
            await close_quietly(self.owner)
            self.owner = None
        if self.owner is None:
            self.owner = await self.world.open(plan=self.log_plan)
        return self.owner.container

    async def round(self, number: int) -> None:
        """A few bytes for each segment, by exactly-once writers, and a flush of all."""
        container = await self.opened()
        for index in range(COUNT):
            name = f"s{index:02d}"
            if name in self.model.segments:
                await self.append(container, name, number)
        await self.until_flushed(number)
        # While tier 1 is full, users are refused for a moment although the flush went on.
        await self.world.environment.sleep(2)
        container = await self.opened()
        for name in self.model.segments:
            await self.append(container, name, number, again=True)

    async def append(
        self, container: Container, name: str, number: int, *, again: bool = False
    ) -> None:
        segment = self.model.segments[name]
        data = pattern(number + len(name), LENGTH)
        writer = await container.register_writer(name, "w")
        offset = len(segment.data) - (LENGTH if again else 0)
        assert await container.append_as(name, writer.number, number, data) == offset
        if not again:
            segment.data += data

    async def until_flushed(self, number: int) -> None:
        """Flush, and again whenever it fails, while one segment goes and two are truncated."""
        gone, cut, beyond = f"s{number:02d}", f"s{number + 5:02d}", f"s{number + 10:02d}"
        for _ in range(ATTEMPTS_MAX):
            self.trouble.armed = True
            try:
                container = await self.opened()
                flushing = asyncio.create_task(self.flush(container))
                await self.world.environment.sleep(CALL_S / 4)
                changing = asyncio.create_task(self.change(container, gone, cut, beyond))
                results = await asyncio.gather(flushing, changing, return_exceptions=True)
                for result in results:
                    if isinstance(result, BaseException):
                        raise result
            except (ChunkError, LogError, ClosedError, OutcomeUnknownError) as error:
                if isinstance(error, StorageFullError):
                    await self.world.environment.sleep(2)
            else:
                self.trouble.armed = False
                self.model.segments.pop(gone, None)
                length = len(self.model.segments[beyond].data)
                self.model.segments[cut].start = length - LENGTH + 50
                self.model.segments[beyond].start = length
                return
        raise AssertionError("the flush never succeeds")

    async def flush(self, container: Container) -> None:
        work = asyncio.create_task(container.flush())
        dying = asyncio.create_task(self.trouble.dying.wait())
        await asyncio.wait([work, dying], return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
        if self.trouble.dying.is_set():
            self.trouble.dying.clear()
            assert self.owner is not None
            await self.world.crash(self.owner, keep_index=False)
            self.owner = None
        await work

    async def change(self, container: Container, gone: str, cut: str, beyond: str) -> None:
        with suppress(SegmentNotFoundError):
            await container.delete(gone)
        length = (await container.info(cut)).length
        await container.truncate(cut, length - LENGTH + 50)
        await container.truncate(beyond, (await container.info(beyond)).length)

    async def check(self) -> None:
        container = await self.opened()
        assert self.owner is not None
        await compare(self.model, container, TABLE)
        await container.collect()
        await container.flush()
        await self.world.environment.sleep(5)
        await container.collect()
        await self.world.check(self.owner)
        for info in await container.list_segments():
            assert info.flushed_length == info.length


async def live(life: Life) -> None:
    container = await life.opened()
    await container.create_table(TABLE)
    for index in range(COUNT):
        await container.create(f"s{index:02d}")
        life.model.segments[f"s{index:02d}"] = ModelSegment()
    for number in range(2):
        await life.round(number)
        await life.check()
    assert life.owner is not None
    shared = [chunk for chunk in all_chunks(life.owner.rows).values() if "/_shared/" in chunk.name]
    assert shared, "nothing was packed"
    reader = await life.world.open_reader()
    await compare(life.model, reader, TABLE)
    await reader.close()
    await life.owner.container.close()
    await life.check()
    for name in list(life.model.segments):
        container = await life.opened()
        await container.delete(name)
        del life.model.segments[name]
    await life.check()
    owner = life.owner
    assert not all_chunks(owner.rows)
    await close_quietly(owner)


def play(profile: str, trouble: Trouble, log_plan: FaultPlan | None = None) -> None:
    log_plan = log_plan or FaultPlan()

    def hook(storage: FaultyChunkStorage) -> None:
        storage.plan = trouble.plan

    with world(profile=PROFILES[profile], settings=SETTINGS, latency=trouble.latency) as made:
        made.storage_hook = hook
        life = Life(made, trouble, log_plan)
        try:
            made.run(live(life))
        except BaseException as error:
            error.add_note(f"{profile}: call {trouble.number} ({trouble.hit}) {trouble.fate}")
            raise


TROUBLES: dict[str, Callable[[int], Trouble]] = {
    "refused": lambda number: Trouble(number, Fate.REFUSED),
    "lost call": lambda number: Trouble(number, Fate.LOST_CALL),
    "lost reply": lambda number: Trouble(number, Fate.LOST_REPLY),
    "late": lambda number: Trouble(number, late=True),
    "crash before": lambda number: Trouble(number, Fate.LOST_CALL, crash=True),
    "crash after": lambda number: Trouble(number, Fate.LOST_REPLY, crash=True),
}
LOG_FAULTS: dict[str, tuple[bool, Exception]] = {
    "applied, not reported": (True, LogError("injected: lost reply")),
    "lost": (False, LogError("injected: lost call")),
    "full": (False, StorageFullError("injected: full")),
}


CASES = [(profile, kind) for profile in PROFILES for kind in TROUBLES]
LOG_CASES = [(profile, fault) for profile in PROFILES for fault in LOG_FAULTS]


def fail_storage(profile: str, kind: str, sample: int | None) -> None:
    quiet = Trouble()
    play(profile, quiet)
    count = quiet.started if kind == "late" else quiet.count
    for number in some_of(range(1, count + 1), sample):
        play(profile, TROUBLES[kind](number))


def fail_log(profile: str, fault: str, sample: int | None) -> None:
    quiet, counting, numbers = Trouble(), FaultPlan(), []

    def count(method: str, number: int) -> None:
        if quiet.armed and method == "append":
            numbers.append(number)

    counting.before = count
    play(profile, quiet, counting)
    for number in some_of(numbers, sample):
        applied, error = LOG_FAULTS[fault]
        plan = FaultPlan(faults={("append", number): Fault(applied=applied, error=error)})
        play(profile, Trouble(number, hit=f"log append, {fault}"), plan)


def some_of(numbers: Sequence[int], sample: int | None) -> Sequence[int]:
    if sample is None:
        return shared(numbers)
    return Random(len(numbers)).sample(numbers, min(sample, len(numbers)))


@pytest.mark.parametrize("profile", list(PROFILES))
def test_nothing_fails(profile: str) -> None:
    play(profile, Trouble())


@pytest.mark.parametrize(("profile", "kind"), CASES)
def test_one_storage_call_fails(profile: str, kind: str) -> None:
    fail_storage(profile, kind, SAMPLE)


@pytest.mark.parametrize(("profile", "fault"), LOG_CASES)
def test_one_log_call_fails(profile: str, fault: str) -> None:
    fail_log(profile, fault, SAMPLE)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("profile", "kind"), CASES)
def test_every_storage_call_fails(profile: str, kind: str) -> None:
    fail_storage(profile, kind, None)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("profile", "fault"), LOG_CASES)
def test_every_log_call_fails(profile: str, fault: str) -> None:
    fail_log(profile, fault, None)
