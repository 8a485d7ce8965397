"""Joining several hidden segments to others in one transaction: the end of an import.

Each hidden segment is joined as a concat would join it. What is too much for that one transaction
was placed before (``placing``), and is only shown here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from siltstone.core.errors import OffsetError
from siltstone.core.late_work import finish
from siltstone.core.layout_store import LayoutChange, PackingLayoutStore
from siltstone.core.operations.concat import CONCAT_EXTENTS_MAX, plan_concat
from siltstone.core.operations.context import Context
from siltstone.core.operations.joining import Ends, Joining, checked
from siltstone.core.operations.placing import has_placed, placed_end, plan_show
from siltstone.core.operations.sealing import newly_closed, seal_all
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.table_record import TableEntry


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
    assert len(extents) <= CONCAT_EXTENTS_MAX, "so many extents are placed first"
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
