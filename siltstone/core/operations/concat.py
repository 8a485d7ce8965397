"""Joining a sealed segment to another: rows move, bytes stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from siltstone.core.errors import (
    CapabilityError,
    OffsetError,
    SegmentNotSealedError,
    SegmentSealedError,
)
from siltstone.core.layout_store import LayoutChange
from siltstone.core.operations.context import Context
from siltstone.core.operations.dropping import plan_dropping
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.table_record import TableEntry
from siltstone.core.words import ROWS_PER_SLICE


def plan_concat(
    target: Layout,
    source: Layout,
    extents: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    start: int,
    extra: tuple[TableEntry, ...],
) -> LayoutChange:
    """Plan to move the bytes of ``source`` from ``start`` on behind those of ``target``.

    Extents wholly below ``start`` are dropped, one that ``start`` lies in loses its head. The last
    chunks of both segments are closed: the one has foreign extents behind it, the other is no last
    chunk any more.
    """
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
        puts[chunk_id] = replace(puts.get(chunk_id, chunk_of(chunk_id)), closed=True)
    return LayoutChange(
        segment_id=target.segment_id,
        before=target,
        after=replace(target, storage_length=target.storage_length + length, last_chunk_id=0),
        extents_removed=tuple(extents),
        extents_put=tuple(moved),
        chunks_put=tuple(puts.values()),
        chunks_dropped=dropping.chunks_dropped,
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


async def run_concat(
    context: Context,
    target_id: int,
    source_id: int,
    expected_target_length: int,
    extra: tuple[TableEntry, ...],
) -> int:
    """See ``ChunkedSegmentStorage.concat``. The caller holds both locks."""
    async with context.sharing:
        change = _planned(context, target_id, source_id, expected_target_length, extra)
        if not await context.commit(change):
            context.live_state(source_id)
            raise context.not_found(target_id)
    return change.before.storage_length


def _planned(
    context: Context,
    target_id: int,
    source_id: int,
    expected_target_length: int,
    extra: tuple[TableEntry, ...],
) -> LayoutChange:
    target_state, source_state = context.live_state(target_id), context.live_state(source_id)
    if source_state.sealed_length is None:
        raise SegmentNotSealedError("source is not sealed", segment=source_state.name)
    if target_state.sealed_length is not None:
        raise SegmentSealedError("target is sealed", segment=target_state.name)
    target, source = context.layouts.layout(target_id), context.layouts.layout(source_id)
    if source.storage_length != source_state.sealed_length:
        raise OffsetError(
            "source is not flushed",
            segment=source_state.name,
            expected=source_state.sealed_length,
            actual=source.storage_length,
        )
    if target.storage_length != expected_target_length:
        raise OffsetError(
            "target has another flushed length",
            segment=target_state.name,
            expected=target.storage_length,
            actual=expected_target_length,
        )
    extents = context.layouts.extents(
        source_id, source.storage_start, source.storage_length, ROWS_PER_SLICE + 1
    )
    if len(extents) > ROWS_PER_SLICE:
        raise CapabilityError(
            "source has more extents than one transaction moves",
            segment=source_state.name,
            limit=ROWS_PER_SLICE,
        )
    start = source_state.start_offset
    assert start >= source.storage_start, "only bytes below the start are ever trimmed"
    return plan_concat(target, source, extents, context.chunk, start, extra)
