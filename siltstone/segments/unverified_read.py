"""Reading exactly the bytes that are wanted, of which the caller knows how to verify them.

A block of 256 KiB has one sum, so an ordinary read of 8 KiB fetches 32 times as much. Bytes that
prove themselves, such as a record with sums, need only be fetched. They are in no cache afterwards,
and no other caller sees them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from siltstone.core.errors import ChunkNotFoundError, CorruptDataError
from siltstone.core.metrics import CHUNKS_READ
from siltstone.core.storage.block_reads import NOW_BYTES_MAX, read_exactly
from siltstone.core.storage.cached import uncached
from siltstone.segments.read import ReadPart, look_up, some_at_a_time

if TYPE_CHECKING:
    from siltstone.core.chunk_storage import ChunkStorage
    from siltstone.segments.context import Context


async def run_unverified_read(
    context: Context, segment_id: int, offset: int, view: memoryview
) -> bool:
    """Fill ``view`` with flushed bytes from ``offset`` on, and say whether that was done.

    There is one call for each chunk that has some of them, and the bytes are compared with nothing.
    It is not done when something is not as it should be, such as a chunk that is gone or too short,
    and where the ordinary read is as good: of blocks that are in the cache, or often wanted.

    Args:
        context: tools of the segment layer.
        segment_id: the segment.
        offset: in the segment.
        view: of bytes, all of which are flushed; undefined when they could not be read.

    Raises:
        OffsetError: ``offset`` lies beyond the flushed length.
        SegmentTruncatedError: it lies below the segment's start.
        SegmentNotFoundError: the segment was deleted.
        ChunkError: storage did not answer.
    """
    storage = context.storage
    try:
        parts = _joined(look_up(context, segment_id, offset, len(view)))
        if len(parts) > context.settings.read_parallel:
            return False
        for part in parts:
            if storage.wants_blocks(part.chunk.name, part.offset, part.offset + part.length):
                return False
        storage.metrics.add(CHUNKS_READ, len(parts))
        context.ahead.begin()
        try:
            one = partial(_read_one, context, view)
            await some_at_a_time(parts, one, context.settings.read_parallel)
        finally:
            context.ahead.end()
    except (ChunkNotFoundError, CorruptDataError):
        return False
    return True


def _joined(parts: Iterable[ReadPart]) -> list[ReadPart]:
    """The same with one part where several follow one another in a chunk."""
    found: list[ReadPart] = []
    for part in parts:
        last = found[-1] if found else None
        if (
            last is not None
            and last.chunk.chunk_id == part.chunk.chunk_id
            and last.offset + last.length == part.offset
        ):
            found[-1] = replace(last, length=last.length + part.length, whole=False)
        else:
            found.append(part)
    return found


async def _read_one(context: Context, view: memoryview, part: ReadPart) -> None:
    name, storage = part.chunk.name, context.storage
    target = view[part.position : part.position + part.length]
    read_now = storage.read_now if part.length <= NOW_BYTES_MAX else None
    if read_now is None or read_now(name, part.offset, target) is None:
        call = partial(_read_exactly, name=name, offset=part.offset, view=target)
        await storage.run("read_into", name, call, length=part.length)


def _read_exactly(storage: ChunkStorage, *, name: str, offset: int, view: memoryview) -> None:
    read_exactly(uncached(storage), name, offset, view)
