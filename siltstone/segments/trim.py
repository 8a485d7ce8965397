"""Dropping extents below the start of a segment, or all rows of a deleted one, slice by slice.

The flushed length may also jump over dead bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.layout_store import LayoutChange
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow
from siltstone.segments.concat_staging import has_placed, run_unplace, unplace_all
from siltstone.segments.context import Context
from siltstone.segments.dropped_chunks import Dropping, plan_dropping


def plan_trim(
    layout: Layout,
    extents: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    start: int,
    *,
    rows_max: int = ROWS_PER_SLICE,
) -> tuple[LayoutChange | None, Dropping]:
    """Plan one slice of dropping the ``extents`` that end at or below ``start``.

    Args:
        layout: the row.
        extents: the first extents of the segment, in order; more than a slice may take.
        chunk_of: the row of a chunk.
        start: bytes below it are dead.
        rows_max: most rows of the slice.

    Returns:
        The change, ``None`` when there is nothing to drop; and what it drops.
    """
    below = [extent for extent in extents if extent.end <= start]
    dropping = plan_dropping(below, chunk_of, rows_max=rows_max)
    if not dropping.extents:
        return None, dropping
    storage_start = dropping.extents[-1].end
    emptied = storage_start == layout.storage_length
    after = replace(
        layout,
        storage_start=storage_start,
        last_chunk_id=0 if emptied else layout.last_chunk_id,
    )
    change = LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=after,
        extents_removed=dropping.extents,
        chunks_put=dropping.chunks_put,
        chunks_dropped=dropping.chunks_dropped,
    )
    return change, dropping


async def run_trim(
    context: Context, segment_id: int, start: int, *, keep_last: bool = False
) -> bool:
    """See ``ChunkedSegmentStorage.trim``. The caller holds the segment's lock."""
    state = context.layouts.state(segment_id)
    if state is None or state.deleted:
        return True
    if start > state.start_offset:
        raise ValueError(f"bytes from {state.start_offset} on are readable, not only from {start}")

    def plan() -> tuple[LayoutChange | None, Dropping]:
        layout = context.layouts.layout(segment_id)
        end = min(start, layout.storage_length)
        extents = context.layouts.extents(segment_id, layout.storage_start, end, ROWS_PER_SLICE + 1)
        if keep_last:
            extents = [one for one in extents if one.end < layout.storage_length]
        return plan_trim(layout, extents, context.chunk, start)

    change = await commit_dropping(context, plan)
    return change is None or plan()[0] is None


async def commit_dropping(
    context: Context, plan: Callable[[], tuple[LayoutChange | None, Dropping]]
) -> LayoutChange | None:
    """Commit what ``plan`` returns; ``None`` if that is nothing, or the segment was deleted."""
    change, dropping = plan()
    if not dropping.shared:
        return await _commit(context, change, dropping)
    async with context.sharing:
        change, dropping = plan()
        return await _commit(context, change, dropping)


async def _commit(
    context: Context, change: LayoutChange | None, dropping: Dropping
) -> LayoutChange | None:
    if change is None or not await context.commit(change):
        return None
    for chunk in dropping.chunks_dropped:
        context.blocks.forget(chunk.name)
    return change


def plan_skip(layout: Layout, to: int, writers: tuple[WriterRow, ...]) -> LayoutChange:
    """Plan the jump of a layout without extents to ``to``."""
    assert layout.storage_start == layout.storage_length, "extents were trimmed before"
    after = replace(layout, storage_start=to, storage_length=to, last_chunk_id=0)
    return LayoutChange(segment_id=layout.segment_id, before=layout, after=after, writers=writers)


async def run_skip(
    context: Context,
    segment_id: int,
    to: int,
    writers: tuple[WriterRow, ...],
    extra: tuple[TableEntry, ...],
) -> None:
    """See ``ChunkedSegmentStorage.skip``. The caller holds the segment's lock."""
    state = context.live_state(segment_id)
    if to > state.start_offset:
        raise ValueError(f"bytes from {state.start_offset} on are readable, not only from {to}")
    if to <= context.layouts.layout(segment_id).storage_length:
        return
    await unplace_all(context, segment_id)
    await drop_all(context, segment_id)
    change = plan_skip(context.layouts.layout(segment_id), to, writers)
    if not await context.commit(replace(change, extra=extra)):
        raise context.not_found(segment_id)


async def drop_all(context: Context, segment_id: int) -> None:
    """Trim a segment all of whose flushed bytes are dead. Raises ``SegmentNotFoundError``."""
    while not await run_trim(
        context, segment_id, context.layouts.layout(segment_id).storage_length
    ):
        pass
    context.live_state(segment_id)


def plan_remove(
    layout: Layout,
    extents: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    extra: tuple[TableEntry, ...],
    *,
    rows_max: int = ROWS_PER_SLICE,
) -> tuple[LayoutChange, Dropping]:
    """Plan one slice; the last one removes the layout row and carries ``extra``."""
    dropping = plan_dropping(extents, chunk_of, rows_max=rows_max)
    start = dropping.extents[-1].end if dropping.extents else layout.storage_length
    last = start == layout.storage_length
    change = LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=None if last else replace(layout, storage_start=start),
        extents_removed=dropping.extents,
        chunks_put=dropping.chunks_put,
        chunks_dropped=dropping.chunks_dropped,
        live=False,
        extra=extra if last else (),
    )
    return change, dropping


async def run_remove(context: Context, segment_id: int, extra: tuple[TableEntry, ...]) -> bool:
    """See ``ChunkedSegmentStorage.remove``. The caller holds the segment's lock."""
    state = context.layouts.state(segment_id)
    if state is None:
        return True
    if not state.deleted:
        raise ValueError(f"segment {segment_id} is not deleted")
    if has_placed(context.layouts, segment_id):
        await run_unplace(context, segment_id, ())
        return False

    def plan() -> tuple[LayoutChange, Dropping]:
        layout = context.layouts.layout(segment_id)
        extents = context.layouts.extents(
            segment_id, layout.storage_start, layout.storage_length, ROWS_PER_SLICE + 1
        )
        return plan_remove(layout, extents, context.chunk, extra)

    change = await commit_dropping(context, plan)
    assert change is not None, "a removal is committed although the segment is deleted"
    return change.after is None
