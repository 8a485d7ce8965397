"""The segment layer end to end over memory: cutting, moving on, reading, trimming, joining."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.environment import Pool
from siltstone.core.errors import (
    CapabilityError,
    ChunkUnavailableError,
    CorruptDataError,
    LogError,
    LostDataError,
    OffsetError,
    SegmentNotFoundError,
    SegmentNotSealedError,
    SegmentSealedError,
    SegmentTruncatedError,
)
from siltstone.core.operations.write import CREATE_ATTEMPTS
from siltstone.core.records.layout_change import LayoutChange
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow
from siltstone.core.segment_storage import ChunkProblem, SegmentStorageSettings
from siltstone.core.words import BLOCK_BYTES, MIB, ROWS_PER_SLICE
from siltstone.testing.memory_layout_store import CommitOutcome, MemoryLayoutStore
from tests.unit.core.segment_world import Call, Fault, InlineEnvironment, World

T = TypeVar("T")
WRITE_ONCE = Profile(append=False, concat=False, seal=False)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def small(chunk_bytes: int) -> SegmentStorageSettings:
    return SegmentStorageSettings(chunk_bytes=chunk_bytes)


def data(length: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(length)


async def write_pieces(world: World, pieces: Sequence[int]) -> bytes:
    """Write one segment in pieces; return what it then holds."""
    world.layouts.add(1)
    whole = data(sum(pieces))
    offset = 0
    for length in pieces:
        offset = await world.segments.write(1, offset, [whole[offset : offset + length]])
    world.check()
    assert await world.read(1, 0, len(whole) + 1) == whole
    return whole


@pytest.mark.parametrize(
    ("profile", "chunk_bytes", "pieces", "chunks"),
    [
        (Profile(), 100, [10, 20, 30], [60]),
        (Profile(), 20, [10, 10, 10], [20, 10]),
        (Profile(), 20, [15, 10], [15, 10]),
        (Profile(), 20, [50], [20, 20, 10]),
        (Profile(), 20, [5, 50, 5], [5, 20, 20, 15]),
        (Profile(chunk_bytes_max=10), 100, [25], [10, 10, 5]),
        (Profile(appends_max=2), 100, [1, 2, 3, 4, 5], [3, 7, 5]),
        (Profile(appends_max=1), 100, [1, 2], [1, 2]),
        (WRITE_ONCE, 2, [1, 2, 3, 4], [1, 2, 2, 1, 2, 2]),
    ],
)
def test_chunks_of_writes(
    profile: Profile, chunk_bytes: int, pieces: list[int], chunks: list[int]
) -> None:
    async def test() -> None:
        world = World(profile, settings=small(chunk_bytes))
        await write_pieces(world, pieces)
        assert world.chunk_lengths() == chunks

    run(test())


def test_chunks_are_cut_at_borders_of_appends() -> None:
    async def test() -> None:
        world = World(settings=small(100))
        world.layouts.add(1)
        await world.segments.write(1, 0, [data(130)], cuts=[40, 70, 125])
        assert world.chunk_lengths() == [70, 60]
        assert len(world.layouts.commits) == 1

    run(test())


def test_a_flush_is_one_call_and_one_transaction() -> None:
    async def test() -> None:
        world = World()
        world.layouts.add(1)
        whole = data(8 * MIB)
        parts = [whole[start : start + 100_000] for start in range(0, len(whole), 100_000)]
        for flush in range(2):
            await world.segments.write(1, flush * len(whole), parts)
            assert len(world.calls) == len(world.layouts.commits) == flush + 1
        first, second = world.layouts.commits
        assert [len(patch.sums) for patch in first.sums] == [32]
        assert [(patch.first_block, len(patch.sums)) for patch in second.sums] == [(32, 32)]
        assert len(second.extents_put) == len(second.chunks_put) == 1
        world.check()

    run(test())


def test_buffers_are_passed_through() -> None:
    async def test() -> None:
        world = World()
        world.layouts.add(1)
        seen: list[object] = []
        create = world.storage.inner.create

        def spy(name: str, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
            seen.extend(buffer.obj for buffer in buffers if isinstance(buffer, memoryview))
            create(name, buffers)

        world.storage.inner.create = spy  # type: ignore[method-assign]
        parts: list[bytes | bytearray] = [b"a" * 10, bytearray(b"b" * 10), b""]
        await world.segments.write(1, 0, parts)
        assert seen == parts[:2]
        assert all(one is other for one, other in zip(seen, parts, strict=False))

    run(test())


def test_write_of_nothing_does_nothing() -> None:
    async def test() -> None:
        world = World()
        world.layouts.add(1)
        assert await world.segments.write(1, 0, [b"", b""]) == 0
        assert not world.calls
        assert not world.layouts.commits

    run(test())


def test_write_elsewhere_than_at_the_flushed_length() -> None:
    async def test() -> None:
        world = World()
        await write_pieces(world, [10])
        with pytest.raises(OffsetError) as caught:
            await world.segments.write(1, 9, [b"x"])
        assert (caught.value.expected, caught.value.actual) == (10, 9)

    run(test())


def test_another_epoch_begins_a_new_chunk() -> None:
    async def test() -> None:
        world = World()
        await write_pieces(world, [10])
        world.layouts.epoch = 2
        await world.segments.write(1, 10, [b"x" * 5])
        assert world.chunk_lengths() == [10, 5]
        old, new = (entry.chunk for entry in world.segments.chunks(1))
        assert (old.epoch, old.closed, new.epoch, new.closed) == (1, True, 2, False)
        world.check()

    run(test())


def test_an_adopted_chunk_is_never_appended_to() -> None:
    async def test() -> None:
        world = World()
        await write_pieces(world, [10])
        rows = world.layouts.rows
        (chunk,) = rows.chunks.values()
        rows.chunks[chunk.chunk_id] = replace(chunk, adopted=True, epoch=0)
        await world.segments.write(1, 10, [b"x" * 5])
        assert world.chunk_lengths() == [10, 5]

    run(test())


def fail(verb: str, *faults: Fault) -> Any:
    """Let the first calls of a verb fail one after the other."""
    left = list(faults)

    def decide(call: Call) -> Fault | None:
        return left.pop(0) if call.verb == verb and left else None

    return decide


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.UNREPORTED, Fault.PARTIAL, Fault.LATE])
def test_after_an_unknown_append_the_chunk_is_left(fault: Fault) -> None:
    async def test() -> None:
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

    run(test())


def test_a_chunk_stays_spoilt_when_the_write_fails_after_it() -> None:
    async def test() -> None:
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

    run(test())


def test_a_refused_append_may_be_repeated() -> None:
    async def test() -> None:
        world = World()
        await write_pieces(world, [10])
        world.storage.decide = fail("write", Fault.REFUSED)
        with pytest.raises(ChunkUnavailableError):
            await world.segments.write(1, 10, [b"x"])
        await world.segments.write(1, 10, [b"x"])
        assert world.chunk_lengths() == [11]

    run(test())


def test_garbage_behind_the_committed_length_is_passed() -> None:
    async def test() -> None:
        world = World()
        whole = await write_pieces(world, [10])
        (entry,) = world.segments.chunks(1)
        world.content(entry.chunk.name).extend(b"garbage")
        await world.segments.write(1, 10, [b"tail"])
        assert world.chunk_lengths() == [10, 4]
        assert await world.read(1, 0, 99) == whole + b"tail"
        world.check()

    run(test())


def test_a_chunk_that_lost_bytes_is_reported_and_then_left() -> None:
    async def test() -> None:
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

    run(test())


def test_a_sealed_chunk_is_left() -> None:
    async def test() -> None:
        world = World()
        await write_pieces(world, [10])
        world.storage.inner.seal(world.segments.chunks(1)[0].chunk.name)
        await world.segments.write(1, 10, [b"tail"])
        assert world.chunk_lengths() == [10, 4]

    run(test())


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.UNREPORTED, Fault.PARTIAL, Fault.LATE])
def test_an_unknown_create_burns_the_name(fault: Fault) -> None:
    async def test() -> None:
        world = World()
        world.storage.decide = fail("create", *[fault] * (CREATE_ATTEMPTS - 1))
        await write_pieces(world, [10])
        names = [call.name for call in world.calls if call.verb == "create"]
        assert len(set(names)) == CREATE_ATTEMPTS
        assert [new.name for new in world.segments.take_abandoned()] == names[:-1]
        assert world.segments.take_abandoned() == []

    run(test())


def test_creates_that_stay_unknown_are_an_error() -> None:
    async def test() -> None:
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

    run(test())


def test_a_refused_create_leaves_nothing_behind() -> None:
    async def test() -> None:
        world = World()
        world.layouts.add(1)
        world.storage.decide = fail("create", Fault.REFUSED)
        with pytest.raises(ChunkUnavailableError):
            await world.segments.write(1, 0, [b"x"])
        assert world.segments.take_abandoned() == []
        assert await world.segments.write(1, 0, [b"x"]) == 1

    run(test())


def test_a_name_that_is_taken_is_left_alone() -> None:
    async def test() -> None:
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

    run(test())


def test_a_segment_deleted_during_a_write() -> None:
    async def test() -> None:
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

    run(test())


@pytest.mark.parametrize("outcome", [CommitOutcome.LOST, CommitOutcome.APPLIED_UNREPORTED])
def test_a_new_chunk_of_an_unknown_commit_is_not_garbage(outcome: CommitOutcome) -> None:
    async def test() -> None:
        world = World()
        world.layouts.add(1)
        world.layouts.ends = lambda _: outcome
        with pytest.raises(LogError):
            await world.segments.write(1, 0, [b"tail"])
        assert world.segments.take_abandoned() == []

    run(test())


@pytest.mark.parametrize("outcome", [CommitOutcome.LOST, CommitOutcome.APPLIED_UNREPORTED])
def test_chunks_of_an_unknown_commit_are_not_garbage(outcome: CommitOutcome) -> None:
    async def test() -> None:
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

    run(test())


class GatedEnvironment(InlineEnvironment):
    """Lets no answer through while the gate is shut."""

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
def test_a_cancelled_write_waits_and_commits_nothing(first: int) -> None:
    async def test() -> None:
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

    run(test())


def test_a_cancelled_commit_is_waited_for() -> None:
    async def test() -> None:
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

    run(test())


def test_concat_waits_for_both_segments() -> None:
    async def test() -> None:
        world = World()
        await two_segments(world, 5, 5)
        for segment_id in (1, 2):
            async with world.segments.lock(segment_id):
                concat = asyncio.ensure_future(
                    world.segments.concat(1, 2, expected_target_length=5)
                )
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not concat.done()
                concat.cancel()
        assert world.layouts.layout(1).storage_length == 5

    run(test())


def test_writers_go_with_the_flushed_length() -> None:
    async def test() -> None:
        world = World()
        world.layouts.add(1)
        row = WriterRow(segment_id=1, number=7, name="w", sequence=3, offset=4, length=6)
        await world.segments.write(1, 0, [data(10)], writers=(row,))
        assert world.layouts.commits[-1].writers == (row,)

    run(test())


def test_dead_bytes_are_passed_over() -> None:
    async def test() -> None:
        world = World(settings=small(10))
        whole = await write_pieces(world, [30])
        row = WriterRow(segment_id=1, number=7, name="w")
        world.layouts.change(1, start_offset=45)
        more = data(30, 2)
        assert await world.segments.write(1, 30, [more], writers=(row,)) == 60
        layout = world.layouts.layout(1)
        assert (layout.storage_start, layout.storage_length) == (45, 60)
        assert await world.read(1, 45, 99) == more[15:]
        assert len(world.layouts.garbage) == 3
        assert [commit.writers for commit in world.layouts.commits[1:]] == [(), (row,)]
        with pytest.raises(SegmentTruncatedError):
            await world.read(1, 44, 1)
        world.layouts.change(1, start_offset=100)
        assert await world.segments.write(1, 60, [whole], writers=(row,)) == 90
        assert world.layouts.layout(1).storage_start == 90
        assert world.layouts.rows.chunks == {}
        world.check()

    run(test())


def test_skip() -> None:
    async def test() -> None:
        world = World(settings=small(10))
        await write_pieces(world, [30])
        with pytest.raises(ValueError, match="readable"):
            await world.segments.skip(1, 40)
        world.layouts.change(1, start_offset=50)
        row = WriterRow(segment_id=1, number=7, name="w")
        await world.segments.skip(1, 40, writers=(row,))
        await world.segments.skip(1, 40)
        assert world.layouts.layout(1).storage_length == 40
        assert world.layouts.rows.writers == {(1, 7): row}
        assert await world.segments.write(1, 40, [data(20)]) == 60
        assert await world.read(1, 50, 99) == data(20)[10:]
        world.layouts.change(1, deleted=True)
        with pytest.raises(SegmentNotFoundError):
            await world.segments.skip(1, 41)

    run(test())


def test_trim_drops_what_lies_wholly_below() -> None:
    async def test() -> None:
        world = World(settings=small(10))
        whole = await write_pieces(world, [35])
        world.layouts.change(1, start_offset=25)
        with pytest.raises(ValueError, match="readable"):
            await world.segments.trim(1, 26)
        assert await world.segments.trim(1, 25)
        assert world.chunk_lengths() == [10, 5]
        assert len(world.layouts.garbage) == 2
        commits = len(world.layouts.commits)
        assert await world.segments.trim(1, 25)
        assert len(world.layouts.commits) == commits
        assert await world.read(1, 25, 99) == whole[25:]
        world.layouts.change(1, start_offset=35)
        assert await world.segments.trim(1, 35)
        assert world.layouts.layout(1).last_chunk_id == 0
        await world.segments.write(1, 35, [b"new"])
        assert await world.read(1, 35, 99) == b"new"
        world.layouts.change(1, deleted=True)
        assert await world.segments.trim(1, 35)
        world.check()

    run(test())


def test_long_trims_and_removals_go_in_slices() -> None:
    async def test() -> None:
        world = World(settings=small(1))
        world.layouts.add(1)
        count = ROWS_PER_SLICE + 10
        await world.segments.write(1, 0, [data(count)])
        world.layouts.change(1, start_offset=count - 5)
        steps = 1
        while not await world.segments.trim(1, count - 5):
            steps += 1
        assert steps == 3
        rows = [len(c.extents_removed) + len(c.chunks_dropped) for c in world.layouts.commits[1:]]
        assert max(rows) == ROWS_PER_SLICE
        assert len(world.chunk_lengths()) == 5
        world.layouts.change(1, deleted=True)
        extra = TableEntry(0, b"state", None)
        assert await world.segments.remove(1, extra=(extra,))
        assert world.layouts.extra == [extra]
        assert len(world.layouts.garbage) == count

    run(test())


def test_remove_in_slices_carries_extra_with_the_last() -> None:
    async def test() -> None:
        world = World(settings=small(1))
        world.layouts.add(1)
        await world.segments.write(1, 0, [data(600)])
        with pytest.raises(ValueError, match="not deleted"):
            await world.segments.remove(1)
        world.layouts.change(1, deleted=True)
        extra = TableEntry(0, b"state", None)
        assert not await world.segments.remove(1, extra=(extra,))
        assert world.layouts.extra == []
        world.check()
        assert await world.segments.remove(1, extra=(extra,))
        assert world.layouts.extra == [extra]
        assert world.layouts.rows.layouts == {}
        assert world.layouts.rows.chunks == {}
        del world.layouts.states[1]
        assert await world.segments.remove(1)

    run(test())


async def two_segments(world: World, target: int, source: int) -> bytes:
    for segment_id, length in ((1, target), (2, source)):
        world.layouts.add(segment_id)
        if length:
            await world.segments.write(segment_id, 0, [data(length, segment_id)])
    world.layouts.change(2, sealed_length=source)
    return data(target, 1) + data(source, 2)


@pytest.mark.parametrize(("target", "source"), [(0, 0), (0, 25), (25, 0), (15, 25)])
def test_concat(target: int, source: int) -> None:
    async def test() -> None:
        world = World(settings=small(10))
        whole = await two_segments(world, target, source)
        calls = len(world.calls)
        extra = (TableEntry(0, b"tombstone", b"2"),)
        where = await world.segments.concat(1, 2, expected_target_length=target, extra=extra)
        assert where == target
        assert len(world.calls) == calls
        assert world.layouts.extra == list(extra)
        del world.layouts.states[2]
        assert 2 not in world.layouts.rows.layouts
        assert await world.read(1, 0, 99) == whole
        await world.segments.write(1, len(whole), [b"more"])
        assert await world.read(1, 0, 99) == whole + b"more"
        assert sum(call.verb == "write" for call in world.calls) == 0
        world.check()

    run(test())


def test_concat_of_a_truncated_source_moves_what_is_readable() -> None:
    async def test() -> None:
        world = World(settings=small(10))
        whole = await two_segments(world, 15, 25)
        world.layouts.change(2, start_offset=13)
        assert await world.segments.concat(1, 2, expected_target_length=15) == 15
        assert await world.read(1, 0, 99) == whole[:15] + whole[28:]
        assert len(world.layouts.garbage) == 1
        world.check()

    run(test())


def test_concat_refuses_before_anything_is_changed() -> None:
    async def test() -> None:
        world = World(settings=small(1))
        await two_segments(world, 5, ROWS_PER_SLICE + 1)
        commits = len(world.layouts.commits)
        with pytest.raises(CapabilityError, match="limit=1000"):
            await world.segments.concat(1, 2, expected_target_length=5)
        with pytest.raises(OffsetError):
            await world.segments.concat(1, 2, expected_target_length=4)
        with pytest.raises(SegmentNotSealedError):
            await world.segments.concat(2, 1, expected_target_length=ROWS_PER_SLICE + 1)
        world.layouts.change(1, sealed_length=5)
        with pytest.raises(SegmentSealedError):
            await world.segments.concat(1, 2, expected_target_length=5)
        with pytest.raises(ValueError, match="itself"):
            await world.segments.concat(1, 1, expected_target_length=5)
        world.layouts.change(2, sealed_length=ROWS_PER_SLICE + 2)
        world.layouts.states[1] = world.layouts.add(1)
        with pytest.raises(OffsetError, match="not flushed"):
            await world.segments.concat(1, 2, expected_target_length=5)
        world.layouts.change(2, deleted=True)
        with pytest.raises(SegmentNotFoundError):
            await world.segments.concat(1, 2, expected_target_length=5)
        assert len(world.layouts.commits) == commits

    run(test())


def test_concat_of_exactly_the_limit() -> None:
    async def test() -> None:
        world = World(settings=small(1))
        whole = await two_segments(world, 3, ROWS_PER_SLICE)
        await world.segments.concat(1, 2, expected_target_length=3)
        assert await world.read(1, 0, 2_000) == whole

    run(test())


def test_two_segments_let_go_of_a_shared_chunk_at_once() -> None:
    async def test() -> None:
        world = World()
        await write_pieces(world, [10])
        rows, commit = world.layouts.rows, world.layouts.commit
        (entry,) = world.segments.chunks(1)
        world.layouts.add(2)
        rows.layouts[1] = replace(rows.layouts[1], last_chunk_id=0)
        rows.layouts[2] = replace(rows.layouts[1], segment_id=2)
        rows.extents[2] = [replace(entry.extent, segment_id=2)]
        rows.chunks[1] = replace(entry.chunk, references=2)
        world.check()

        async def slow(change: LayoutChange) -> bool:
            for _ in range(5):
                await asyncio.sleep(0)
            return await commit(change)

        world.layouts.commit = slow  # type: ignore[method-assign]
        world.layouts.change(1, deleted=True)
        world.layouts.change(2, deleted=True)
        await asyncio.gather(world.segments.remove(1), world.segments.remove(2))
        assert [chunk.chunk_id for chunk in world.layouts.garbage] == [1]
        assert world.layouts.rows.chunks == {}

    run(test())


def test_read_borders() -> None:
    async def test() -> None:
        world = World()
        whole = await write_pieces(world, [10])
        assert await world.read(1, 10, 5) == b""
        assert await world.read(1, 3, 0) == b""
        assert await world.read(1, 9, 5) == whole[9:]
        with pytest.raises(OffsetError):
            await world.read(1, 11, 5)
        with pytest.raises(SegmentNotFoundError):
            await world.read(5, 0, 1)
        world.layouts.change(1, deleted=True)
        with pytest.raises(SegmentNotFoundError):
            await world.read(1, 0, 1)

    run(test())


BORDERS = [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES, 700_000]


def test_reads_at_every_border_of_blocks_and_chunks() -> None:
    async def test() -> None:
        world = World(settings=small(700_000))
        whole = await write_pieces(world, [700_000, 300_000])
        for start in BORDERS:
            for end in [*BORDERS, 700_001, 700_000 + BLOCK_BYTES, 1_000_000]:
                if start < end:
                    assert await world.read(1, start, end - start) == whole[start:end]

    run(test())


def test_an_aligned_read_is_one_call_into_the_callers_buffer() -> None:
    async def test() -> None:
        world = World()
        whole = await write_pieces(world, [20 * MIB])
        for offset, length, calls in [
            (0, 8 * MIB, 1),
            (8 * MIB, 8 * MIB, 1),
            (16 * MIB, 4 * MIB, 1),
            (100, 8 * MIB, 3),
            (100, 64 * 1024, 2),
            (100, 64 * 1024, 2),
        ]:
            del world.calls[:]
            assert await world.read(1, offset, length) == whole[offset : offset + length]
            reads = [call for call in world.calls if call.verb == "read_into" or length < MIB]
            assert len(reads) == calls
        assert world.calls[0].length == 64 * 1024

    run(test())


def test_remembered_blocks() -> None:
    async def test() -> None:
        world = World()
        await write_pieces(world, [2 * BLOCK_BYTES])
        (entry,) = world.segments.chunks(1)

        async def bytes_read(offset: int) -> int:
            del world.calls[:]
            await world.read(1, offset, 10)
            return sum(call.length for call in world.calls)

        assert await bytes_read(5) == BLOCK_BYTES
        assert await bytes_read(50) == 10
        assert await bytes_read(BLOCK_BYTES + 5) == BLOCK_BYTES
        world.environment.now = 300
        assert await bytes_read(50) == 10
        world.environment.now = 601
        assert await bytes_read(50) == BLOCK_BYTES
        assert await bytes_read(50) == 10
        world.content(entry.chunk.name)[50] ^= 1
        world.bucket.chunks[entry.chunk.name.encode()].version += 1_000
        with pytest.raises(CorruptDataError):
            await bytes_read(50)

    run(test())


def test_what_is_always_verified() -> None:
    async def test() -> None:
        world = World(settings=SegmentStorageSettings(verify_reads="always"))
        await write_pieces(world, [BLOCK_BYTES])
        for _ in range(2):
            del world.calls[:]
            await world.read(1, 5, 10)
            assert [(call.verb, call.length) for call in world.calls] == [
                ("read_into", BLOCK_BYTES)
            ]

    run(test())


def test_the_growing_block_is_never_remembered() -> None:
    async def test() -> None:
        world = World()
        await write_pieces(world, [100])
        (entry,) = world.segments.chunks(1)
        world.storage.inner.write(entry.chunk.name, 100, [b"not committed yet"])
        for _ in range(2):
            await world.read(1, 5, 10)
            assert world.calls[-1].length == 100

    run(test())


def test_never_verified() -> None:
    async def test() -> None:
        world = World(settings=SegmentStorageSettings(verify_reads="never"))
        await write_pieces(world, [1000])
        world.content(world.segments.chunks(1)[0].chunk.name)[50] ^= 1
        assert len(await world.read(1, 50, 1)) == 1
        assert world.calls[-1].length == 1

    run(test())


@pytest.mark.parametrize("start", [0, 5])
def test_every_flipped_byte_is_found(start: int) -> None:
    async def test() -> None:
        world = World(settings=small(40))
        whole = await write_pieces(world, [40, 40, 20])
        for entry in world.segments.chunks(1):
            content = world.content(entry.chunk.name)
            for index in range(len(content)):
                content[index] ^= 0x10
                with pytest.raises(CorruptDataError) as caught:
                    await world.read(1, start, 100)
                assert entry.chunk.name in str(caught.value)
                assert "block=0" in str(caught.value)
                assert "expected=" in str(caught.value)
                assert "found=" in str(caught.value)
                content[index] ^= 0x10
            content[0] ^= 1
            for other in world.segments.chunks(1):
                if other != entry:
                    extent = other.extent
                    assert (
                        await world.read(1, extent.start, extent.length)
                        == whole[extent.start : extent.end]
                    )
            content[0] ^= 1

    run(test())


@pytest.mark.parametrize("offset", [0, 5, BLOCK_BYTES, BLOCK_BYTES + 5])
def test_one_bad_answer_is_read_again(offset: int) -> None:
    async def test() -> None:
        world = World()
        whole = await write_pieces(world, [3 * BLOCK_BYTES])
        inner, bad = world.storage.inner.read_into, [True]

        def read_into(name: str, at: int, buffer: memoryview | bytearray) -> int:
            count = inner(name, at, buffer)
            if bad and bad.pop():
                buffer[count // 2] ^= 1
            return count

        world.storage.inner.read_into = read_into  # type: ignore[assignment, method-assign]
        length = 3 * BLOCK_BYTES - offset
        assert await world.read(1, offset, length) == whole[offset:]

    run(test())


def test_chunks_that_vanish_or_shrink() -> None:
    async def test() -> None:
        world = World(settings=small(40))
        whole = await write_pieces(world, [40, 40, 40])
        first, second, third = (entry.chunk.name for entry in world.segments.chunks(1))
        del world.content(second)[39:]
        with pytest.raises(LostDataError, match="shorter"):
            await world.read(1, 45, 10)
        del world.content(second)[:]
        with pytest.raises(LostDataError, match="shorter"):
            await world.read(1, 0, 120)
        world.storage.inner.delete(second)
        del world.calls[:]
        with pytest.raises(LostDataError, match="not exist") as caught:
            await world.read(1, 0, 120)
        assert caught.value.where == second
        assert sum(call.name == second for call in world.calls) == 1
        assert await world.read(1, 0, 40) == whole[:40]
        assert await world.read(1, 80, 40) == whole[80:]
        assert first != third

    run(test())


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        ({"start_offset": 40}, SegmentTruncatedError),
        ({"deleted": True}, SegmentNotFoundError),
        ({"start_offset": 5}, LostDataError),
    ],
)
def test_a_chunk_that_vanished_for_a_reason(
    meanwhile: dict[str, Any], error: type[Exception]
) -> None:
    async def test() -> None:
        world = World(settings=small(40))
        await write_pieces(world, [40, 40])
        name = world.segments.chunks(1)[0].chunk.name
        world.storage.inner.delete(name)

        def truncate(_: Call) -> None:
            world.layouts.change(1, **meanwhile)

        world.storage.decide = truncate
        with pytest.raises(error):
            await world.read(1, 10, 30)

    run(test())


def test_a_chunk_that_was_replaced_is_looked_up_again() -> None:
    async def test() -> None:
        world = World()
        whole = await write_pieces(world, [40])
        (entry,) = world.segments.chunks(1)
        new = replace(entry.chunk, chunk_id=99, name=entry.chunk.name + "-copy")
        world.storage.inner.create(new.name, [whole])
        world.storage.inner.delete(entry.chunk.name)

        def merge(_: Call) -> None:
            rows = world.layouts.rows
            rows.extents[1] = [replace(entry.extent, chunk_id=99)]
            rows.chunks, rows.sums = {99: new}, {99: list(entry.sums)}

        world.storage.decide = merge
        assert await world.read(1, 0, 40) == whole

    run(test())


def test_verify_chunk() -> None:
    async def test() -> None:
        world = World()
        await write_pieces(world, [9 * MIB + 5])
        (entry,) = world.segments.chunks(1)
        chunk = entry.chunk
        assert await world.segments.verify_chunk(chunk) is None
        world.content(chunk.name)[8 * MIB + 7] ^= 1
        finding = await world.segments.verify_chunk(chunk)
        assert finding is not None
        assert finding.problem is ChunkProblem.DAMAGED
        assert "block=32" in finding.message
        del world.content(chunk.name)[-1]
        finding = await world.segments.verify_chunk(chunk)
        assert finding is not None
        assert finding.problem is ChunkProblem.SHORT
        world.storage.inner.delete(chunk.name)
        finding = await world.segments.verify_chunk(chunk)
        assert finding is not None
        assert finding.problem is ChunkProblem.MISSING

    run(test())


def test_locks_live_as_long_as_somebody_uses_them() -> None:
    async def test() -> None:
        world = World()
        lock = world.segments.lock(1)
        assert world.segments.lock(1) is lock
        assert world.segments.lock(2) is not lock
        known = id(lock)
        async with world.segments.lock(1):
            del lock
            assert id(world.segments.lock(1)) == known

    run(test())
