"""Closing the chunk that a segment could still be appended to, before its end is reached."""

from __future__ import annotations

from dataclasses import replace

from siltstone.core.layout_store import LayoutChange
from siltstone.core.operations.context import Context
from siltstone.core.records.chunk import Chunk, ended
from siltstone.core.records.layout import Layout


def plan_close(layout: Layout, chunk: Chunk) -> LayoutChange:
    """Plan to let nothing be appended to ``chunk``, the last one of ``layout``."""
    return LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=replace(layout, last_chunk_id=0),
        chunks_put=(ended(chunk),),
    )


async def run_close(context: Context, segment_id: int) -> bool:
    """See ``ChunkedSegmentStorage.close_chunk``. The caller holds the segment's lock."""
    async with context.sharing:
        layout = context.layouts.layout(segment_id)
        if layout.last_chunk_id == 0:
            return True
        return await context.commit(plan_close(layout, context.chunk(layout.last_chunk_id)))
