"""Joining a sealed segment to another: rows move, bytes stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from siltstone.core.errors import CapabilityError
from siltstone.core.layout_store import LayoutChange
from siltstone.core.operations.context import Context
from siltstone.core.operations.dropping import plan_dropping
from siltstone.core.operations.joining import Ends, Joining, checked, commit_joining
from siltstone.core.operations.placing import unplace_all
from siltstone.core.records.chunk import Chunk, ended
from siltstone.core.records.extent import Extent
from siltstone.core.records.table_record import TableEntry
from siltstone.core.words import ROWS_PER_SLICE

CONCAT_EXTENTS_MAX = 400
"""Extents that one transaction moves: each is a row that goes and one that comes."""


def plan_concat(
    ends: Ends,
    extents: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    extra: tuple[TableEntry, ...],
) -> LayoutChange:
    """Plan to move the readable bytes of the source behind those of the target.

    Extents wholly below the source's start are dropped, one that it lies in loses its head. The
    last chunks of both segments are closed: the one has foreign extents behind it, the other is no
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
        puts[chunk_id] = ended(puts.get(chunk_id) or chunk_of(chunk_id))
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
