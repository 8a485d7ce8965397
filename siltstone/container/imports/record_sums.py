"""Recording the sums of objects in place that were adopted without a byte being read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.reads.reads import Reading
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.chunk import Chunk
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.block_reads import read_exactly
from siltstone.core.storage.block_sums import block_count, extend_sums, patches
from siltstone.core.storage.cached import uncached
from siltstone.metadata.changes import put_sums
from siltstone.segments.invariants import check_chunk
from siltstone.segments.read import PART_BYTES
from siltstone.segments.segment_storage import ChunkedSegmentStorage

_PAGE = 100


async def record_sums(
    pipeline: Pipeline,
    reading: Reading,
    segments: ChunkedSegmentStorage,
    storage: AsyncChunkStorage,
    name: str,
    progress: Callable[[int], None],
) -> int:
    """Read what a segment has in place without sums, and record them; return how many bytes.

    From then on reads compare with what was read now: an earlier change is not noticed.

    Raises:
        SegmentNotFoundError: there is no such segment.
        LostDataError, CorruptDataError: an object is shorter or longer than when it was adopted,
            or changes meanwhile.
        ChunkError: long-term storage did not answer.
    """
    segment_id = reading.segment(name).segment_id
    position, total = 0, 0
    while found := segments.chunks(segment_id, position, _PAGE):
        for row in found:
            position = row.extent.end
            if not row.chunk.in_place or segments.sums(row.chunk):
                continue
            sums = await _sums_of(storage, row.chunk, progress)
            await keep_sums(pipeline, row.chunk, sums)
            total += row.chunk.length
    return total


async def keep_sums(pipeline: Pipeline, chunk: Chunk, sums: Sequence[int]) -> None:
    """Record the sums of an object in place, unless it was dropped meanwhile. Idempotent.

    Raises:
        ValueError: it is no object in place, or these are not the sums of all of its blocks.
    """
    if not chunk.in_place or len(sums) != block_count(chunk.length):
        raise ValueError(f"{len(sums)} sums are not those of {chunk.name} in place")
    if pipeline.replica.rows.pending_chunk(chunk.chunk_id) is not None:
        await pipeline.update([put_sums(patch) for patch in patches(chunk.chunk_id, 0, sums)])


async def _sums_of(
    storage: AsyncChunkStorage, chunk: Chunk, progress: Callable[[int], None]
) -> list[int]:
    before = await storage.stat(chunk.name)
    check_chunk(chunk, before)
    buffer = memoryview(bytearray(min(chunk.length, PART_BYTES)))
    sums: list[int] = []
    for offset in range(0, chunk.length, PART_BYTES):
        view = buffer[: min(PART_BYTES, chunk.length - offset)]

        def call(storage: ChunkStorage, offset: int = offset, view: memoryview = view) -> list[int]:
            read_exactly(uncached(storage), chunk.name, offset, view)
            return extend_sums([view], offset, 0)

        sums += await storage.run("read_into", chunk.name, call, moved=len(view))
        progress(len(view))
    if await storage.stat(chunk.name) != before:
        raise CorruptDataError("object was changed while it was read", where=chunk.name)
    return sums
