"""What long-term storage has of the chunks of a segment, next to what the rows say.

The container lives on meanwhile: chunks are joined, dropped and deleted. So what looks wrong is
looked up again, and only what is wrong by rows that did not change is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from siltstone.container.check.checker import LOOKS_MAX
from siltstone.container.models.check import ChunkState
from siltstone.container.reads.reads import Reading, chunk_info
from siltstone.core.errors import ChunkNotFoundError, ClosedError
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.segments.inspect import ChunkExtent, ChunkProblem
from siltstone.segments.segment_storage import ChunkedSegmentStorage

PARALLEL = 8

Look = Callable[[], Awaitable[tuple[Reading, ChunkedSegmentStorage]]]
"""Returns the container as it is now, and where the bytes of its segments are."""


async def examine_chunks(
    look: Look, storage: AsyncChunkStorage, name: str, start: int, limit: int, *, deep: bool
) -> list[ChunkState]:
    """The next ``limit`` runs of a segment from ``start`` on, each with its chunk's state.

    Args:
        look: at the container.
        storage: the service, for its own answers.
        name: the segment.
        start: offset in bytes.
        limit: most runs; there are fewer only at the end of the segment.
        deep: read every chunk and compare it with its sums.

    Raises:
        SegmentNotFoundError: there is no such segment.
        ChunkError: long-term storage did not answer.
    """
    reading, segments = await look()
    segment_id = reading.segment(name).segment_id

    async def one(row: ChunkExtent) -> ChunkState | None:
        """The state of the run that begins where ``row`` does; ``None`` if there is none now."""
        now = segments
        for _ in range(LOOKS_MAX):
            state: ChunkState | None = None
            with suppress(ClosedError):  # a reader started again meanwhile
                state = await _state(now, storage, row, deep=deep)
            if state is not None and state.problem is None:
                return state
            # It may have been merged, truncated, deleted or grown meanwhile.
            _, now = await look()
            again = now.chunks(segment_id, row.extent.start, 1)
            if not again:
                return None
            if state is not None and again[0].chunk == row.chunk:
                return state
            row = again[0]
        return None  # it changes every time, so it is alive

    states: list[ChunkState] = []
    told = start
    while rows := segments.chunks(segment_id, start, min(PARALLEL, limit - len(states))):
        for state in await asyncio.gather(*map(one, rows)):
            # Runs that became one meanwhile find that one, each of them.
            if state is not None and state.info.start + state.info.length > told:
                told = state.info.start + state.info.length
                states.append(state)
        start = rows[-1].extent.end
        _, segments = await look()
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
