"""Writing neighbours of a segment into one new chunk, and letting it stand for them.

The bytes are copied, or joined by the service, while no caller waits; only the swap of the extents
takes the segment's lock. If the extents have changed meanwhile, the new chunk is garbage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import ChunkReadBackError, CorruptDataError, Outcome, SiltstoneError
from siltstone.core.layout_store import NewChunk
from siltstone.core.metrics import REWRITTEN_BYTES
from siltstone.core.storage.block_reads import read_exactly
from siltstone.core.storage.block_sums import block_count, extend_sums, patches
from siltstone.core.storage.cached import uncached
from siltstone.segments.chunk_writes import read_back
from siltstone.segments.context import Context
from siltstone.segments.read import PART_BYTES, read_extents, sums_between
from siltstone.segments.rewrite_plan import Rewrite, joins_natively, plan_swap


def piece_bytes(context: Context, length: int) -> int:
    """Most bytes that a copy holds at a time: whole blocks, or everything without appends."""
    capabilities = context.storage.capabilities
    if not capabilities.append:
        return length
    least = -(-length // capabilities.appends_max)
    return max(PART_BYTES, -(-least // BLOCK_BYTES) * BLOCK_BYTES)


def request_count(context: Context, rewrite: Rewrite) -> int:
    """How many calls to storage a rewrite makes, about."""
    reads = -(-rewrite.length // PART_BYTES)
    if joins_natively(rewrite, context.chunk, context.storage.capabilities):
        return 1 + reads
    writes = -(-rewrite.length // piece_bytes(context, rewrite.length))
    return max(reads, len(rewrite.extents)) + writes


async def run_rewrite(context: Context, lock: asyncio.Lock, rewrite: Rewrite) -> bool:
    """See ``ChunkedSegmentStorage.rewrite``."""
    new = await context.layouts.new_chunk(rewrite.segment_id, rewrite.start)
    joins = False
    try:
        joins = joins_natively(rewrite, context.chunk, context.storage.capabilities)
        if joins:
            sums = await _join(context, rewrite, new)
        else:
            sums = await _copy(context, rewrite, new)
    except BaseException as error:  # cancelled too: a call may still be on its way
        context.memory.abandon([new])
        if isinstance(error, ChunkReadBackError):
            context.mishaps.read_back_failed(error)
        raise
    return await state_rewrite(context, lock, rewrite, new, sums, "joined" if joins else "copied")


async def state_rewrite(
    context: Context,
    lock: asyncio.Lock,
    rewrite: Rewrite,
    new: NewChunk,
    sums: Sequence[int],
    how: str,
) -> bool:
    """Let a new chunk stand for the extents of a rewrite; false if they are others meanwhile.

    Then, and whenever it was surely not committed, the chunk is abandoned.
    """
    try:
        async with lock, context.sharing:
            committed = await _swap(context, rewrite, new, sums)
    except BaseException as error:
        if isinstance(error, SiltstoneError) and error.outcome is Outcome.NOT_APPLIED:
            context.memory.abandon([new])
        # Else it may be committed: its chunk is not garbage for us.
        raise
    if committed:
        context.storage.metrics.add(REWRITTEN_BYTES, rewrite.length, how)
    else:
        context.memory.abandon([new])
    return committed


async def _swap(context: Context, rewrite: Rewrite, new: NewChunk, sums: Sequence[int]) -> bool:
    layouts, first = context.layouts, rewrite.extents[0]
    change = plan_swap(
        layouts.layout(rewrite.segment_id),
        layouts.extents(rewrite.segment_id, first.start, rewrite.end, len(rewrite.extents) + 1),
        rewrite,
        new,
        patches(new.chunk_id, 0, sums),
        context.chunk,
        epoch=layouts.epoch,
    )
    if change is None or not await context.commit(change):
        return False
    for chunk in change.chunks_dropped:
        context.blocks.forget(chunk.name)
    return True


async def _copy(context: Context, rewrite: Rewrite, new: NewChunk) -> list[int]:
    """Copy the bytes, verified, piece by piece; return the sums of the new chunk."""
    step = piece_bytes(context, rewrite.length)
    buffer = memoryview(bytearray(min(step, rewrite.length)))
    sums: list[int] = []
    for offset in range(0, rewrite.length, step):
        view = buffer[: min(step, rewrite.length - offset)]
        start = rewrite.start + offset
        extents = [e for e in rewrite.extents if e.start < start + len(view) and e.end > start]
        await context.storage.pace(len(view))
        await read_extents(context, extents, start, view)

        def call(storage: ChunkStorage, offset: int = offset, view: memoryview = view) -> list[int]:
            found = extend_sums([view], offset, 0)
            if offset:
                storage.write(new.name, offset, [view])
            else:
                storage.create(new.name, [view])
            if context.settings.read_back:
                read_back(storage, new.name, offset, len(view), 0, found)
            return found

        sums += await context.storage.run(
            "write" if offset else "create",
            new.name,
            call,
            length=len(view),
            moved=context.moved(len(view)),
        )
    return sums


async def _join(context: Context, rewrite: Rewrite, new: NewChunk) -> list[int]:
    """Let the service join the chunks, then verify what it made and compute the new sums."""
    sources, blocks = [], []
    end = 0
    for extent in rewrite.extents:
        chunk = context.chunk(extent.chunk_id)
        sources.append((chunk.name, extent.length))
        wanted = sums_between(context.layouts, chunk, 0, block_count(chunk.length))
        for index, value in enumerate(wanted):
            blocks.append((end + min(extent.length, (index + 1) * BLOCK_BYTES), value))
        end += extent.length
    await context.storage.pace(end)
    await context.storage.concat(new.name, sources)
    return await context.storage.run(
        "read_into",
        new.name,
        lambda storage: joined_sums(uncached(storage), new.name, blocks),
        moved=end,
    )


def joined_sums(storage: ChunkStorage, name: str, blocks: Sequence[tuple[int, int]]) -> list[int]:
    """Read a joined chunk once: compare the blocks of its sources, return the sums of its own.

    Args:
        storage: where it lies.
        name: the chunk.
        blocks: end in the chunk and sum of each block of each source, in order.
    """
    total = blocks[-1][0]
    buffer = memoryview(bytearray(min(total, PART_BYTES)))
    sums: list[int] = []
    value, index = 0, 0
    for position in range(0, total, PART_BYTES):
        view = buffer[: min(PART_BYTES, total - position)]
        read_exactly(storage, name, position, view)
        sums += extend_sums([view], position, 0)
        begin = 0
        while begin < len(view):
            end, wanted = blocks[index]
            stop = min(len(view), end - position)
            value = crc32c(view[begin:stop], value)
            begin = stop
            if position + stop == end:
                if value != wanted:
                    raise CorruptDataError(
                        "joined chunk differs from its sources", where=name, end=end
                    )
                value, index = 0, index + 1
    return sums
