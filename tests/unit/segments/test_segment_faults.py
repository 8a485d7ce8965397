"""Writes whose calls fail or whose caller leaves: what is left, and what may be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from siltstone.core.environment import Pool
from siltstone.core.errors import (
    ChunkUnavailableError,
    LogError,
    LostDataError,
    SegmentNotFoundError,
)
from siltstone.core.records.layout_change import LayoutChange
from siltstone.segments.chunk_writes import CREATE_ATTEMPTS
from tests.support.oracles.memory_layout_store import CommitOutcome, MemoryLayoutStore
from tests.support.segments.segment_world import (
    Call,
    Fault,
    InlineEnvironment,
    World,
    data,
    small,
    write_pieces,
)

T = TypeVar("T")


def fail(verb: str, *faults: Fault) -> Any:
    """Let the first calls of a verb fail one after the other."""
    left = list(faults)

    def decide(call: Call) -> Fault | None:
        return left.pop(0) if call.verb == verb and left else None

    return decide


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.UNREPORTED, Fault.PARTIAL, Fault.LATE])
async def test_after_an_unknown_append_the_chunk_is_left(fault: Fault) -> None:
    world = World()
    whole = await write_pieces(world, [300_000])
    world.storage.decide = fail("write", fault)
    more = data(300_000, 2)
    assert await world.segments.write(1, len(whole), [more]) == 600_000
    await world.segments.write(1, 600_000, [b"end"])
    world.check()
    assert world.chunk_lengths() == [300_000, 300_003]
    first = world.segments.chunks(1)[0].chunk
    assert first.closed
    assert await world.read(1, 0, 700_000) == whole + more + b"end"
    assert [call.verb for call in world.calls if call.name == first.name][:2] == [
        "create",
        "read_into",
    ]
    assert sum(call.verb == "write" for call in world.calls if call.name == first.name) == 1


async def test_a_chunk_stays_spoilt_when_the_write_fails_after_it() -> None:
    world = World()
    await write_pieces(world, [10])
    faults = {"write": Fault.LOST, "create": Fault.REFUSED}
    world.storage.decide = lambda call: faults.get(call.verb)
    with pytest.raises(ChunkUnavailableError):
        await world.segments.write(1, 10, [b"x"])
    assert len(world.layouts.commits) == 1
    world.storage.decide = lambda _: None
    await world.segments.write(1, 10, [b"x"])
    assert sum(call.verb == "write" for call in world.calls) == 1
    assert world.chunk_lengths() == [10, 1]
    world.check()


async def test_a_refused_append_may_be_repeated() -> None:
    world = World()
    await write_pieces(world, [10])
    world.storage.decide = fail("write", Fault.REFUSED)
    with pytest.raises(ChunkUnavailableError):
        await world.segments.write(1, 10, [b"x"])
    await world.segments.write(1, 10, [b"x"])
    assert world.chunk_lengths() == [11]


async def test_garbage_after_the_committed_length_is_passed() -> None:
    world = World()
    whole = await write_pieces(world, [10])
    (entry,) = world.segments.chunks(1)
    world.content(entry.chunk.name).extend(b"garbage")
    await world.segments.write(1, 10, [b"tail"])
    assert world.chunk_lengths() == [10, 4]
    assert await world.read(1, 0, 99) == whole + b"tail"
    world.check()


async def test_a_chunk_that_lost_bytes_is_reported_and_then_left() -> None:
    for damage in ("short", "gone"):
        world = World()
        await write_pieces(world, [10])
        (entry,) = world.segments.chunks(1)
        if damage == "short":
            del world.content(entry.chunk.name)[7:]
        else:
            world.storage.inner.delete(entry.chunk.name)
        with pytest.raises(LostDataError):
            await world.segments.write(1, 10, [b"tail"])
        assert len(world.layouts.commits) == 1
        await world.segments.write(1, 10, [b"tail"])
        assert await world.read(1, 10, 9) == b"tail"
        with pytest.raises(LostDataError):
            await world.read(1, 0, 9)


async def test_a_sealed_chunk_is_left() -> None:
    world = World()
    await write_pieces(world, [10])
    world.storage.inner.seal(world.segments.chunks(1)[0].chunk.name)
    await world.segments.write(1, 10, [b"tail"])
    assert world.chunk_lengths() == [10, 4]


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.UNREPORTED, Fault.PARTIAL, Fault.LATE])
async def test_an_unknown_create_burns_the_name(fault: Fault) -> None:
    world = World()
    world.storage.decide = fail("create", *[fault] * (CREATE_ATTEMPTS - 1))
    await write_pieces(world, [10])
    names = [call.name for call in world.calls if call.verb == "create"]
    assert len(set(names)) == CREATE_ATTEMPTS
    assert [new.name for new in world.segments.take_abandoned()] == names[:-1]
    assert world.segments.take_abandoned() == []


async def test_creates_that_stay_unknown_are_an_error() -> None:
    world = World(settings=small(10))
    world.layouts.add(1)
    second = f"/{10:020d}-"
    world.storage.decide = lambda call: Fault.UNREPORTED if second in call.name else None
    with pytest.raises(ChunkUnavailableError):
        await world.segments.write(1, 0, [data(20)])
    assert not world.layouts.commits
    created = [call.name for call in world.calls]
    assert len(created) == CREATE_ATTEMPTS + 1
    assert sorted(new.name for new in world.segments.take_abandoned()) == sorted(created)


async def test_a_refused_create_leaves_nothing() -> None:
    world = World()
    world.layouts.add(1)
    world.storage.decide = fail("create", Fault.REFUSED)
    with pytest.raises(ChunkUnavailableError):
        await world.segments.write(1, 0, [b"x"])
    assert world.segments.take_abandoned() == []
    assert await world.segments.write(1, 0, [b"x"]) == 1


async def test_a_name_that_is_taken_is_left_alone() -> None:
    world = World()
    world.layouts.add(1)
    other = MemoryLayoutStore()
    other.add(1)
    taken = (await other.new_chunk(1, 0)).name
    world.storage.inner.create(taken, [b"foreign"])
    await world.segments.write(1, 0, [b"mine"])
    assert world.segments.take_abandoned() == []
    assert bytes(world.content(taken)) == b"foreign"
    assert await world.read(1, 0, 9) == b"mine"


async def test_a_segment_deleted_during_a_write() -> None:
    world = World(settings=small(10))
    world.layouts.add(1)
    world.layouts.ends = lambda _: CommitOutcome.REFUSED
    with pytest.raises(SegmentNotFoundError):
        await world.segments.write(1, 0, [data(25)])
    assert len(world.segments.take_abandoned()) == 3
    world.layouts.change(1, deleted=True)
    with pytest.raises(SegmentNotFoundError):
        await world.segments.write(1, 0, [data(25)])
    assert len(world.calls) == 3


@pytest.mark.parametrize("outcome", [CommitOutcome.LOST, CommitOutcome.APPLIED_UNREPORTED])
async def test_a_new_chunk_of_an_unknown_commit_is_not_garbage(outcome: CommitOutcome) -> None:
    world = World()
    world.layouts.add(1)
    world.layouts.ends = lambda _: outcome
    with pytest.raises(LogError):
        await world.segments.write(1, 0, [b"tail"])
    assert world.segments.take_abandoned() == []


@pytest.mark.parametrize("outcome", [CommitOutcome.LOST, CommitOutcome.APPLIED_UNREPORTED])
async def test_chunks_of_an_unknown_commit_are_not_garbage(outcome: CommitOutcome) -> None:
    world = World()
    await write_pieces(world, [10])
    world.layouts.ends = lambda _: outcome
    with pytest.raises(LogError):
        await world.segments.write(1, 10, [b"tail"])
    assert world.segments.take_abandoned() == []
    world.layouts.ends = lambda _: CommitOutcome.APPLIED
    flushed = world.layouts.layout(1).storage_length
    await world.segments.write(1, flushed, [b"more"])
    assert sum(call.verb == "write" for call in world.calls) == 1
    world.check()


class GatedEnvironment(InlineEnvironment):
    """Holds all answers while the gate is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()

    async def run_blocking(self, pool: Pool, call: Callable[[], T]) -> T:
        result = call()
        self.waiting.set()
        await self.gate.wait()
        return result


@pytest.mark.parametrize("first", [0, 10])
async def test_a_cancelled_write_waits_and_commits_nothing(first: int) -> None:
    environment = GatedEnvironment()
    world = World(environment=environment)
    await write_pieces(world, [first] if first else [])
    commits = len(world.layouts.commits)
    environment.gate.clear()
    environment.waiting.clear()
    write = asyncio.ensure_future(world.segments.write(1, first, [b"x"]))
    await environment.waiting.wait()
    write.cancel()
    await asyncio.sleep(0)
    assert world.segments.lock(1).locked()
    environment.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert len(world.layouts.commits) == commits
    assert len(world.segments.take_abandoned()) == (0 if first else 1)
    await world.segments.write(1, first, [b"new"])
    assert world.chunk_lengths() == ([10, 3] if first else [3])
    assert sum(call.verb == "write" for call in world.calls) == (1 if first else 0)
    world.check()


async def test_a_cancelled_commit_is_waited_for() -> None:
    world = World()
    world.layouts.add(1)
    commit, reached, gate = world.layouts.commit, asyncio.Event(), asyncio.Event()

    async def slow(change: LayoutChange) -> bool:
        reached.set()
        await gate.wait()
        return await commit(change)

    world.layouts.commit = slow  # type: ignore[method-assign]
    write = asyncio.ensure_future(world.segments.write(1, 0, [b"x"]))
    await reached.wait()
    write.cancel()
    await asyncio.sleep(0)
    assert world.segments.lock(1).locked()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert world.segments.take_abandoned() == []
    assert await world.read(1, 0, 9) == b"x"
