"""A concat of many extents: hidden slices, one transaction that shows them, and undoing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import (
    LogError,
    OffsetError,
    SegmentNotFoundError,
    SegmentNotSealedError,
    SegmentTruncatedError,
)
from siltstone.core.records.layout_change import LayoutChange
from siltstone.core.records.table_record import TableEntry
from siltstone.segments.concat_staging import PLACED_PER_SLICE, Joining
from siltstone.segments.page_cache_reads import NearReads
from siltstone.segments.rewrite_plan import RelocationRules
from tests.support import inside
from tests.support.oracles.memory_layout_store import CommitOutcome
from tests.support.segments.segment_world import World, small, two_segments, write_chunks

COUNT = 2 * PLACED_PER_SLICE + 11
EXTRA = (TableEntry(0, b"entry", b"1"),)


async def prepared(target: int = 5, source: int = COUNT, start: int = 0) -> tuple[World, bytes]:
    """A target and a sealed source with a chunk for each byte; the source is cut at ``start``."""
    world = World(settings=small(1))
    whole = await two_segments(world, target, source)
    world.layouts.change(2, start_offset=start)
    world.calls.clear()
    world.layouts.commits.clear()
    return world, whole[:target] + whole[target + start :]


def joining(target: int = 5, start: int = 0) -> Joining:
    return Joining(target_id=1, source_id=2, offset=target, start=start)


async def place_all(world: World, what: Joining) -> int:
    await world.segments.close_chunk(2)
    steps = 1
    while not await world.segments.place(what, extra=EXTRA):
        steps += 1
    return steps


def rows_of(world: World) -> list[int]:
    """Rows that each transaction changed."""
    return [
        len(c.extents_removed) + len(c.extents_put) + len(c.chunks_put) + len(c.chunks_dropped)
        for c in world.layouts.commits
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("target", "start"), [(5, 0), (0, 0), (5, 7), (0, COUNT - 1)])
async def test_slices_are_unseen_until_they_are_shown(target: int, start: int) -> None:
    world, whole = await prepared(target, COUNT, start)
    source = await world.read(2, start, 10**6)
    what = joining(target, start)
    await place_all(world, what)
    assert world.segments.has_placed(1)
    assert await world.read(1, 0, 10**6) == whole[:target]
    assert await world.read(2, start, 10**6) == source, "the source is whole until the end"
    assert len(world.segments.chunks(1)) == target
    near = NearReads(inside.context(world.segments), lambda *_: None)
    assert near.find(1, target) is None
    await world.segments.show(what, extra=EXTRA)
    place = near.find(1, target)
    assert place is not None
    assert (place.start, place.end) == (target, target + 1)
    assert not world.segments.has_placed(1)
    assert await world.read(1, 0, 10**6) == whole
    assert {call.verb for call in world.calls} <= {"read_into", "seal"}
    assert world.layouts.extra == [*EXTRA, *EXTRA]
    assert max(rows_of(world)) <= ROWS_PER_SLICE
    world.layouts.change(2, deleted=True)
    while not await world.segments.remove(2):
        pass
    del world.layouts.states[2]
    assert await world.read(1, 0, 10**6) == whole
    assert all(chunk.references == 1 for chunk in world.layouts.rows.chunks.values())
    await world.segments.write(1, len(whole), [b"more"])
    assert await world.read(1, 0, 10**6) == whole + b"more"
    world.check()


async def _unplace(world: World) -> None:
    while not await world.segments.unplace(1, extra=EXTRA):
        pass


async def _write(world: World) -> None:
    await world.segments.write(1, 5, [b"!"])


async def _skip(world: World) -> None:
    world.layouts.change(1, start_offset=9)
    await world.segments.skip(1, 9)


async def _delete(world: World) -> None:
    world.layouts.change(1, deleted=True)
    while not await world.segments.remove(1):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("after", [_unplace, _write, _skip, _delete])
@pytest.mark.parametrize("slices", [1, 2, 3])
async def test_what_was_not_shown_goes_without_a_trace(
    after: Callable[[World], object], slices: int
) -> None:
    world, _ = await prepared()
    source = await world.read(2, 0, 10**6)
    await world.segments.close_chunk(2)
    for _ in range(slices):
        await world.segments.place(joining(), extra=EXTRA)
    await after(world)  # type: ignore[misc]
    assert not world.segments.has_placed(1)
    assert await world.read(2, 0, 10**6) == source
    mine = {extent.chunk_id for extent in world.layouts.rows.extents[2]}
    rows = world.layouts.rows.chunks
    assert all(rows[chunk_id].references == 1 for chunk_id in mine)
    assert not mine & {chunk.chunk_id for chunk in world.layouts.garbage}
    assert max(rows_of(world)) <= ROWS_PER_SLICE
    world.check()
    with pytest.raises((OffsetError, SegmentNotFoundError)):
        await world.segments.show(joining())
    if after is _write:
        assert (await world.read(1, 0, 99))[-1:] == b"!"


@pytest.mark.slow
@pytest.mark.parametrize("slices", [1, 2, 3])
async def test_what_was_not_shown_of_an_empty_target_goes_as_well(slices: int) -> None:
    """The placed extents of an empty target begin at 0; there is no offset below to look at."""
    world, _ = await prepared(target=0)
    await world.segments.close_chunk(2)
    for _ in range(slices):
        await world.segments.place(joining(0), extra=EXTRA)
    await _unplace(world)
    assert not world.segments.has_placed(1)
    assert all(chunk.references == 1 for chunk in world.layouts.rows.chunks.values())
    world.check()


async def test_chunks_that_only_the_placed_extents_name_are_garbage_when_they_go() -> None:
    world, _ = await prepared(source=450)
    await place_all(world, joining())
    world.layouts.change(2, deleted=True)
    while not await world.segments.remove(2):
        pass
    assert world.layouts.garbage == []
    await _unplace(world)
    assert len(world.layouts.garbage) == 450
    world.check()


async def test_a_concat_that_cannot_continue_says_so() -> None:
    world, _ = await prepared(source=450)
    world.layouts.change(2, sealed_length=451)
    with pytest.raises(OffsetError, match="not flushed"):
        await world.segments.place(joining())
    world.layouts.change(2, sealed_length=450)
    with pytest.raises(OffsetError, match="another flushed length"):
        await world.segments.place(joining(target=4))
    with pytest.raises(OffsetError, match="not placed"):
        await world.segments.show(joining())
    with pytest.raises(SegmentNotSealedError):
        await world.segments.place(Joining(target_id=2, source_id=1, offset=450, start=0))
    world.layouts.change(2, start_offset=9)
    await world.segments.trim(2, 9)
    with pytest.raises(OffsetError, match="truncated"):
        await world.segments.place(joining())
    world.layouts.change(2, deleted=True)
    with pytest.raises(SegmentNotFoundError):
        await world.segments.place(joining(start=9))
    assert not world.segments.has_placed(1)
    world.check()


async def test_nothing_is_placed_while_the_source_ends_in_an_open_chunk() -> None:
    world = World(settings=small(10))
    await two_segments(world, 5, 25)
    with pytest.raises(OffsetError, match="is open") as caught:
        await world.segments.place(joining())
    assert (caught.value.expected, caught.value.actual) == (25, 20)
    assert not world.segments.has_placed(1)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"segment_id": 2, "deleted": True}, SegmentNotFoundError),
        ({"segment_id": 1, "deleted": True}, SegmentNotFoundError),
        ({"segment_id": 2, "start_offset": 9}, OffsetError),
    ],
)
@pytest.mark.parametrize("many", [False, True])
async def test_either_may_change_at_the_very_end(
    many: bool, change: dict[str, int], error: type[Exception]
) -> None:
    world, _ = await prepared(source=450 if many else 50)
    if many:
        await place_all(world, joining())
    commit = world.layouts.commit

    async def late(planned: LayoutChange) -> bool:
        world.layouts.change(**change)  # type: ignore[arg-type]
        return await commit(planned)

    world.layouts.commit = late  # type: ignore[method-assign, assignment]
    end = world.segments.show if many else world.segments.concat
    with pytest.raises(error):
        await end(joining())
    assert world.layouts.layout(1).storage_length == 5


@pytest.mark.slow
@pytest.mark.parametrize("outcome", [CommitOutcome.LOST, CommitOutcome.APPLIED_UNREPORTED])
async def test_an_owner_that_ends_anywhere_leaves_it_done_or_undone(outcome: CommitOutcome) -> None:
    number = 0
    while True:
        number += 1
        world, whole = await prepared(source=450)
        seen = 0

        def ends(_: object, number: int = number) -> CommitOutcome:
            nonlocal seen
            seen += 1
            return outcome if seen == number else CommitOutcome.APPLIED

        world.layouts.ends = ends
        try:
            await place_all(world, joining())
            await world.segments.show(joining())
        except LogError:
            pass
        else:
            break
        world.layouts.epoch += 1
        world.layouts.ends = lambda _: CommitOutcome.APPLIED
        next_owner = World(bucket=world.bucket, layouts=world.layouts, settings=small(1))
        next_owner.check()
        shown = world.layouts.layout(1).storage_length > 5
        found = await next_owner.read(1, 0, 10**6)
        assert found == (whole if shown else whole[:5])
        await next_owner.segments.write(1, len(found), [b"!"])
        assert await next_owner.read(1, 0, 10**6) == found + b"!"
        assert not next_owner.segments.has_placed(1)
        next_owner.check()
    assert number >= 4


async def test_trims_of_the_target_continue_meanwhile() -> None:
    world, whole = await prepared(source=450)
    await world.segments.close_chunk(2)
    await world.segments.place(joining())
    world.layouts.change(1, start_offset=5)
    assert await world.segments.trim(1, 5)
    world.check()
    await place_all(world, joining())
    await world.segments.show(joining())
    assert await world.read(1, 5, 10**6) == whole[5:]
    with pytest.raises(SegmentTruncatedError):
        await world.read(1, 4, 1)
    world.check()


@pytest.mark.slow
async def test_extents_of_a_merged_source_are_placed_where_they_are_now() -> None:
    world = World()
    target = await write_chunks(world, 1, [5])
    source = await write_chunks(world, 2, [10] * 500)
    world.layouts.change(2, sealed_length=5_000, start_offset=13)
    what = Joining(target_id=1, source_id=2, offset=5, start=13)
    await place_all(world, what)
    await world.segments.show(what)
    assert await world.read(1, 0, 10**6) == target + source[13:]
    world.check()


async def test_a_concat_at_once_takes_what_others_left_away_first() -> None:
    """From both: the source may have been the target of a concat that gave up."""
    for left in (1, 2):
        world = World()
        target = await write_chunks(world, 1, [5])
        source = await write_chunks(world, 2, [10] * 3)
        await write_chunks(world, 3, [7] * 3)
        world.layouts.change(3, sealed_length=21)
        offset = world.layouts.layout(left).storage_length
        await world.segments.place(world.joining(offset, left, 3))
        world.layouts.change(2, sealed_length=30)
        await world.segments.concat(world.joining(5))
        del world.layouts.states[2]
        assert await world.read(1, 0, 99) == target + source
        assert not world.segments.has_placed(left)
        world.check()


async def test_what_is_not_shown_is_not_relocated() -> None:
    world = World()
    world.layouts.add(1)
    await write_chunks(world, 2, [50])
    world.layouts.change(2, sealed_length=50)
    await world.segments.place(world.joining(0))
    world.layouts.change(1, start_offset=40)
    rules = RelocationRules(chunk_bytes_min=1, chunk_bytes_max=99, percent=1, live_bytes_max=99)
    assert world.segments.plan_relocation(1, rules) is None
