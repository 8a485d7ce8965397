"""Making, checking and closing one chunk.

A new chunk is made durably, under another name for as long as outcomes are unknown. A write can
check itself: its bytes are read from storage and compared with their sums. A chunk that a segment
could still be appended to can be closed before its end is reached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkReadBackError,
    ChunkStorageFullError,
    CorruptDataError,
    Outcome,
)
from siltstone.core.layout_store import LayoutChange, NewChunk
from siltstone.core.records.chunk import Chunk, end_chunk
from siltstone.core.records.layout import Layout
from siltstone.core.storage.block_reads import read_exactly
from siltstone.core.storage.block_sums import extend_sums
from siltstone.core.storage.cached import uncached
from siltstone.segments.context import Context
from siltstone.segments.read import PART_BYTES


def read_back(
    storage: ChunkStorage, name: str, offset: int, length: int, last: int, sums: Sequence[int]
) -> None:
    """Read what was just written and compare it. Blocking; holds at most 8 MiB.

    Args:
        storage: where it was written.
        name: the chunk.
        offset: the first byte that was written.
        length: how many were.
        last: the sum of the block that ``offset`` lies in, before the write.
        sums: of each block that the write touched, as ``extend_sums`` made them.

    Raises:
        ChunkReadBackError: they differ, or cannot be read: what the service keeps is unknown.
    """
    position, end = offset, offset + length
    found: list[int] = []
    try:
        while position < end:
            stop = min(end, position // BLOCK_BYTES * BLOCK_BYTES + PART_BYTES)
            view = memoryview(bytearray(stop - position))
            read_exactly(uncached(storage), name, position, view)
            found += extend_sums([view], position, last if position == offset else 0)
            position = stop
    except (ChunkError, CorruptDataError) as error:
        raise ChunkReadBackError(
            f"written bytes cannot be read back: {error}", chunk=name, operation="read_into"
        ) from error
    for index, (wanted, got) in enumerate(zip(sums, found, strict=True)):
        if wanted != got:
            raise ChunkReadBackError(
                "bytes read back are not those that were written",
                chunk=name,
                operation="read_into",
                block=offset // BLOCK_BYTES + index,
                expected=f"{wanted:08x}",
                found=f"{got:08x}",
            )


CREATE_ATTEMPTS = 3
"""Names that are burnt for one chunk before its write fails."""


async def create_chunk(
    context: Context, new_chunk: Callable[[], Awaitable[NewChunk]], buffers: Sequence[Buffer]
) -> tuple[NewChunk, list[int]]:
    """Make a chunk of ``buffers``; return it and the sums of its blocks.

    Args:
        context: the tools.
        new_chunk: reserves an id and a name.
        buffers: its bytes.

    Raises:
        ChunkError: storage failed, several times if the outcome was unknown. Names that may exist
            were abandoned.
    """
    length = sum(len(buffer) for buffer in buffers)
    attempts = 0
    while True:
        new = await new_chunk()
        attempts += 1

        def call(storage: ChunkStorage, name: str = new.name) -> list[int]:
            sums = extend_sums(buffers, 0, 0)
            storage.create(name, buffers)
            if context.settings.read_back:
                read_back(storage, name, 0, length, 0, sums)
            return sums

        try:
            return new, await context.storage.run(
                "create", new.name, call, length=length, moved=context.moved(length)
            )
        except ChunkError as error:
            burnt = error.outcome is Outcome.UNKNOWN
            if burnt:
                context.memory.abandon([new])
            if isinstance(error, ChunkReadBackError):
                context.mishaps.read_back_failed(error)
            again = burnt or isinstance(error, ChunkExistsError)
            full = isinstance(error, ChunkStorageFullError)
            if not again or full or attempts == CREATE_ATTEMPTS:
                raise
        except BaseException:  # cancelled: the call may still be on its way
            context.memory.abandon([new])
            raise


def plan_close(layout: Layout, chunk: Chunk) -> LayoutChange:
    """Plan to let nothing be appended to ``chunk``, the last one of ``layout``."""
    return LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=replace(layout, last_chunk_id=0),
        chunks_put=(end_chunk(chunk),),
    )


async def run_close(context: Context, segment_id: int) -> bool:
    """See ``ChunkedSegmentStorage.close_chunk``. The caller holds the segment's lock."""
    async with context.sharing:
        layout = context.layouts.layout(segment_id)
        if layout.last_chunk_id == 0:
            return True
        return await context.commit(plan_close(layout, context.chunk(layout.last_chunk_id)))
