"""Putting back bytes that a chunk has lost: a new chunk takes their place, under a new name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from siltstone.core.chunk_storage import Buffer
from siltstone.core.layout_store import LayoutChange, NewChunk
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.storage.block_sums import patches
from siltstone.segments.chunk_writes import create_chunk
from siltstone.segments.context import Context


def plan_put_back(
    layout: Layout,
    extent: Extent,
    chunk: Chunk,
    bytes_at: Extent,
    new: NewChunk,
    sums: tuple[BlockSumsPatch, ...],
    *,
    epoch: int,
) -> LayoutChange:
    """Plan the transaction that lets a new chunk stand for a part of an extent.

    What is left of the extent, on both sides, stays where it is. Nothing is appended to its chunk
    any more.

    Args:
        layout: the row.
        extent: names the part now.
        chunk: that it lies in.
        bytes_at: the part, in the new chunk.
        new: the new chunk.
        sums: of it.
        epoch: of it.
    """
    before = replace(extent, length=bytes_at.start - extent.start)
    skipped = bytes_at.end - extent.start
    after = replace(
        extent,
        start=bytes_at.end,
        chunk_offset=extent.chunk_offset + skipped,
        length=extent.length - skipped,
    )
    left = [part for part in (before, after) if part.length > 0]
    references = chunk.references - 1 + len(left)
    ends = layout.last_chunk_id == chunk.chunk_id
    made = Chunk(
        chunk_id=new.chunk_id, name=new.name, epoch=epoch, length=bytes_at.length, closed=True
    )
    older = replace(chunk, references=references, closed=chunk.closed or ends)
    return LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=replace(layout, last_chunk_id=0 if ends else layout.last_chunk_id),
        extents_removed=(extent,),
        extents_put=tuple(sorted((*left, bytes_at), key=lambda part: part.start)),
        chunks_put=(older, made) if references else (made,),
        chunks_dropped=() if references else (chunk,),
        sums=sums,
    )


async def run_put_back(
    context: Context, lock: asyncio.Lock, segment_id: int, offset: int, buffers: Sequence[Buffer]
) -> None:
    """See ``ChunkedSegmentStorage.put_back``."""
    layouts, length = context.layouts, sum(map(len, buffers))
    async with lock, context.sharing:
        layout, extent = layouts.layout(segment_id), layouts.floor(segment_id, offset)
        if not length or extent is None or min(extent.end, layout.storage_length) < offset + length:
            raise ValueError(f"no extent holds {length} bytes at {offset}")
        chunk = context.chunk(extent.chunk_id)
        if chunk.in_place:
            raise ValueError(f"an object in place is not replaced: {chunk.name}")
        new, sums = await create_chunk(
            context, lambda: layouts.new_chunk(segment_id, offset), buffers
        )
        bytes_at = Extent(
            segment_id=segment_id,
            start=offset,
            chunk_id=new.chunk_id,
            chunk_offset=0,
            length=length,
        )
        change = plan_put_back(
            layout,
            extent,
            chunk,
            bytes_at,
            new,
            patches(new.chunk_id, 0, sums),
            epoch=layouts.epoch,
        )
        if not await context.commit(change):
            context.memory.abandon([new])
            raise context.not_found(segment_id)
        context.blocks.forget(chunk.name)
