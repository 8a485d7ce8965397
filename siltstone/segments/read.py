"""Reading flushed bytes: which parts of which chunks, read in parallel and verified."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS, MIB, ROWS_PER_SLICE
from siltstone.core.errors import (
    ChunkNotFoundError,
    CorruptDataError,
    LostDataError,
    OffsetError,
    SegmentTruncatedError,
    SiltstoneError,
)
from siltstone.core.layout_store import LayoutStore
from siltstone.core.metrics import CHUNKS_READ
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.storage.block_reads import (
    BlockRange,
    read_blocks,
    read_exactly,
    read_part,
    read_part_now,
)
from siltstone.segments.context import Context

T = TypeVar("T")

PART_BYTES = 8 * MIB
"""What one storage call reads: large enough for full speed, small enough to run in parallel.

The last of several takes the rest with it, and so less than twice as much.
"""

NEAR_PART_BYTES = 4 * MIB
"""What one call reads where the kernel may have the bytes in memory: it costs only its thread."""

DIRECT_BYTES_MIN = MIB
"""Fewer bytes are copied out of whole blocks by one call, not read in place by three."""

_LOOK_UPS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPart:
    """What one storage call reads.

    Attributes:
        chunk: the chunk.
        offset: the first byte, in the chunk.
        length: how many.
        position: where they go in the caller's buffer.
        whole: they are whole blocks, the last up to the committed length; verified where they are
            put.
    """

    chunk: Chunk
    offset: int
    length: int
    position: int
    whole: bool


def plan_extent(
    chunk: Chunk, start: int, end: int, position: int, part_bytes: int = PART_BYTES
) -> Iterator[ReadPart]:
    """Cut ``[start, end)`` of a chunk into parts: whole blocks in place, the edges apart."""
    inner_start = -(-start // BLOCK_BYTES) * BLOCK_BYTES
    inner_end = end if end == chunk.length else end // BLOCK_BYTES * BLOCK_BYTES
    aligned = inner_start == start and inner_end == end
    if inner_end <= inner_start or (not aligned and inner_end - inner_start < DIRECT_BYTES_MIN):
        inner_start = inner_end = end
    last = inner_start + max(0, inner_end - inner_start - part_bytes) // part_bytes * part_bytes
    borders = [start, *range(inner_start, last + 1, part_bytes), inner_end, end]
    for begin, stop in pairwise(borders):
        if begin < stop:
            yield ReadPart(
                chunk=chunk,
                offset=begin,
                length=stop - begin,
                position=position + begin - start,
                whole=inner_start <= begin < inner_end,
            )


def plan_read(
    extents: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    offset: int,
    end: int,
    part_bytes: int = PART_BYTES,
) -> list[ReadPart]:
    """Cut ``[offset, end)`` of a segment into parts of ``part_bytes``, see ``PART_BYTES``.

    Raises:
        CorruptDataError: the extents leave a gap, or one reaches beyond its chunk.
    """
    parts: list[ReadPart] = []
    position = offset
    for extent in extents:
        if not extent.start <= position < extent.end:
            raise _gap(extent.segment_id, position)
        chunk = chunk_of(extent.chunk_id)
        if extent.chunk_offset + extent.length > chunk.length:
            raise CorruptDataError(
                "I2: an extent reaches beyond its chunk",
                where=chunk.name,
                needed=extent.chunk_offset + extent.length,
                found=chunk.length,
            )
        stop = min(end, extent.end)
        shift = extent.chunk_offset - extent.start
        parts += plan_extent(chunk, position + shift, stop + shift, position - offset, part_bytes)
        position = stop
    if position < end:
        raise _gap(extents[0].segment_id if extents else 0, position)
    return parts


def sums_between(layouts: LayoutStore, chunk: Chunk, first: int, end: int) -> tuple[int, ...]:
    """Sums of the blocks ``[first, end)`` of a chunk; none if it is in place and has none.

    Raises:
        CorruptDataError: the rows hold fewer.
    """
    if chunk.in_place and not layouts.sums(chunk.chunk_id, 0):
        return ()
    found: list[int] = []
    block = first
    while block < end:
        group, index = divmod(block, GROUP_BLOCKS)
        stop = min(end, (group + 1) * GROUP_BLOCKS)
        found += layouts.sums(chunk.chunk_id, group)[index : index + stop - block]
        block = stop
    if len(found) != end - first:
        raise CorruptDataError("I14: sums of blocks are missing", where=chunk.name, block=first)
    return tuple(found)


async def run_read(context: Context, segment_id: int, offset: int, buffer: memoryview) -> int:
    """See ``ChunkedSegmentStorage.read_into``."""
    view = buffer.cast("B")
    flushed = _readable_end(context, segment_id, offset)
    view = view[: flushed - offset]
    end, taken = offset + len(view), 0
    stream = context.ahead.follow(segment_id, offset, end, flushed)
    if stream is not None:
        taken = await context.ahead.take(stream, offset, view)
    if taken < len(view):
        await fetch(context, segment_id, offset + taken, view[taken:])
    return len(view)


async def fetch(
    context: Context,
    segment_id: int,
    offset: int,
    view: memoryview,
    part_bytes: int = PART_BYTES,
) -> None:
    """Fill ``view`` with flushed bytes from ``offset`` on, all of which there must be.

    ``part_bytes`` is what one call to a far service reads, see ``PART_BYTES``.
    """
    loop = asyncio.get_running_loop()
    gone: ChunkNotFoundError | None = None
    for _ in range(_LOOK_UPS_MAX):
        parts = look_up(context, segment_id, offset, len(view), part_bytes)
        if gone is not None and any(part.chunk.name == gone.chunk for part in parts):
            break
        started = loop.time()
        beside = context.ahead.begin()
        try:
            await _read_parts(context, parts, view)
        except ChunkNotFoundError as error:
            # Truncated, deleted or merged meanwhile, or lost: the rows tell when they are read
            # again.
            gone = error
            context.blocks.forget(error.chunk)
        else:
            context.ahead.measured(len(view), loop.time() - started, beside)
            return
        finally:
            context.ahead.end()
    assert gone is not None, "only a chunk that is gone leads to another look-up"
    raise LostDataError("chunk does not exist any more", where=gone.chunk) from gone


def _readable_end(context: Context, segment_id: int, offset: int) -> int:
    """The flushed length, if ``offset`` may be read now."""
    state = context.live_state(segment_id)
    if offset < state.start_offset:
        raise SegmentTruncatedError(
            segment=state.name, offset=offset, start_offset=state.start_offset
        )
    flushed = context.layouts.layout(segment_id).storage_length
    if offset > flushed:
        raise OffsetError(
            "offset beyond the flushed length",
            segment=state.name,
            expected=flushed,
            actual=offset,
        )
    return flushed


def look_up(
    context: Context, segment_id: int, offset: int, length: int, part_bytes: int = PART_BYTES
) -> list[ReadPart]:
    """Plan a read of flushed bytes by the rows of now; raises as ``run_read`` does."""
    end = min(_readable_end(context, segment_id, offset), offset + length)
    extents: list[Extent] = []
    position = offset
    while position < end:
        some = context.layouts.extents(segment_id, position, end, ROWS_PER_SLICE)
        if not some:
            raise _gap(segment_id, position)
        extents += some
        position = some[-1].end
    return plan_read(extents, context.chunk, offset, end, _part_bytes(context, part_bytes))


def _part_bytes(context: Context, of_far: int = PART_BYTES) -> int:
    return of_far if context.storage.read_now is None else NEAR_PART_BYTES


async def read_extents(
    context: Context, extents: Sequence[Extent], offset: int, view: memoryview
) -> None:
    """Fill ``view`` from ``offset`` on, which ``extents`` cover; every block is verified.

    Raises:
        CorruptDataError: a block does not match its sum, twice; or the extents leave a gap.
        ChunkError: storage did not answer, or a chunk is gone.
    """
    settings = replace(context.settings, verify_reads="always")
    parts = plan_read(extents, context.chunk, offset, offset + len(view), _part_bytes(context))
    await _read_parts(replace(context, settings=settings), parts, view)


async def _read_parts(context: Context, parts: Sequence[ReadPart], view: memoryview) -> None:
    """Read all parts, some at a time; the first error is raised once no call is in flight."""
    # Taken with the chunks' lengths, ahead of all waiting: a chunk that grows has other sums then.
    planned = [(part, _sums_of(context, part)) for part in parts]
    context.storage.metrics.add(CHUNKS_READ, len(parts))

    async def one(item: tuple[ReadPart, tuple[int, ...]]) -> None:
        await _read_one(context, *item, view)

    await some_at_a_time(planned, one, context.settings.read_parallel)


async def some_at_a_time(
    items: Sequence[T], one: Callable[[T], Awaitable[None]], parallel: int
) -> None:
    """Do ``one`` for all items; the first error is raised once no call is in flight.

    Each call writes to a buffer of the caller, who may use it again then.
    """
    if len(items) <= 1:
        for item in items:
            await one(item)
        return
    todo = iter(items)
    errors: list[SiltstoneError] = []

    async def work() -> None:
        for item in todo:
            if errors:
                return
            try:
                await one(item)
            except SiltstoneError as error:
                errors.append(error)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(len(items), parallel)):
            group.create_task(work())
    if errors:
        raise errors[0]


def _blocks_of(part: ReadPart) -> tuple[int, int]:
    """The blocks that a part touches: the first, and the one after the last."""
    return part.offset // BLOCK_BYTES, -(-(part.offset + part.length) // BLOCK_BYTES)


def _sums_of(context: Context, part: ReadPart) -> tuple[int, ...]:
    if context.settings.verify_reads == "never":
        return ()
    return sums_between(context.layouts, part.chunk, *_blocks_of(part))


async def _read_one(
    context: Context, part: ReadPart, sums: tuple[int, ...], view: memoryview
) -> None:
    chunk, name = part.chunk, part.chunk.name
    target = view[part.position : part.position + part.length]
    mode = context.settings.verify_reads
    if mode == "never" or not sums:
        await context.storage.run(
            "read_into",
            name,
            lambda storage: read_exactly(storage, name, part.offset, target),
            length=part.length,
        )
        return
    first, end = _blocks_of(part)
    blocks = BlockRange(
        name=name,
        chunk_length=chunk.length,
        offset=part.offset,
        length=part.length,
        sums=sums,
    )
    if part.whole:
        await context.storage.run(
            "read_into",
            name,
            lambda storage: read_blocks(storage, blocks, target),
            length=part.length,
        )
        return
    # The last block of a chunk that still grows has a sum of only what it holds now.
    final = chunk.closed or end * BLOCK_BYTES <= chunk.length
    # Where chunks never change a client is far from them, and to ask for a version takes as long as
    # to read a whole block.
    remember = mode == "remembered" and final and context.storage.capabilities.append
    known = context.blocks.version(name, first, end) if remember else None

    if (read_now := context.storage.read_now) is not None:
        version = read_part_now(read_now, blocks, target, context.scratch, known=known)
        if version is not None:
            if remember and version != known:
                context.blocks.remember(name, version, first, end)
            return

    def call(storage: ChunkStorage) -> str | None:
        return read_part(storage, blocks, target, context.scratch, known=known, learn=remember)

    version = await context.storage.run("read_into", name, call, length=part.length)
    if version is not None:
        context.blocks.remember(name, version, first, end)


def _gap(segment_id: int, position: int) -> CorruptDataError:
    return CorruptDataError(
        "I6: extents are not contiguous", where=f"segment {segment_id}", offset=position
    )
