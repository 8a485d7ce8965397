"""Chunks and segments of several GiB: no offset is cut to 31 or 32 bits.

The storage does not hold these bytes: block ``k`` of a huge chunk is its number and then zeros, so
it can be generated whenever it is read, and its sum is known.
"""

from __future__ import annotations

import pytest

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_names import data_chunk
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.constants import BLOCK_BYTES, GIB
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.segments.rewrite_plan import RelocationRules
from tests.support.segments.segment_world import World

LENGTH = 3 * GIB + 5
HUGE = "huge"
"""Part of the names of generated chunks."""


def made_up(offset: int, length: int) -> bytes:
    """The bytes of a huge chunk in this range."""
    first, last = offset // BLOCK_BYTES, (offset + length - 1) // BLOCK_BYTES
    whole = b"".join(
        block.to_bytes(8, "big") + bytes(BLOCK_BYTES - 8) for block in range(first, last + 1)
    )
    begin = offset - first * BLOCK_BYTES
    return whole[begin : begin + length]


@pytest.fixture(scope="module")
def sums() -> list[int]:
    """Sums of the blocks of a huge chunk."""
    return [
        crc32c(made_up(start, min(BLOCK_BYTES, LENGTH - start)))
        for start in range(0, LENGTH, BLOCK_BYTES)
    ]


def huge(world: World, segment_id: int, sums: list[int]) -> None:
    """Let a segment consist of two closed, huge chunks."""
    world.layouts.add(segment_id)
    rows = world.layouts.rows
    rows.extents[segment_id] = []
    for index in range(2):
        chunk_id = 1_000 + 10 * segment_id + index
        rows.chunks[chunk_id] = Chunk(
            chunk_id=chunk_id,
            name=data_chunk(0, 1, HUGE, index * LENGTH, chunk_id),
            epoch=1,
            length=LENGTH,
            closed=True,
        )
        rows.sums[chunk_id] = list(sums)
        rows.extents[segment_id].append(
            Extent(
                segment_id=segment_id,
                start=index * LENGTH,
                chunk_id=chunk_id,
                chunk_offset=0,
                length=LENGTH,
            )
        )
    rows.layouts[segment_id] = Layout(segment_id=segment_id, storage_length=2 * LENGTH)
    world.layouts.change(segment_id, sealed_length=None)


def serve(world: World) -> None:
    """Let the storage generate huge chunks."""
    inner = world.storage.inner
    read_into, stat = inner.read_into, inner.stat

    def read_huge(name: str, offset: int, buffer: memoryview | bytearray) -> int:
        if HUGE not in name:
            return read_into(name, offset, buffer)
        count = max(0, min(len(buffer), LENGTH - offset))
        buffer[:count] = made_up(offset, count)
        return count

    def stat_huge(name: str) -> ChunkStat:
        if HUGE not in name:
            return stat(name)
        return ChunkStat(name=name, length=LENGTH, version="1")

    inner.read_into = read_huge  # type: ignore[method-assign]
    inner.stat = stat_huge  # type: ignore[method-assign]


def world_of(sums: list[int], *segment_ids: int) -> World:
    world = World()
    serve(world)
    for segment_id in segment_ids:
        huge(world, segment_id, sums)
    return world


def expected(offset: int, length: int) -> bytes:
    """The bytes of a segment of huge chunks in this range."""
    found = b""
    while length:
        index, at = divmod(offset, LENGTH)
        count = min(length, LENGTH - at)
        found += made_up(at, count)
        offset, length = offset + count, length - count
    assert index >= 0
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "offset", [0, 2**31 - 5, 2**31, 2**32 - 5, 2**32, LENGTH - 5, LENGTH, 2 * LENGTH - 9]
)
async def test_reads(offset: int, sums: list[int]) -> None:
    world = world_of(sums, 1)
    wanted = min(BLOCK_BYTES + 10, 2 * LENGTH - offset)
    assert await world.read(1, offset, BLOCK_BYTES + 10) == expected(offset, wanted)


async def test_concat_and_the_append_after_it(sums: list[int]) -> None:
    world = world_of(sums, 1, 2)
    world.layouts.change(2, sealed_length=2 * LENGTH, start_offset=2**31 + 7)
    await world.segments.concat(world.joining(2 * LENGTH))
    end = 4 * LENGTH - 2**31 - 7
    assert world.layouts.layout(1).storage_length == end
    for offset in (2 * LENGTH - 3, 2 * LENGTH, 2**33, end - 20):
        found = await world.read(1, offset, 20)
        if offset >= 2 * LENGTH:
            assert found == expected(offset - 2 * LENGTH + 2**31 + 7, 20)
        else:
            assert found == expected(offset, 3) + expected(2**31 + 7, 17)
    assert await world.segments.write(1, end, [b"more"]) == end + 4
    assert await world.read(1, end - 2, 9) == expected(2 * LENGTH - 2, 2) + b"more"


async def test_relocation_and_truncation(sums: list[int]) -> None:
    world = world_of(sums, 1)
    start = LENGTH - 300
    world.layouts.change(1, start_offset=start)
    rules = RelocationRules(
        chunk_bytes_min=1, chunk_bytes_max=2**40, percent=80, live_bytes_max=10**6
    )
    rewrite = world.segments.plan_relocation(1, rules)
    assert rewrite is not None
    assert await world.segments.rewrite(rewrite)
    assert world.chunk_lengths() == [300, LENGTH]
    assert await world.read(1, start, 600) == expected(start, 600)
    world.layouts.change(1, start_offset=LENGTH)
    assert await world.segments.trim(1, LENGTH)
    assert world.chunk_lengths() == [LENGTH]
    assert await world.read(1, 2**32, 50) == expected(2**32, 50)
