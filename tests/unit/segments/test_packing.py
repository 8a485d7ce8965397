"""Several segments in one chunk: what it costs, what it leaves, and which calls wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.chunk_names import epoch_of, segment_folder, shared_chunk
from siltstone.core.constants import BLOCK_BYTES, KIB, ROWS_PER_SLICE
from siltstone.core.errors import ChunkUnavailableError, CorruptDataError, LogError
from siltstone.core.records.layout_change import LayoutChange
from siltstone.core.records.writer_row import WriterRow
from siltstone.segments.concat_staging import Joining
from siltstone.segments.pack import PackedRun, in_slices, place
from tests.support.oracles.memory_layout_store import CommitOutcome
from tests.support.segments.segment_world import Call, Fault, World, data, small

WRITE_ONCE = Profile(append=False, concat=False, seal=False)


def run_of(world: World, segment_id: int, length: int) -> PackedRun:
    offset = world.layouts.layout(segment_id).storage_length
    whole = data(length, segment_id)
    return PackedRun(
        segment_id=segment_id,
        offset=offset,
        length=length,
        buffers=(whole[: length // 2], whole[length // 2 :]),
    )


async def pack(world: World, ids: Sequence[int], length: int = 10) -> int:
    for segment_id in ids:
        if world.layouts.state(segment_id) is None:
            world.layouts.add(segment_id)
    return await world.segments.write_packed([run_of(world, each, length) for each in ids])


def references(world: World) -> list[int]:
    return [chunk.references for chunk in world.layouts.rows.chunks.values()]


async def drop(world: World, segment_id: int) -> None:
    world.layouts.change(segment_id, deleted=True)
    while not await world.segments.remove(segment_id):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("profile", [WRITE_ONCE, Profile()])
async def test_a_thousand_small_segments_are_one_create(profile: Profile) -> None:
    world = World(profile)
    ids = range(1, 1_001)
    assert await pack(world, ids, KIB) == 1_000
    assert [call.verb for call in world.calls] == ["create"]
    assert world.calls[0].length == 1_000 * KIB
    (chunk,) = world.layouts.rows.chunks.values()
    assert (chunk.references, chunk.length, chunk.closed) == (1_000, 1_000 * KIB, True)
    for segment_id in ids:
        assert await world.read(segment_id, 0, 2 * KIB) == data(KIB, segment_id)
    rows = [len(c.chunks_put) + len(c.extents_put) + 1 for c in world.layouts.commits]
    assert sum(rows) <= 2 * 1_000 + 1_000 // (ROWS_PER_SLICE // 2)


def test_the_name_of_a_shared_chunk() -> None:
    name = shared_chunk(3, 7, 1_000, 0x2A)
    assert name == (
        "data/c3/e00000000000000000007/_shared/00000000000000001000-000000000000002a.chunk"
    )
    assert epoch_of(name) == 7
    for segment in ("_shared", "shared", "_shared/x", "é_shared", "/shared", ""):
        assert not (segment_folder(segment) + "/").startswith("_shared/")


def test_slices_hold_whole_runs_and_few_rows() -> None:
    world = World()
    row = WriterRow(segment_id=1, number=7, name="w", sequence=3, offset=4, length=6)
    runs = [
        PackedRun(segment_id=n, offset=0, length=1, buffers=(b"x",), writers=(row,) * (n % 5))
        for n in range(1, 50)
    ]
    slices = in_slices(place(runs), 9)
    assert [each.run for some in slices for each in some] == runs
    assert [each.chunk_offset for some in slices for each in some] == list(range(49))
    assert all(sum(2 + len(each.run.writers) for each in some) <= 9 for some in slices)
    assert all(len(some) == 1 for some in in_slices(place(runs), 1))
    assert in_slices([]) == []
    assert not world.calls


async def test_writers_and_lengths_go_with_each_run() -> None:
    world = World()
    for segment_id in (1, 2):
        world.layouts.add(segment_id)
    row = WriterRow(segment_id=2, number=7, name="w", sequence=3, offset=0, length=4)
    runs = [
        PackedRun(segment_id=1, offset=0, length=3, buffers=(b"abc",)),
        PackedRun(segment_id=2, offset=0, length=4, buffers=(b"defg",), writers=(row,)),
    ]
    assert await world.segments.write_packed(runs) == 2
    assert world.layouts.rows.writers == {(2, 7): row}
    assert world.chunk_lengths(2) == [4]
    (entry,) = world.segments.chunks(2)
    assert (entry.extent.chunk_offset, entry.chunk.length) == (3, 7)
    world.check()


def while_creating(world: World, then: Callable[[], None]) -> None:
    """Call ``then`` in the middle of the next create."""

    def decide(call: Call) -> Fault | None:
        if call.verb == "create":
            then()
        return None

    world.storage.decide = decide


@pytest.mark.parametrize("gone", [{2}, {1, 3}, {1, 2, 3, 4}, {1, 2, 3}])
async def test_segments_deleted_meanwhile_have_no_reference(gone: set[int]) -> None:
    world = World()

    def delete() -> None:
        for segment_id in gone:
            world.layouts.change(segment_id, deleted=True)

    while_creating(world, delete)
    assert await pack(world, [1, 2, 3, 4]) == 4 - len(gone)
    world.check()
    assert references(world) == ([4 - len(gone)] if len(gone) < 4 else [])
    abandoned = [new.name for new in world.segments.take_abandoned()]
    assert len(abandoned) == (len(gone) == 4)
    for segment_id in {1, 2, 3, 4} - gone:
        assert await world.read(segment_id, 0, 99) == data(10, segment_id)


@pytest.mark.parametrize(("start", "taken"), [(5, 3), (9, 3), (10, 2), (12, 2)])
async def test_segments_truncated_meanwhile(start: int, taken: int) -> None:
    world = World()
    while_creating(world, lambda: world.layouts.change(2, start_offset=start))
    assert await pack(world, [1, 2, 3]) == taken
    world.check()
    assert references(world) == [taken]
    if taken == 3:
        assert await world.read(2, start, 99) == data(10, 2)[start:]
    else:
        assert world.layouts.layout(2).storage_length == 0


async def test_what_is_gone_before_is_not_written() -> None:
    world = World()
    for segment_id in (1, 2, 3, 4):
        world.layouts.add(segment_id)
    runs = [run_of(world, segment_id, 10) for segment_id in (1, 2, 3, 4)]
    world.layouts.change(1, deleted=True)
    world.layouts.change(2, start_offset=10)
    await world.segments.write(3, 0, [data(10, 3)])
    world.calls.clear()
    assert await world.segments.write_packed(runs) == 0
    assert not world.calls, "one run alone is no pack"
    assert world.chunk_lengths(4) == []


async def test_a_damaged_segment_keeps_no_other_from_its_flush(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.layouts.add(1)
    await world.segments.write(1, 0, [b"before"])
    lost = world.layouts.layout(1).last_chunk_id
    chunk = world.layouts.chunk
    monkeypatch.setattr(world.layouts, "chunk", lambda n: None if n == lost else chunk(n))
    assert await pack(world, [1, 2, 3]) == 2
    assert world.layouts.layout(1).storage_length == 6
    with pytest.raises(CorruptDataError):
        await world.segments.write(1, 6, [b"more"])
    monkeypatch.undo()
    world.check()


async def test_references_fall_to_nothing() -> None:
    world = World()
    await pack(world, [1, 2, 3])
    world.layouts.change(1, start_offset=10)
    assert await world.segments.trim(1, 10)
    assert references(world) == [2]
    await drop(world, 2)
    assert references(world) == [1]
    assert world.layouts.garbage == []
    world.layouts.change(3, start_offset=4)
    assert await world.segments.trim(3, 4)
    assert references(world) == [1], "a part of it is readable"
    world.check()
    await drop(world, 3)
    assert references(world) == []
    assert len(world.layouts.garbage) == 1


async def test_droppings_at_the_same_time_count_right() -> None:
    world = World()
    ids = range(1, 21)
    await pack(world, ids)
    await asyncio.gather(*(drop(world, segment_id) for segment_id in ids))
    assert references(world) == []
    assert len(world.layouts.garbage) == 1


async def test_concat_of_two_that_share_a_chunk() -> None:
    world = World()
    await pack(world, [1, 2, 3])
    world.layouts.change(2, start_offset=4, sealed_length=10)
    await world.segments.concat(Joining(target_id=1, source_id=2, offset=10, start=4))
    assert references(world) == [3]
    assert await world.read(1, 0, 99) == data(10, 1) + data(10, 2)[4:]
    world.check()
    world.layouts.change(1, start_offset=16)
    assert await world.segments.trim(1, 16)
    assert references(world) == [1]
    assert await world.read(3, 0, 99) == data(10, 3)
    world.check()


async def test_a_segment_after_which_a_concat_has_placed_extents_is_passed_over() -> None:
    world = World()
    await pack(world, [1, 2, 3, 4])
    world.layouts.change(2, sealed_length=10)
    joining = Joining(target_id=1, source_id=2, offset=10, start=0)
    assert await world.segments.place(joining)
    assert references(world) == [5], "the source and the target name it"
    assert await pack(world, [1, 3, 4]) == 2
    world.check()
    await world.segments.show(joining)
    assert await world.read(1, 0, 99) == data(10, 1) + data(10, 2)
    world.layouts.change(2, deleted=True)
    await drop(world, 2)
    assert references(world) == [4, 2]
    world.check()


async def test_the_next_flush_goes_to_a_chunk_of_its_own() -> None:
    world = World()
    await pack(world, [1, 2])
    assert not world.segments.takes_append(1)
    await world.segments.write(1, 10, [b"more"])
    assert world.segments.takes_append(1)
    first, second = world.segments.chunks(1)
    assert (first.chunk.references, second.chunk.references) == (2, 1)
    assert await world.read(1, 0, 99) == data(10, 1) + b"more"
    world.check()


async def test_an_open_chunk_is_closed_and_sealed_by_a_pack() -> None:
    world = World()
    world.layouts.add(1)
    await world.segments.write(1, 0, [b"before"])
    (entry,) = world.segments.chunks(1)
    assert not entry.chunk.closed
    assert await pack(world, [1, 2]) == 2
    own, shared = world.segments.chunks(1)
    assert own.chunk.closed
    assert shared.chunk.references == 2
    assert world.bucket.chunks[own.chunk.name.encode()].is_sealed
    world.check()


async def test_a_segment_that_is_being_changed_is_passed_over() -> None:
    world = World()
    for segment_id in (1, 2, 3, 4):
        world.layouts.add(segment_id)
    async with world.segments.lock(2):
        waiter = asyncio.create_task(world.segments.write(2, 0, [data(10, 2)]))
        assert await pack(world, [1, 2, 3]) == 2
    # Released, but promised to the waiter, which has not run yet.
    assert await pack(world, [2, 4]) == 0
    assert await waiter == 10
    assert world.chunk_lengths(2) == [10]
    assert world.chunk_lengths(4) == []
    world.check()


async def test_others_wait_for_a_pack_and_then_continue() -> None:
    world = World()
    await pack(world, [1, 2])

    async def write_next() -> int:
        return await world.segments.write(2, 20, [b"!"])

    async with asyncio.TaskGroup() as group:
        packing = group.create_task(pack(world, [1, 2]))
        writing = group.create_task(write_next())
        removing = group.create_task(drop(world, 1))
    assert packing.result() == 1, "the other one was deleted before it was stated"
    assert writing.result() == 21
    assert removing.done()
    assert references(world) == [1, 1, 1]
    world.check()


async def test_more_than_a_chunk_is_refused() -> None:
    world = World(settings=small(19))
    for segment_id in (1, 2):
        world.layouts.add(segment_id)
    with pytest.raises(ValueError, match="more than a chunk"):
        await pack(world, [1, 2], 10)


async def test_every_slice_leaves_right_references() -> None:
    """The layout store checks all rows at each of its transactions."""
    world = World()
    seen: list[list[int]] = []

    def ends(change: LayoutChange) -> CommitOutcome:
        seen.append(references(world))
        return CommitOutcome.APPLIED

    world.layouts.ends = ends
    assert await pack(world, range(1, 1_201), 1) == 1_200
    assert seen == [[], [500], [1_000]]
    assert references(world) == [1_200]


@pytest.mark.slow
@pytest.mark.parametrize("outcome", [CommitOutcome.LOST, CommitOutcome.APPLIED_UNREPORTED])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_an_owner_stops_between_slices(outcome: CommitOutcome, number: int) -> None:
    world = World()
    count = 0

    def ends(change: LayoutChange) -> CommitOutcome:
        nonlocal count
        count += 1
        return outcome if count == number else CommitOutcome.APPLIED

    world.layouts.ends = ends
    with pytest.raises(LogError):
        await pack(world, range(1, 1_201), 1)
    applied = number - (outcome is CommitOutcome.LOST)
    assert references(world) == ([min(1_200, 500 * applied)] if applied else [])
    world.layouts.ends = lambda _: CommitOutcome.APPLIED
    world.layouts.epoch = 2
    left = [n for n in range(1, 1_201) if not world.layouts.layout(n).storage_length]
    if left:
        assert await pack(world, left, 1) == len(left)
    assert sum(references(world)) == 1_200
    world.check()


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_create_that_fails_burns_its_name(fault: Fault) -> None:
    world = World()

    def decide(call: Call) -> Fault | None:
        return fault if len(world.calls) == 1 else None

    world.storage.decide = decide
    try:
        taken = await pack(world, [1, 2, 3])
    except ChunkUnavailableError:
        assert fault is Fault.REFUSED
        assert world.layouts.rows.chunks == {}
        taken = await pack(world, [1, 2, 3])
    assert taken == 3
    burnt = {new.name for new in world.segments.take_abandoned()}
    named = {chunk.name for chunk in world.layouts.rows.chunks.values()}
    assert not named & burnt
    assert {key.decode() for key in world.bucket.chunks} <= named | burnt
    world.check()


async def test_damage_of_one_block_hurts_only_segments_that_lie_in_it() -> None:
    world = World()
    length = BLOCK_BYTES // 4 + 1
    await pack(world, range(1, 9), length)
    (chunk,) = world.layouts.rows.chunks.values()
    world.content(chunk.name)[BLOCK_BYTES + 5] ^= 1
    for segment_id in range(1, 9):
        start = (segment_id - 1) * length
        touched = start < 2 * BLOCK_BYTES and start + length > BLOCK_BYTES
        if touched:
            with pytest.raises(CorruptDataError):
                await world.read(segment_id, 0, length)
        else:
            assert await world.read(segment_id, 0, length) == data(length, segment_id)


async def test_a_cancelled_pack_is_carried_to_its_end() -> None:
    world = World()
    for segment_id in (1, 2):
        world.layouts.add(segment_id)
    gate, started = asyncio.Event(), asyncio.Event()
    commit_all = world.layouts.commit_all

    async def held(plan: Callable[[], tuple[LayoutChange, ...]]) -> tuple[LayoutChange, ...]:
        started.set()
        await gate.wait()
        return await commit_all(plan)

    world.layouts.commit_all = held  # type: ignore[method-assign]
    packing = asyncio.create_task(pack(world, [1, 2]))
    await started.wait()
    packing.cancel()
    await asyncio.sleep(0)
    assert world.segments.lock(1).locked()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await packing
    assert references(world) == [2]
    assert world.segments.take_abandoned() == []
    assert not world.segments.lock(1).locked()
