"""Writing runs of several segments into one shared chunk: one create, few transactions.

The caller holds the locks of all these segments from before the chunk is made until the last
transaction. So only this operation changes the references of the chunk meanwhile, and each
transaction may state as many references as there are extents with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import TypeVar

from siltstone.core.chunk_storage import Buffer
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import Outcome, SiltstoneError
from siltstone.core.layout_store import LayoutChange, NewChunk, PackingLayoutStore
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk, end_chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow
from siltstone.core.storage.block_sums import patches
from siltstone.core.storage.late_work import finish
from siltstone.segments.chunk_writes import create_chunk
from siltstone.segments.concat_staging import has_placed
from siltstone.segments.context import Context

PACKED_COUNT_MIN = 2
"""Fewer runs are no pack: a run alone has a chunk that is named after its segment."""

_ROWS_OF_RUN = 2

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRun:
    """The next bytes of one segment.

    Attributes:
        segment_id: the segment.
        offset: where they begin: its flushed length.
        length: at least 1 byte.
        buffers: the bytes; kept until the call ends, never copied.
        writers: writer rows as of their end.
        extra: entries that go with the transaction, such as rows of the time index.
    """

    segment_id: int
    offset: int
    length: int
    buffers: tuple[Buffer, ...]
    writers: tuple[WriterRow, ...] = ()
    extra: tuple[TableEntry, ...] = ()

    @property
    def end(self) -> int:
        """Offset in the segment after the last byte."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """A run and its offset in the shared chunk."""

    run: PackedRun
    chunk_offset: int


def place(runs: Sequence[PackedRun]) -> list[PlacedRun]:
    """Put runs one after the other."""
    offsets = accumulate((run.length for run in runs), initial=0)
    return [PlacedRun(run, offset) for run, offset in zip(runs, offsets, strict=False)]


def in_slices(placed: Sequence[PlacedRun], rows_max: int = ROWS_PER_SLICE) -> list[list[PlacedRun]]:
    """Cut into transactions of at most ``rows_max`` rows, but at least one run each."""
    slices: list[list[PlacedRun]] = []
    room = 0
    for each in placed:
        rows = _ROWS_OF_RUN + len(each.run.writers) + len(each.run.extra)
        if not slices or rows > room:
            slices.append([])
            room = rows_max
        slices[-1].append(each)
        room -= rows
    return slices


def takes(
    run: PackedRun,
    state: SegmentState | None,
    layout: Layout,
    chunk_of: Callable[[int], Chunk | None],
) -> bool:
    """Whether the segment is live, needs the run still, and has none of it flushed.

    A segment whose last chunk has no row is damaged. That is for its own flush to tell, and must
    not keep the others from theirs.
    """
    if state is None or state.deleted or state.start_offset >= run.end:
        return False
    if layout.last_chunk_id and chunk_of(layout.last_chunk_id) is None:
        return False
    return layout.storage_length == run.offset


def plan_packed(
    placed: Sequence[PlacedRun],
    chunk: Chunk,
    sums: tuple[BlockSumsPatch, ...],
    *,
    state_of: Callable[[int], SegmentState | None],
    layout_of: Callable[[int], Layout],
    chunk_of: Callable[[int], Chunk | None],
) -> tuple[LayoutChange, ...]:
    """Plan one transaction: an extent for each run that is still needed.

    Args:
        placed: the runs of this slice.
        chunk: the shared chunk; its references are the extents of the slices before.
        sums: its block sums, for the first transaction that names it; then none.
        state_of: the state of a segment at this moment.
        layout_of: its layout.
        chunk_of: the row of a chunk.

    Returns:
        A change for each such run; the first one has the row of the shared chunk.
    """
    living = [
        each
        for each in placed
        if takes(each.run, state_of(each.run.segment_id), layout_of(each.run.segment_id), chunk_of)
    ]
    shared = replace(chunk, references=chunk.references + len(living))
    changes: list[LayoutChange] = []
    for each in living:
        layout = layout_of(each.run.segment_id)
        change = _change(each, layout, chunk.chunk_id, _closing(layout, chunk_of))
        if not changes:
            change = replace(change, chunks_put=(*change.chunks_put, shared), sums=sums)
        changes.append(change)
    return tuple(changes)


def _closing(layout: Layout, chunk_of: Callable[[int], Chunk | None]) -> tuple[Chunk, ...]:
    """The row that closes the segment's open chunk, which is no longer its last one."""
    last = chunk_of(layout.last_chunk_id) if layout.last_chunk_id else None
    # The row of a shared chunk may change at any time by another segment's transaction.
    return (end_chunk(last),) if last is not None and last.references == 1 else ()


def _change(
    each: PlacedRun, layout: Layout, chunk_id: int, closing: tuple[Chunk, ...]
) -> LayoutChange:
    run = each.run
    extent = Extent(
        segment_id=run.segment_id,
        start=run.offset,
        chunk_id=chunk_id,
        chunk_offset=each.chunk_offset,
        length=run.length,
    )
    return LayoutChange(
        segment_id=run.segment_id,
        before=layout,
        after=layout.grown(run.offset, run.end),
        extents_put=(extent,),
        chunks_put=closing,
        writers=run.writers,
        extra=run.extra,
    )


@dataclass(slots=True)
class Packed:
    """What a pack came to.

    Attributes:
        count: runs that are flushed now.
        closed: other chunks whose rows changed: those that were a segment's open ones.
    """

    count: int = 0
    closed: list[Chunk] = field(default_factory=list)


async def run_pack(
    context: Context, layouts: PackingLayoutStore, runs: Sequence[PackedRun]
) -> Packed:
    """See ``PackingSegmentStorage.write_packed``. The caller holds the locks of all segments."""
    needed = [
        run
        for run in runs
        if takes(run, layouts.state(run.segment_id), layouts.layout(run.segment_id), layouts.chunk)
        and not has_placed(layouts, run.segment_id)
    ]
    if len(needed) < PACKED_COUNT_MIN:
        return Packed()
    buffers = [buffer for run in needed for buffer in run.buffers]
    new, sums = await create_chunk(context, lambda: layouts.new_shared_chunk(len(needed)), buffers)
    found = patches(new.chunk_id, 0, sums)

    def plan(some: list[PlacedRun], chunk: Chunk) -> tuple[LayoutChange, ...]:
        return plan_packed(
            some,
            chunk,
            () if chunk.references else found,
            state_of=layouts.state,
            layout_of=layouts.layout,
            chunk_of=layouts.chunk,
        )

    length = sum(run.length for run in needed)
    return await commit_slices(context, layouts, new, length, in_slices(place(needed)), plan)


async def commit_slices(
    context: Context,
    layouts: PackingLayoutStore,
    new: NewChunk,
    length: int,
    slices: Sequence[S],
    plan: Callable[[S, Chunk], tuple[LayoutChange, ...]],
) -> Packed:
    """State in a few transactions what lies in a new shared chunk of ``length`` bytes.

    Carried to its end when the caller is cancelled: what it does next starts from the truth.

    Args:
        context: the tools.
        layouts: the rows; the locks of all segments of ``slices`` are held.
        new: the chunk.
        length: its bytes.
        slices: what each transaction states.
        plan: plans one; it is given the chunk with as many references as there were before it.
    """
    chunk = Chunk(
        chunk_id=new.chunk_id,
        name=new.name,
        epoch=layouts.epoch,
        length=length,
        closed=True,
        references=0,
    )
    work = _commit(context, layouts, chunk, slices, plan)
    return await finish(asyncio.ensure_future(work))


async def _commit(
    context: Context,
    layouts: PackingLayoutStore,
    chunk: Chunk,
    slices: Sequence[S],
    plan: Callable[[S, Chunk], tuple[LayoutChange, ...]],
) -> Packed:
    new = NewChunk(chunk_id=chunk.chunk_id, name=chunk.name)
    packed = Packed()
    for some in slices:
        now = replace(chunk, references=packed.count)
        try:
            changes = await layouts.commit_all(partial(plan, some, now))
        except SiltstoneError as error:
            if error.outcome is Outcome.NOT_APPLIED and not packed.count:
                context.memory.abandon([new])
            raise
        for change in changes:
            packed.count += len(change.extents_put)
            _remember(context, change)
            # The shared chunk is left as it is: nothing is ever appended to it.
            packed.closed += [
                row for row in change.chunks_put if row.closed and row.chunk_id != chunk.chunk_id
            ]
    if not packed.count:
        context.memory.abandon([new])
    return packed


def _remember(context: Context, change: LayoutChange) -> None:
    """Forget what rows now say."""
    context.memory.forget(chunk.chunk_id for chunk in (*change.chunks_put, *change.chunks_dropped))
    after = change.after
    context.memory.note_end(
        change.segment_id, is_open=after is not None and after.last_chunk_id != 0
    )
    for chunk in change.chunks_dropped:
        context.blocks.forget(chunk.name)
