"""Moving what is left of mostly dead chunks into one new chunk that several segments share.

The bytes are copied while no caller waits. Then the locks of all their segments that are free are
held, until the last transaction: as in a pack, each one states as many references as there are
extents with it. An extent that changed meanwhile, or whose segment is being changed, stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from siltstone.core.errors import SiltstoneError
from siltstone.core.layout_store import LayoutChange, NewChunk, PackingLayoutStore
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.storage.block_sums import patches
from siltstone.segments.chunk_writes import create_chunk
from siltstone.segments.context import Context
from siltstone.segments.dropped_chunks import plan_dropping
from siltstone.segments.locks import SegmentLocks
from siltstone.segments.pack import commit_slices
from siltstone.segments.read import read_extents

REPACK_EXTENTS_MAX = 1_000
"""Extents of one new chunk."""

MOVES_PER_SLICE = 300
"""Each is an extent, at most one chunk's row and its garbage task."""

_READS_PARALLEL = 8


@dataclass(frozen=True, slots=True)
class Moved:
    """An extent and where its bytes now lie in the new chunk."""

    extent: Extent
    chunk_offset: int


def plan_moves(
    moved: Sequence[Moved],
    chunk: Chunk,
    sums: tuple[BlockSumsPatch, ...],
    layouts: PackingLayoutStore,
    chunk_of: Callable[[int], Chunk],
) -> tuple[LayoutChange, ...]:
    """Plan one transaction: a change for each segment; the first one has all rows of chunks.

    Args:
        moved: extents of this slice, those of one segment next to each other.
        chunk: the new chunk; its references are the extents of the slices before.
        sums: its block sums, for the first transaction that names it; then none.
        layouts: rows as they are now.
        chunk_of: the row of a chunk.
    """
    kept = [each for each in moved if _stays(layouts, each.extent)]
    dropping = plan_dropping((each.extent for each in kept), chunk_of, rows_max=4 * len(moved))
    changes: list[LayoutChange] = []
    for segment_id, group in groupby(kept, key=lambda each: each.extent.segment_id):
        mine = list(group)
        layout = layouts.layout(segment_id)
        changes.append(
            LayoutChange(
                segment_id=segment_id,
                before=layout,
                after=layout,
                extents_removed=tuple(each.extent for each in mine),
                extents_put=tuple(
                    replace(each.extent, chunk_id=chunk.chunk_id, chunk_offset=each.chunk_offset)
                    for each in mine
                ),
            )
        )
    if changes:
        shared = replace(chunk, references=chunk.references + len(kept))
        changes[0] = replace(
            changes[0],
            chunks_put=(*dropping.chunks_put, shared),
            chunks_dropped=dropping.chunks_dropped,
            sums=sums,
        )
    return tuple(changes)


def _stays(layouts: PackingLayoutStore, extent: Extent) -> bool:
    """Whether the extent is as it was, shown, of a segment that lives, and in no open chunk."""
    state, layout = layouts.state(extent.segment_id), layouts.layout(extent.segment_id)
    if state is None or state.deleted or extent.end > layout.storage_length:
        return False
    if extent.chunk_id == layout.last_chunk_id:
        return False
    return layouts.extents(extent.segment_id, extent.start, extent.end, 2) == [extent]


async def run_repack(
    context: Context, layouts: PackingLayoutStore, locks: SegmentLocks, extents: Sequence[Extent]
) -> int:
    """See ``PackingSegmentStorage.repack``."""
    ordered = sorted(extents, key=lambda extent: (extent.segment_id, extent.start))
    copies, failed = await _copies(context, [e for e in ordered if _stays(layouts, e)])
    count = await _state(context, layouts, locks, copies) if copies else 0
    if failed is not None:
        raise failed
    return count


async def _state(
    context: Context,
    layouts: PackingLayoutStore,
    locks: SegmentLocks,
    copies: Sequence[tuple[Extent, memoryview]],
) -> int:
    """Write the new chunk, and state which extents now lie in it."""
    buffers = [view for _, view in copies]
    new, sums = await create_chunk(context, lambda: layouts.new_shared_chunk(len(copies)), buffers)
    return await state_repack(context, layouts, locks, new, sums, [extent for extent, _ in copies])


async def state_repack(
    context: Context,
    layouts: PackingLayoutStore,
    locks: SegmentLocks,
    new: NewChunk,
    sums: Sequence[int],
    extents: Sequence[Extent],
) -> int:
    """State which of ``extents``, whose bytes a new chunk holds in this order, now lie in it.

    Returns:
        How many; when there is none, the chunk was abandoned.
    """
    found = patches(new.chunk_id, 0, sums)
    moved: list[Moved] = []
    length = 0
    for extent in extents:
        moved.append(Moved(extent, length))
        length += extent.length

    def plan(some: Sequence[Moved], chunk: Chunk) -> tuple[LayoutChange, ...]:
        return plan_moves(some, chunk, () if chunk.references else found, layouts, context.chunk)

    ids = dict.fromkeys(extent.segment_id for extent in extents)
    async with locks.hold_free(ids) as held, context.sharing:
        mine = [each for each in moved if each.extent.segment_id in held]
        slices = [mine[at : at + MOVES_PER_SLICE] for at in range(0, len(mine), MOVES_PER_SLICE)]
        packed = await commit_slices(context, layouts, new, length, slices, plan)
    return packed.count


async def _copies(
    context: Context, extents: Sequence[Extent]
) -> tuple[list[tuple[Extent, memoryview]], SiltstoneError | None]:
    """Read the extents, verified; those that cannot be read stay out, with the first reason."""
    copies: list[tuple[Extent, memoryview]] = []
    failed: SiltstoneError | None = None
    for at in range(0, len(extents), _READS_PARALLEL):
        some = extents[at : at + _READS_PARALLEL]
        views = [memoryview(bytearray(extent.length)) for extent in some]
        await context.storage.pace(sum(map(len, views)))
        results = await asyncio.gather(
            *(
                read_extents(context, [extent], extent.start, view)
                for extent, view in zip(some, views, strict=True)
            ),
            return_exceptions=True,
        )
        for extent, view, result in zip(some, views, results, strict=True):
            if result is None:
                copies.append((extent, view))
            elif isinstance(result, SiltstoneError):
                failed = failed or result
            else:
                raise result
    return copies, failed
