"""Dropping all rows of a deleted segment, slice by slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from siltstone.core.layout_store import LayoutChange
from siltstone.core.operations.context import Context
from siltstone.core.operations.dropping import Dropping, plan_dropping
from siltstone.core.operations.placing import has_placed, run_unplace
from siltstone.core.operations.trim import commit_dropping
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.table_record import TableEntry
from siltstone.core.words import ROWS_PER_SLICE


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
