"""Moving live bytes out of mostly dead shared chunks: what stays, goes, or fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import ChunkUnavailableError, CorruptDataError, LogError
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout_change import LayoutChange
from siltstone.segments.pack import PackedRun
from siltstone.segments.repack import MOVES_PER_SLICE, REPACK_EXTENTS_MAX
from tests.support.oracles.memory_layout_store import CommitOutcome
from tests.support.segments.segment_world import Call, Fault, World, data, small

WRITE_ONCE = Profile(append=False, concat=False, seal=False)
LENGTH = 10


async def pack(world: World, ids: Sequence[int]) -> None:
    runs = []
    for segment_id in ids:
        if world.layouts.state(segment_id) is None:
            world.layouts.add(segment_id)
        offset = world.layouts.layout(segment_id).storage_length
        part = data(LENGTH, segment_id + offset)
        runs.append(PackedRun(segment_id=segment_id, offset=offset, length=LENGTH, buffers=(part,)))
    assert await world.segments.write_packed(runs) == len(ids)


async def drop(world: World, ids: Sequence[int]) -> None:
    for segment_id in ids:
        world.layouts.change(segment_id, deleted=True)
        while not await world.segments.remove(segment_id):
            pass


def extents_of(world: World, ids: Sequence[int]) -> list[Extent]:
    return [e for n in ids for e in world.layouts.extents(n, 0, 10**9, 99)]


def references(world: World) -> list[int]:
    return [chunk.references for chunk in world.layouts.rows.chunks.values()]


async def sparse(profile: Profile = WRITE_ONCE) -> World:
    """Two shared chunks of ten segments, of which only 1 and 2 are alive."""
    world = World(profile)
    await pack(world, range(1, 11))
    await pack(world, range(1, 11))
    await drop(world, range(3, 11))
    world.calls.clear()
    return world


async def all_there(world: World, ids: Sequence[int] = (1, 2)) -> None:
    for segment_id in ids:
        whole = data(LENGTH, segment_id) + data(LENGTH, segment_id + LENGTH)
        assert await world.read(segment_id, 0, 99) == whole
    world.check()


@pytest.mark.parametrize("profile", [WRITE_ONCE, Profile()])
async def test_what_is_alive_moves_and_the_chunks_go(profile: Profile) -> None:
    world = await sparse(profile)
    assert await world.segments.repack(extents_of(world, [2, 1])) == 4
    assert [call.verb for call in world.calls if call.verb != "read_into"] == ["create"]
    assert references(world) == [4]
    assert len(world.layouts.garbage) == 2
    (chunk,) = world.layouts.rows.chunks.values()
    assert (chunk.length, chunk.closed) == (4 * LENGTH, True)
    await all_there(world)
    await drop(world, [1, 2])
    assert references(world) == []
    assert len(world.layouts.garbage) == 3


async def test_a_part_may_stay() -> None:
    world = await sparse()
    first, _, third, _ = extents_of(world, [1, 2])
    assert await world.segments.repack([third, first]) == 2
    assert references(world) == [2, 2]
    await all_there(world)


def while_creating(world: World, then: Callable[[], None]) -> None:
    def decide(call: Call) -> Fault | None:
        if call.verb == "create":
            then()
        return None

    world.storage.decide = decide


async def test_what_changed_meanwhile_stays_or_goes_its_own_way() -> None:
    world = await sparse()
    extents = extents_of(world, [1, 2])
    while_creating(world, lambda: world.layouts.change(1, deleted=True))
    assert await world.segments.repack(extents) == 2
    assert references(world) == [1, 1, 2]
    await all_there(world, [2])
    while not await world.segments.remove(1):
        pass
    assert references(world) == [2]
    assert await world.segments.repack(extents) == 0, "they are no longer there"
    assert world.segments.take_abandoned() == []
    await all_there(world, [2])


async def test_when_all_is_gone_the_new_chunk_is_abandoned() -> None:
    world = await sparse()

    def delete() -> None:
        world.layouts.change(1, deleted=True)
        world.layouts.change(2, deleted=True)

    while_creating(world, delete)
    assert await world.segments.repack(extents_of(world, [1, 2])) == 0
    (new,) = world.segments.take_abandoned()
    assert new.name.encode() in world.bucket.chunks
    world.check()


async def test_a_segment_that_is_being_changed_stays() -> None:
    world = await sparse()
    async with world.segments.lock(1):
        assert await world.segments.repack(extents_of(world, [1, 2])) == 2
    assert references(world) == [1, 1, 2]
    await all_there(world)


async def test_a_flush_continues_meanwhile() -> None:
    world = await sparse(Profile())
    extents = extents_of(world, [1, 2])
    moving = asyncio.create_task(world.segments.repack(extents))
    await world.segments.write(1, 2 * LENGTH, [b"more"])
    assert await moving >= 2
    assert await world.read(1, 2 * LENGTH, 99) == b"more"
    world.check()


async def test_an_open_chunk_is_left_alone() -> None:
    world = World()
    world.layouts.add(1)
    await world.segments.write(1, 0, [b"open"])
    assert await world.segments.repack(extents_of(world, [1])) == 0
    await world.segments.write(1, 4, [b" still"])
    assert world.chunk_lengths(1) == [10]
    world.check()


async def test_damage_keeps_no_other_from_moving() -> None:
    world = await sparse()
    extents = extents_of(world, [1, 2])
    broken = world.layouts.rows.chunks[extents[0].chunk_id].name
    world.content(broken)[0] ^= 1
    with pytest.raises(CorruptDataError):
        await world.segments.repack(extents)
    assert references(world) == [2, 2]
    assert len(world.layouts.garbage) == 1, "the other chunk is empty"
    assert next(chunk.name for chunk in world.layouts.rows.chunks.values()) == broken
    world.content(broken)[0] ^= 1
    await all_there(world)


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_create_that_fails_burns_its_name(fault: Fault) -> None:
    world = await sparse()
    left: list[Fault | None] = [fault]
    world.storage.decide = lambda call: left.pop() if left and call.verb == "create" else None
    extents = extents_of(world, [1, 2])
    try:
        moved = await world.segments.repack(extents)
    except ChunkUnavailableError:
        assert fault is Fault.REFUSED
        moved = await world.segments.repack(extents)
    assert moved == 4
    burnt = {new.name for new in world.segments.take_abandoned()}
    named = {chunk.name for chunk in world.layouts.rows.chunks.values()}
    named |= {chunk.name for chunk in world.layouts.garbage}
    assert not named & burnt
    assert {key.decode() for key in world.bucket.chunks} <= named | burnt
    await all_there(world)


@pytest.mark.slow
@pytest.mark.parametrize("outcome", [CommitOutcome.LOST, CommitOutcome.APPLIED_UNREPORTED])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_an_owner_stops_between_slices(outcome: CommitOutcome, number: int) -> None:
    """The layout store checks all rows at each of its transactions."""
    world = World(WRITE_ONCE)
    count = 2 * MOVES_PER_SLICE + 50
    await pack(world, range(1, count + 1))
    extents = extents_of(world, range(1, count + 1))
    rows: list[int] = []

    def ends(change: LayoutChange) -> CommitOutcome:
        rows.append(len(change.chunks_put) + len(change.chunks_dropped))
        return outcome if len(rows) == number else CommitOutcome.APPLIED

    world.layouts.ends = ends
    with pytest.raises(LogError):
        await world.segments.repack(extents)
    applied = min(count, (number - (outcome is CommitOutcome.LOST)) * MOVES_PER_SLICE)
    expected = [each for each in (count - applied, applied) if each]
    assert references(world) == expected
    assert max(rows) <= ROWS_PER_SLICE
    world.layouts.ends = lambda _: CommitOutcome.APPLIED
    world.check()
    assert await world.segments.repack(extents) == count - applied
    world.check()


async def test_more_than_a_chunk_is_refused() -> None:
    world = World(settings=small(15))
    extent = Extent(segment_id=1, start=0, chunk_id=1, chunk_offset=0, length=8)
    with pytest.raises(ValueError, match="more than a chunk takes"):
        await world.segments.repack([extent, extent])
    with pytest.raises(ValueError, match="more than a chunk takes"):
        await world.segments.repack([extent] * (REPACK_EXTENTS_MAX + 1))
