"""Which chunks result from writes, concats, merges and truncations, and their content.

Every row says how long the chunks are. The bytes are compared after each step with a plain
``bytes``, and every invariant is checked.
"""

from __future__ import annotations

from itertools import product

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.errors import OffsetError, SegmentTruncatedError
from siltstone.segments.rewrite_plan import MergeRules, RelocationRules
from tests.support.segments.segment_world import World, data, merge, small, write_chunks

PROFILES = {
    "append and concat": Profile(),
    "append": Profile(concat=False),
    "write once": Profile(append=False, concat=False, seal=False),
    "write once and concat": Profile(append=False, seal=False),
}
RULES = MergeRules(small_bytes=20, chunk_bytes=30, count_min=2)
"""At most 20 bytes are small, at most 30 fit into a chunk."""


async def whole_is(world: World, segment_id: int, whole: bytes) -> None:
    """The whole segment, and every part of it, is what was written."""
    start = world.layouts.states[segment_id].start_offset
    assert await world.read(segment_id, start, len(whole) + 9) == whole[start:]
    step = max(1, len(whole) // 12)
    for offset in range(start, len(whole), step):
        for length in (1, step, len(whole)):
            assert await world.read(segment_id, offset, length) == whole[offset : offset + length]
    world.check()


# --- writes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunk_bytes", "writes", "appended", "written_once"),
    [
        (2, [1, 2, 3, 4], [1, 2, 2, 1, 2, 2], [1, 2, 2, 1, 2, 2]),
        (1, [3], [1, 1, 1], [1, 1, 1]),
        (2, [1, 1, 1], [2, 1], [1, 1, 1]),
        (3, [1] * 7, [3, 3, 1], [1] * 7),
        (3, [3, 3], [3, 3], [3, 3]),
        (3, [7], [3, 3, 1], [3, 3, 1]),
        (100, [1, 2, 3, 4], [10], [1, 2, 3, 4]),
        (100, [10] * 5, [50], [10] * 5),
        (100, [100, 1], [100, 1], [100, 1]),
        (100, [99, 2], [99, 2], [99, 2]),
    ],
)
@pytest.mark.parametrize("name", sorted(PROFILES))
async def test_writes(
    name: str, chunk_bytes: int, writes: list[int], appended: list[int], written_once: list[int]
) -> None:
    profile = PROFILES[name]
    world = World(profile, settings=small(chunk_bytes))
    world.layouts.add(1)
    whole = data(sum(writes))
    offset = 0
    for length in writes:
        offset = await world.segments.write(1, offset, [whole[offset : offset + length]])
    assert world.chunk_lengths() == (appended if profile.append else written_once)
    await whole_is(world, 1, whole)


@pytest.mark.parametrize("name", ["append and concat", "append"])
async def test_a_stray_byte_after_each_write_costs_a_chunk_each(name: str) -> None:
    world = World(PROFILES[name], settings=small(20))
    world.layouts.add(1)
    whole = data(10)
    offset = 0
    for length in (1, 2, 3, 4):
        offset = await world.segments.write(1, offset, [whole[offset : offset + length]])
        spoil(world, 1, -1)
    assert world.chunk_lengths() == [1, 2, 3, 4]
    await whole_is(world, 1, whole)


def spoil(world: World, segment_id: int, index: int) -> None:
    """Put an uncommitted byte at the end of a chunk."""
    world.content(world.segments.chunks(segment_id)[index].chunk.name).extend(b"!")


@pytest.mark.parametrize("name", sorted(PROFILES))
@pytest.mark.parametrize("stray", [False, True])
async def test_every_owner_begins_a_chunk(name: str, stray: bool) -> None:
    world = World(PROFILES[name], settings=small(100))
    world.layouts.add(1)
    whole = data(30)
    for epoch in range(3):
        world.layouts.epoch = epoch + 1
        world = World(
            world.profile, bucket=world.bucket, layouts=world.layouts, settings=small(100)
        )
        await world.segments.write(1, 10 * epoch, [whole[10 * epoch : 10 * epoch + 10]])
        if stray:
            spoil(world, 1, -1)
    assert world.chunk_lengths() == [10, 10, 10]
    assert [entry.chunk.epoch for entry in world.segments.chunks(1)] == [1, 2, 3]
    await whole_is(world, 1, whole)


# --- concats, and the merges after them -----------------------------------------------------------

GRID: list[tuple[list[int], list[int], list[int]]] = [
    ([10], [1, 1, 1, 3, 1, 1, 3, 1, 3], [25]),
    ([1], [21, 21, 21], [1, 21, 21, 21]),
    ([30], [1, 2, 3, 4], [30, 10]),
    ([11], [12], [23]),
    ([10], [20], [30]),
    ([11], [12, 13], [23, 13]),
    ([11], [12, 5, 13], [28, 13]),
    ([11], [2, 2, 2, 2, 2, 2], [23]),
    ([11], [9, 10], [30]),
    ([20], [10, 10], [30, 10]),
    ([], [1, 2, 3], [6]),
    ([], [25], [25]),
    ([5], [], [5]),
    ([21, 5], [5, 21], [21, 10, 21]),
    ([2, 2, 25], [2, 2], [4, 25, 4]),
    ([15], [16, 14, 15], [15, 30, 15]),
]
"""Chunks of the target, of the source, and what they are after concat and merge."""


async def joined(world: World, target: list[int], source: list[int]) -> bytes:
    """Both segments joined, before any merge; the bytes."""
    whole = await write_chunks(world, 1, target) + await write_chunks(world, 2, source)
    world.layouts.change(2, sealed_length=sum(source))
    calls = len(world.calls)
    await world.segments.concat(world.joining(sum(target)))
    assert {call.verb for call in world.calls[calls:]} <= {"seal"}, "a concat moves no byte"
    del world.layouts.states[2]
    assert world.chunk_lengths() == target + source
    return whole


@pytest.mark.slow
@pytest.mark.parametrize(("target", "source", "merged"), GRID)
@pytest.mark.parametrize("name", sorted(PROFILES))
async def test_concat_and_merge(
    name: str, target: list[int], source: list[int], merged: list[int]
) -> None:
    world = World(PROFILES[name])
    whole = await joined(world, target, source)
    await whole_is(world, 1, whole)
    await merge(world, 1, RULES)
    assert world.chunk_lengths() == merged
    await whole_is(world, 1, whole)
    await world.segments.write(1, len(whole), [b"more"])
    await whole_is(world, 1, whole + b"more")


@pytest.mark.parametrize("dirty", [(0,), (1,), (4,), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("name", sorted(PROFILES))
async def test_bytes_that_were_not_committed_are_not_carried_over(
    name: str, dirty: tuple[int, ...]
) -> None:
    world = World(PROFILES[name])
    whole = await joined(world, [5], [1, 2, 3, 4])
    for index in dirty:
        spoil(world, 1, index)
    await whole_is(world, 1, whole)
    assert await merge(world, 1, RULES) == 1
    assert world.chunk_lengths() == [15]
    assert len(world.content(world.segments.chunks(1)[0].chunk.name)) == 15
    await whole_is(world, 1, whole)


@pytest.mark.parametrize("name", sorted(PROFILES))
async def test_nothing_joined_to_nothing_and_to_a_segment_without_bytes(name: str) -> None:
    world = World(PROFILES[name])
    whole = await joined(world, [], [])
    assert whole == b""
    del world.layouts.rows.layouts[1]
    whole = await write_chunks(world, 1, [5])
    world.layouts.change(1, start_offset=5)
    while not await world.segments.trim(1, 5):
        pass
    source = await write_chunks(world, 2, [3, 4])
    world.layouts.change(2, sealed_length=7)
    await world.segments.concat(world.joining(5))
    assert await world.read(1, 5, 99) == source
    assert world.chunk_lengths() == [3, 4]
    del world.layouts.states[2]
    await whole_is(world, 1, whole + source)


# --- truncations ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [[1], [10], [1, 2, 3, 4], [10, 10, 10], [3, 1, 7]])
@pytest.mark.parametrize("name", sorted(PROFILES))
async def test_truncation_at_every_offset(name: str, lengths: list[int]) -> None:
    total = sum(lengths)
    for start in range(total + 1):
        world = World(PROFILES[name])
        whole = await write_chunks(world, 1, lengths)
        world.layouts.change(1, start_offset=start)
        while not await world.segments.trim(1, start):
            pass
        ends = [sum(lengths[: index + 1]) for index in range(len(lengths))]
        assert world.chunk_lengths() == [
            length for length, end in zip(lengths, ends, strict=True) if end > start
        ]
        assert len(world.layouts.garbage) == sum(end <= start for end in ends)
        for below in range(start):
            with pytest.raises(SegmentTruncatedError):
                await world.read(1, below, 1)
        with pytest.raises(OffsetError):
            await world.read(1, total + 1, 1)
        assert await world.read(1, total, 1) == b""
        await whole_is(world, 1, whole)
        commits = len(world.layouts.commits)
        for lower in (start, max(0, start - 1), 0):
            assert await world.segments.trim(1, lower)
        assert len(world.layouts.commits) == commits, "a lower start changes nothing"


@pytest.mark.parametrize("lengths", [[1, 1, 1, 1, 1], [1, 2, 3, 4], [30]])
async def test_truncation_again_and_again(lengths: list[int]) -> None:
    world = World()
    whole = await write_chunks(world, 1, lengths)
    for start in range(len(whole) + 1):
        world.layouts.change(1, start_offset=start)
        while not await world.segments.trim(1, start):
            pass
        await whole_is(world, 1, whole)
    assert world.chunk_lengths() == []
    assert len(world.layouts.garbage) == len(lengths)
    whole += b"on it goes"
    await world.segments.write(1, len(whole) - 10, [whole[-10:]])
    await whole_is(world, 1, whole)


HALVES = RelocationRules(chunk_bytes_min=1, chunk_bytes_max=32, percent=50, live_bytes_max=32)


@pytest.mark.parametrize("name", sorted(PROFILES))
async def test_the_live_half_moves_as_often_as_it_is_halved(name: str) -> None:
    world = World(PROFILES[name])
    whole = await write_chunks(world, 1, [32])
    for start, left in ((16, 16), (24, 8), (28, 4), (30, 2)):
        world.layouts.change(1, start_offset=start)
        rewrite = world.segments.plan_relocation(1, HALVES)
        assert rewrite is not None
        assert await world.segments.rewrite(rewrite)
        assert world.chunk_lengths() == [left]
        await whole_is(world, 1, whole)
    assert [chunk.length for chunk in world.layouts.garbage] == [32, 16, 8, 4]


@pytest.mark.parametrize(
    ("start", "length", "percent"), list(product((15, 16, 17, 31), (32, 33), (50, 80)))
)
async def test_a_first_chunk_moves_within_its_window_only(
    start: int, length: int, percent: int
) -> None:
    world = World()
    whole = await write_chunks(world, 1, [length, 5])
    world.layouts.change(1, start_offset=start)
    rules = RelocationRules(
        chunk_bytes_min=1, chunk_bytes_max=32, percent=percent, live_bytes_max=32
    )
    rewrite = world.segments.plan_relocation(1, rules)
    wanted = length <= 32 and start * 100 >= percent * length
    assert (rewrite is not None) == wanted
    if rewrite is not None:
        assert await world.segments.rewrite(rewrite)
    assert world.chunk_lengths() == [length - start if wanted else length, 5]
    await whole_is(world, 1, whole)
