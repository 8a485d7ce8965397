"""What long-term storage has of the chunks of a segment, beside what the rows say."""

from __future__ import annotations

import asyncio

from siltstone.container.check_views import ChunkState
from siltstone.container.reading import Reading, chunk_info
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.operations.inspect import ChunkExtent, ChunkProblem
from siltstone.core.segment_storage import ChunkedSegmentStorage
from siltstone.core.threads import AsyncChunkStorage

PARALLEL = 8


async def examine_chunks(
    reading: Reading,
    segments: ChunkedSegmentStorage,
    storage: AsyncChunkStorage,
    name: str,
    start: int,
    limit: int,
    *,
    deep: bool,
) -> list[ChunkState]:
    """The next ``limit`` runs of a segment from ``start`` on, each with its chunk's state.

    Args:
        reading: the container's.
        segments: where the bytes are.
        storage: the same service, for its own answers.
        name: the segment.
        start: offset in bytes.
        limit: most runs.
        deep: read every chunk and compare it with its sums.

    Raises:
        SegmentNotFoundError: there is no such segment.
        ChunkError: long-term storage did not answer.
    """
    segment_id = reading.segment(name).segment_id

    async def one(row: ChunkExtent) -> ChunkState:
        state = await _state(segments, storage, row, deep=deep)
        if state.problem is None:
            return state
        # It may have been merged, truncated or grown meanwhile.
        again = segments.chunks(segment_id, row.extent.start, 1)
        if not again or again[0].chunk == row.chunk:
            return state
        return await _state(segments, storage, again[0], deep=deep)

    rows = segments.chunks(segment_id, start, limit)
    states: list[ChunkState] = []
    for begin in range(0, len(rows), PARALLEL):
        states += await asyncio.gather(*map(one, rows[begin : begin + PARALLEL]))
    return states


async def _state(
    segments: ChunkedSegmentStorage, storage: AsyncChunkStorage, row: ChunkExtent, *, deep: bool
) -> ChunkState:
    physical: int | None = None
    problem: ChunkProblem | None = ChunkProblem.MISSING
    message = ""
    try:
        physical = (await storage.stat(row.chunk.name)).length
        found = await segments.verify_chunk(row.chunk, deep=deep)
        problem = None if found is None else found.problem
        message = "" if found is None else found.message
    except ChunkNotFoundError as error:
        message = str(error)
    return ChunkState(
        info=chunk_info(row),
        physical_length=physical,
        problem=problem,
        verified=deep and problem is None and bool(row.sums),
        message=message,
    )
