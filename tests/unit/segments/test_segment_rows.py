"""Trims, skips, removals and joins: slices, limits, shared chunks."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import (
    CapabilityError,
    LogError,
    OffsetError,
    SegmentNotFoundError,
    SegmentNotSealedError,
    SegmentSealedError,
    SegmentTruncatedError,
)
from siltstone.core.records.layout_change import LayoutChange
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow
from siltstone.segments.concat import CONCAT_EXTENTS_MAX
from siltstone.segments.concat_staging import Joining
from tests.support.oracles.memory_layout_store import CommitOutcome
from tests.support.segments.segment_world import (
    World,
    data,
    small,
    two_segments,
    write_pieces,
)


async def test_concat_waits_for_both_segments() -> None:
    world = World()
    await two_segments(world, 5, 5)
    for segment_id in (1, 2):
        async with world.segments.lock(segment_id):
            concat = asyncio.ensure_future(world.segments.concat(world.joining(5)))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not concat.done()
            concat.cancel()
    assert world.layouts.layout(1).storage_length == 5


async def test_dead_bytes_are_passed_over() -> None:
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


async def test_skip() -> None:
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


async def test_trim_drops_what_lies_wholly_below() -> None:
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


@pytest.mark.slow
async def test_long_trims_and_removals_go_in_slices() -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("outcome", [CommitOutcome.LOST, CommitOutcome.APPLIED_UNREPORTED])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
async def test_an_owner_that_ends_between_slices_leaves_the_rest_to_the_next(
    number: int, outcome: CommitOutcome
) -> None:
    """Two slices of a trim, then three of a removal; the next owner does the rest."""

    async def finish(world: World) -> None:
        while not await world.segments.trim(1, 700):
            pass
        assert await world.read(1, 700, 9_999) == whole[700:]
        world.layouts.change(1, deleted=True)
        while not await world.segments.remove(1):
            pass

    whole = data(1_800)
    world = World(settings=small(1))
    world.layouts.add(1)
    await world.segments.write(1, 0, [whole])
    world.layouts.change(1, start_offset=700)
    seen = 0

    def ends(_: LayoutChange) -> CommitOutcome:
        nonlocal seen
        seen += 1
        return outcome if seen == number else CommitOutcome.APPLIED

    world.layouts.ends = ends
    with pytest.raises(LogError):
        await finish(world)
    world.layouts.ends = lambda _: CommitOutcome.APPLIED
    world.layouts.epoch += 1
    world = World(bucket=world.bucket, layouts=world.layouts, settings=small(1))
    world.check()
    if world.layouts.states[1].deleted:
        while not await world.segments.remove(1):
            pass
    else:
        await finish(world)
    assert world.layouts.rows.layouts == {}
    assert len({chunk.chunk_id for chunk in world.layouts.garbage}) == len(whole)
    assert len(world.layouts.garbage) == len(whole)
    world.check()


async def test_remove_in_slices_carries_extra_with_the_last() -> None:
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


@pytest.mark.parametrize(("target", "source"), [(0, 0), (0, 25), (25, 0), (15, 25)])
async def test_concat(target: int, source: int) -> None:
    world = World(settings=small(10))
    whole = await two_segments(world, target, source)
    world.calls.clear()
    extra = (TableEntry(0, b"tombstone", b"2"),)
    await world.segments.concat(world.joining(target), extra=extra)
    assert {call.verb for call in world.calls} <= {"seal"}, "no byte is read or written"
    assert world.layouts.extra == list(extra)
    del world.layouts.states[2]
    assert 2 not in world.layouts.rows.layouts
    assert await world.read(1, 0, 99) == whole
    await world.segments.write(1, len(whole), [b"more"])
    assert await world.read(1, 0, 99) == whole + b"more"
    assert sum(call.verb == "write" for call in world.calls) == 0
    world.check()


async def test_concat_of_a_truncated_source_moves_what_is_readable() -> None:
    world = World(settings=small(10))
    whole = await two_segments(world, 15, 25)
    world.layouts.change(2, start_offset=13)
    with pytest.raises(OffsetError, match="truncated"):
        await world.segments.concat(Joining(target_id=1, source_id=2, offset=15, start=0))
    await world.segments.concat(world.joining(15))
    assert await world.read(1, 0, 99) == whole[:15] + whole[28:]
    assert len(world.layouts.garbage) == 1
    world.check()


async def test_concat_refuses_before_anything_is_changed() -> None:
    world = World(settings=small(1))
    await two_segments(world, 5, CONCAT_EXTENTS_MAX + 1)
    commits = len(world.layouts.commits)
    with pytest.raises(CapabilityError, match=f"limit={CONCAT_EXTENTS_MAX}"):
        await world.segments.concat(world.joining(5))
    with pytest.raises(OffsetError):
        await world.segments.concat(world.joining(4))
    with pytest.raises(SegmentNotSealedError):
        await world.segments.concat(world.joining(CONCAT_EXTENTS_MAX + 1, 2, 1))
    world.layouts.change(1, sealed_length=5)
    with pytest.raises(SegmentSealedError):
        await world.segments.concat(world.joining(5))
    with pytest.raises(ValueError, match="itself"):
        await world.segments.concat(world.joining(5, 1, 1))
    world.layouts.change(2, sealed_length=CONCAT_EXTENTS_MAX + 2)
    world.layouts.states[1] = world.layouts.add(1)
    with pytest.raises(OffsetError, match="not flushed"):
        await world.segments.concat(world.joining(5))
    world.layouts.change(2, deleted=True)
    with pytest.raises(SegmentNotFoundError):
        await world.segments.concat(world.joining(5))
    assert len(world.layouts.commits) == commits


async def test_concat_of_exactly_the_limit() -> None:
    world = World(settings=small(1))
    whole = await two_segments(world, 3, CONCAT_EXTENTS_MAX)
    await world.segments.concat(world.joining(3))
    assert await world.read(1, 0, 2_000) == whole
    change = world.layouts.commits[-1]
    rows = (*change.extents_removed, *change.extents_put, *change.chunks_put)
    assert len(rows) < ROWS_PER_SLICE


async def test_two_segments_let_go_of_a_shared_chunk_at_once() -> None:
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


async def test_locks_live_as_long_as_they_are_used() -> None:
    world = World()
    lock = world.segments.lock(1)
    assert world.segments.lock(1) is lock
    assert world.segments.lock(2) is not lock
    known = id(lock)
    async with world.segments.lock(1):
        del lock
        assert id(world.segments.lock(1)) == known
