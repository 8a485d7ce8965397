"""Writes end to end over memory: how they are cut and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from siltstone.bindings.memory.chunk_storage import Profile
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    OffsetError,
)
from siltstone.core.records.writer_row import WriterRow
from tests.support.segments.segment_world import (
    World,
    data,
    small,
    write_pieces,
)

WRITE_ONCE = Profile(append=False, concat=False, seal=False)


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
async def test_chunks_of_writes(
    profile: Profile, chunk_bytes: int, pieces: list[int], chunks: list[int]
) -> None:
    world = World(profile, settings=small(chunk_bytes))
    await write_pieces(world, pieces)
    assert world.chunk_lengths() == chunks


async def test_chunks_are_cut_at_borders_of_appends() -> None:
    world = World(settings=small(100))
    world.layouts.add(1)
    await world.segments.write(1, 0, [data(130)], cuts=[40, 70, 125])
    assert world.chunk_lengths() == [70, 60]
    assert len(world.layouts.commits) == 1


async def test_a_flush_is_one_call_and_one_transaction() -> None:
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


async def test_buffers_are_passed_through() -> None:
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


async def test_write_of_nothing_does_nothing() -> None:
    world = World()
    world.layouts.add(1)
    assert await world.segments.write(1, 0, [b"", b""]) == 0
    assert not world.calls
    assert not world.layouts.commits


async def test_write_elsewhere_than_at_the_flushed_length() -> None:
    world = World()
    await write_pieces(world, [10])
    with pytest.raises(OffsetError) as caught:
        await world.segments.write(1, 9, [b"x"])
    assert (caught.value.expected, caught.value.actual) == (10, 9)


async def test_another_epoch_begins_a_new_chunk() -> None:
    world = World()
    await write_pieces(world, [10])
    world.layouts.epoch = 2
    await world.segments.write(1, 10, [b"x" * 5])
    assert world.chunk_lengths() == [10, 5]
    old, new = (entry.chunk for entry in world.segments.chunks(1))
    assert (old.epoch, old.closed, new.epoch, new.closed) == (1, True, 2, False)
    world.check()


async def test_an_adopted_chunk_is_never_appended_to() -> None:
    world = World()
    await write_pieces(world, [10])
    rows = world.layouts.rows
    (chunk,) = rows.chunks.values()
    rows.chunks[chunk.chunk_id] = replace(chunk, adopted=True, epoch=0)
    await world.segments.write(1, 10, [b"x" * 5])
    assert world.chunk_lengths() == [10, 5]


async def test_writers_go_with_the_flushed_length() -> None:
    world = World()
    world.layouts.add(1)
    row = WriterRow(segment_id=1, number=7, name="w", sequence=3, offset=4, length=6)
    await world.segments.write(1, 0, [data(10)], writers=(row,))
    assert world.layouts.commits[-1].writers == (row,)
