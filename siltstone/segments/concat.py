"""Joining a sealed segment to another: rows move, bytes stay where they are.

Several hidden segments are joined to others in one transaction: the end of an import. Each of them
is joined as a concat would join it. What is too much for that one transaction was placed before
(``concat_staging``), and is only shown here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import CapabilityError, OffsetError
from siltstone.core.layout_store import LayoutChange, PackingLayoutStore
from siltstone.core.records.chunk import Chunk, end_chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.table_record import TableEntry
from siltstone.core.storage.late_work import finish
from siltstone.segments.concat_staging import (
    Ends,
    Joining,
    checked,
    commit_joining,
    has_placed,
    placed_end,
    plan_show,
    unplace_all,
)
from siltstone.segments.context import Context
from siltstone.segments.dropped_chunks import plan_dropping
from siltstone.segments.seal import newly_closed, seal_all

CONCAT_EXTENTS_MAX = 400
"""Extents that one transaction moves: each is a row that goes and one that comes."""


def plan_concat(
    ends: Ends,
    extents: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    extra: tuple[TableEntry, ...],
) -> LayoutChange:
    """Plan to move the readable bytes of the source after those of the target.

    Extents wholly below the source's start are dropped, one that it lies in loses its head. The
    last chunks of both segments are closed: one is followed by foreign extents, the other is no
    last chunk any more.
    """
    target, source, start = ends.target, ends.source, ends.source_state.start_offset
    dead = [extent for extent in extents if extent.end <= start]
    dropping = plan_dropping(dead, chunk_of, rows_max=2 * ROWS_PER_SLICE)
    kept = [_without_head(extent, start) for extent in extents if extent.end > start]
    shift = target.storage_length - start
    moved = [
        replace(extent, segment_id=target.segment_id, start=extent.start + shift) for extent in kept
    ]
    length = source.storage_length - start
    puts = {chunk.chunk_id: chunk for chunk in dropping.chunks_put}
    gone = {chunk.chunk_id for chunk in dropping.chunks_dropped}
    for chunk_id in {target.last_chunk_id, source.last_chunk_id} - gone - {0}:
        puts[chunk_id] = end_chunk(puts.get(chunk_id) or chunk_of(chunk_id))
    return LayoutChange(
        segment_id=target.segment_id,
        before=target,
        after=replace(target, storage_length=target.storage_length + length, last_chunk_id=0),
        extents_removed=tuple(extents),
        extents_put=tuple(moved),
        chunks_put=tuple(puts.values()),
        chunks_dropped=dropping.chunks_dropped,
        states=(ends.source_state,),
        layouts_removed=(source.segment_id,),
        extra=extra,
    )


def _without_head(extent: Extent, start: int) -> Extent:
    cut = max(0, start - extent.start)
    return replace(
        extent,
        start=extent.start + cut,
        chunk_offset=extent.chunk_offset + cut,
        length=extent.length - cut,
    )


async def run_concat(context: Context, joining: Joining, extra: tuple[TableEntry, ...]) -> None:
    """See ``ChunkedSegmentStorage.concat``. The caller holds both locks."""
    for segment_id in (joining.target_id, joining.source_id):
        await unplace_all(context, segment_id)
    async with context.sharing:
        await commit_joining(context, joining, _planned(context, joining, extra))


def _planned(context: Context, joining: Joining, extra: tuple[TableEntry, ...]) -> LayoutChange:
    ends = checked(context, joining)
    extents = context.layouts.extents(
        joining.source_id,
        ends.source.storage_start,
        ends.source.storage_length,
        CONCAT_EXTENTS_MAX + 1,
    )
    if len(extents) > CONCAT_EXTENTS_MAX:
        raise CapabilityError(
            "source has more extents than one transaction moves",
            segment=ends.source_state.name,
            limit=CONCAT_EXTENTS_MAX,
        )
    return plan_concat(ends, extents, context.chunk, extra)


async def run_publish(
    context: Context,
    layouts: PackingLayoutStore,
    joinings: Sequence[Joining],
    entries: Callable[[], Sequence[TableEntry]],
) -> None:
    """See ``PackingSegmentStorage.publish``. The caller holds the locks of all segments."""
    closed: list[Chunk] = []

    def plan() -> tuple[LayoutChange, ...]:
        extra = tuple(entries())
        changes = [_change(context, joining) for joining in joinings]
        changes[0] = replace(changes[0], extra=extra)
        closed[:] = [
            chunk
            for change in changes
            for chunk in newly_closed(change, layouts.chunk, context.storage.capabilities)
        ]
        return tuple(changes)

    async with context.sharing:
        applied = await finish(asyncio.ensure_future(layouts.commit_all(plan)))
    for change in applied:
        context.memory.forget(chunk.chunk_id for chunk in change.chunks_put if chunk.closed)
        context.memory.note_end(change.segment_id, is_open=False)
    await seal_all(context.storage, closed, context.mishaps)


def _change(context: Context, joining: Joining) -> LayoutChange:
    ends = checked(context, joining)
    if has_placed(context.layouts, joining.target_id):
        return _shown(context, joining, ends)
    length = ends.source.storage_length
    extents = context.layouts.extents(joining.source_id, 0, length, CONCAT_EXTENTS_MAX + 1)
    assert len(extents) <= CONCAT_EXTENTS_MAX, "more extents are placed first"
    return plan_concat(ends, extents, context.chunk, ())


def _shown(context: Context, joining: Joining, ends: Ends) -> LayoutChange:
    end = ends.source.storage_length + joining.offset
    placed = placed_end(context, joining, end)
    if placed != end:
        raise OffsetError(
            "a part of the import is not placed",
            segment=ends.source_state.name,
            expected=end,
            actual=placed,
        )
    last_id = ends.target.last_chunk_id
    return plan_show(ends, context.chunk(last_id) if last_id else None, end, ())
