"""Which blocks of a chunk do not match their sums: all of them are read."""

from __future__ import annotations

from collections.abc import Callable

from siltstone.core.block_reads import BlockRange, chunk_parts, read_blocks
from siltstone.core.cached_chunk_storage import uncached
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import CorruptDataError
from siltstone.core.operations.read import PART_BYTES
from siltstone.core.records.chunk import Chunk
from siltstone.core.threads import AsyncChunkStorage
from siltstone.core.words import BLOCK_BYTES

SumsOf = Callable[[Chunk], tuple[int, ...]]
"""Returns the sum of each block of a chunk; none of one in place that has none."""


async def damaged_blocks(
    storage: AsyncChunkStorage, chunk: Chunk, sums_of: SumsOf
) -> tuple[tuple[int, int], ...]:
    """Return the ranges of a chunk whose blocks do not match their sums, in order.

    A chunk without sums has no such range, and one whose sums are lost is one: reads fail.

    Args:
        storage: long-term storage.
        chunk: whose bytes are all there.
        sums_of: gives its sums.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    try:
        sums = sums_of(chunk)
    except CorruptDataError:
        return ((0, chunk.length),)
    if not sums:
        return ()
    ranges: list[tuple[int, int]] = []
    buffer = memoryview(bytearray(min(chunk.length, PART_BYTES)))
    for part in chunk_parts(chunk.name, chunk.length, sums, PART_BYTES):
        if await _matches(storage, part, buffer):
            continue
        for block in _blocks(part):
            if await _matches(storage, block, buffer):
                continue
            if ranges and ranges[-1][1] == block.start:
                ranges[-1] = ranges[-1][0], block.end
            else:
                ranges.append((block.start, block.end))
    return tuple(ranges)


async def _matches(storage: AsyncChunkStorage, part: BlockRange, buffer: memoryview) -> bool:
    def call(storage: ChunkStorage) -> None:
        read_blocks(uncached(storage), part, buffer[: part.length])

    try:
        await storage.run("read_into", part.name, call, moved=part.length)
    except CorruptDataError:
        return False
    return True


def _blocks(part: BlockRange) -> list[BlockRange]:
    return [
        BlockRange(
            name=part.name,
            chunk_length=part.chunk_length,
            offset=start,
            length=min(BLOCK_BYTES, part.end - start),
            sums=(crc,),
        )
        for start, crc in zip(range(part.start, part.end, BLOCK_BYTES), part.sums, strict=True)
    ]
