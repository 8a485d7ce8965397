"""Joining a segment of any number of extents to another: placed slice by slice, shown at once.

A slice puts extents beyond the target's flushed length, where no reader looks, and counts them as
references; the source keeps its own. The last transaction moves the flushed length over them. What
was placed and not shown is nothing but rows, which the next operation to find them takes away.
What a concat rests on is here too: which segment comes after which, where, and from where on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import OffsetError, SegmentNotSealedError, SegmentSealedError
from siltstone.core.layout_store import LayoutChange, LayoutStore
from siltstone.core.records.chunk import Chunk, end_chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.segments.context import Context
from siltstone.segments.dropped_chunks import plan_dropping


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A concat on its way.

    Attributes:
        target_id: gets the bytes.
        source_id: gives them; sealed, and flushed to its end.
        offset: where they begin in the target: its flushed length.
        start: where they begin in the source: its start.
        hidden: the source is one that was never visible: an import's, whose state says deleted.
    """

    target_id: int
    source_id: int
    offset: int
    start: int
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The rows of both segments.

    Attributes:
        target: layout of the target.
        source: layout of the source.
        source_state: state of the source; the concat holds only while it stays the same.
    """

    target: Layout
    source: Layout
    source_state: SegmentState


def checked(context: Context, joining: Joining) -> Ends:
    """The rows of both segments, if the concat may continue.

    Raises:
        SegmentNotFoundError: one of the two was deleted.
        SegmentNotSealedError: the source is not sealed.
        SegmentSealedError: the target is sealed.
        OffsetError: one of the two has changed.
    """
    target_state = context.live_state(joining.target_id)
    source_state = _source_state(context, joining)
    target = context.layouts.layout(joining.target_id)
    source = context.layouts.layout(joining.source_id)
    if source_state.sealed_length is None:
        raise SegmentNotSealedError("source is not sealed", segment=source_state.name)
    if target_state.sealed_length is not None:
        raise SegmentSealedError("target is sealed", segment=target_state.name)
    if source.storage_length != source_state.sealed_length:
        raise OffsetError(
            "source is not flushed",
            segment=source_state.name,
            expected=source_state.sealed_length,
            actual=source.storage_length,
        )
    if source_state.start_offset != joining.start:
        raise truncated(source_state, joining)
    if target.storage_length != joining.offset:
        raise OffsetError(
            "target has another flushed length",
            segment=target_state.name,
            expected=target.storage_length,
            actual=joining.offset,
        )
    return Ends(target=target, source=source, source_state=source_state)


async def commit_joining(context: Context, joining: Joining, change: LayoutChange) -> None:
    """Commit ``change``, or say which of the two has changed. Raises what ``checked`` raises."""
    if await context.commit(change):
        return
    context.live_state(joining.target_id)
    raise truncated(_source_state(context, joining), joining)


def _source_state(context: Context, joining: Joining) -> SegmentState:
    if not joining.hidden:
        return context.live_state(joining.source_id)
    state = context.layouts.state(joining.source_id)
    if state is None:
        raise context.not_found(joining.source_id)
    return state


def truncated(source: SegmentState, joining: Joining) -> OffsetError:
    """The error for a source whose start has moved: what was truncated must not come back."""
    return OffsetError(
        "source was truncated meanwhile",
        segment=source.name,
        expected=source.start_offset,
        actual=joining.start,
    )


OFFSET_END = 2**63
"""Above every offset of a segment."""

PLACED_PER_SLICE = 400
"""Extents of one slice: each is a row, and so is its chunk, with room for the others."""


def has_placed(layouts: LayoutStore, segment_id: int) -> bool:
    """Whether extents were placed beyond the segment's flushed length."""
    length = layouts.layout(segment_id).storage_length
    return bool(layouts.extents(segment_id, length, OFFSET_END, 1))


def plan_place(
    ends: Ends,
    extents: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    position: int,
    shift: int,
    extra: tuple[TableEntry, ...],
) -> LayoutChange:
    """Plan one slice.

    Args:
        ends: the rows; neither layout changes.
        extents: of the source, neighbours; the first holds ``position``.
        chunk_of: the row of a chunk.
        position: where the slice begins, in the source.
        shift: what is added to offsets in the source.
        extra: entries that go with the slice.
    """
    target = ends.target
    names = Counter(extent.chunk_id for extent in extents)
    chunks = [
        replace(chunk, references=chunk.references + count)
        for chunk, count in ((chunk_of(chunk_id), count) for chunk_id, count in names.items())
    ]
    placed = []
    for extent in extents:
        cut = max(0, position - extent.start)
        placed.append(
            replace(
                extent,
                segment_id=target.segment_id,
                start=extent.start + cut + shift,
                chunk_offset=extent.chunk_offset + cut,
                length=extent.length - cut,
            )
        )
    return LayoutChange(
        segment_id=target.segment_id,
        before=target,
        after=target,
        extents_put=tuple(placed),
        chunks_put=tuple(chunks),
        states=(ends.source_state,),
        extra=extra,
    )


def plan_show(
    ends: Ends, last_chunk: Chunk | None, end: int, extra: tuple[TableEntry, ...]
) -> LayoutChange:
    """Plan the transaction that shows everything placed up to ``end`` of the target."""
    closed = () if last_chunk is None else (end_chunk(last_chunk),)
    return LayoutChange(
        segment_id=ends.target.segment_id,
        before=ends.target,
        after=replace(ends.target, storage_length=end, last_chunk_id=0),
        chunks_put=closed,
        states=(ends.source_state,),
        extra=extra,
    )


def plan_unplace(
    layout: Layout,
    placed: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    extra: tuple[TableEntry, ...],
) -> LayoutChange:
    """Plan to take away the last extents that were placed, and to drop what only they name."""
    dropping = plan_dropping(placed, chunk_of, rows_max=2 * ROWS_PER_SLICE)
    return LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=None if layout == Layout(segment_id=layout.segment_id) else layout,
        extents_removed=dropping.extents,
        chunks_put=dropping.chunks_put,
        chunks_dropped=dropping.chunks_dropped,
        live=False,
        extra=extra,
    )


async def run_place(context: Context, joining: Joining, extra: tuple[TableEntry, ...]) -> bool:
    """See ``ChunkedSegmentStorage.place``. The caller holds both locks."""
    async with context.sharing:
        ends = _closed(context, joining)
        length = ends.source.storage_length
        shift = joining.offset - joining.start
        position = placed_end(context, joining, length + shift) - shift
        if position == length:
            return True
        extents = context.layouts.extents(joining.source_id, position, length, PLACED_PER_SLICE)
        entries = extra if position == joining.start else ()
        change = plan_place(ends, extents, context.chunk, position, shift, entries)
        await commit_joining(context, joining, change)
    return extents[-1].end == length


async def run_show(context: Context, joining: Joining, extra: tuple[TableEntry, ...]) -> None:
    """See ``ChunkedSegmentStorage.show``. The caller holds both locks."""
    async with context.sharing:
        ends = _closed(context, joining)
        end = ends.source.storage_length + joining.offset - joining.start
        placed = placed_end(context, joining, end)
        if placed != end:
            raise OffsetError(
                "a part of the source is not placed",
                segment=ends.source_state.name,
                expected=end,
                actual=placed,
            )
        last_id = ends.target.last_chunk_id
        last = context.chunk(last_id) if last_id else None
        await commit_joining(context, joining, plan_show(ends, last, end, extra))


async def run_unplace(context: Context, segment_id: int, extra: tuple[TableEntry, ...]) -> bool:
    """See ``ChunkedSegmentStorage.unplace``. The caller holds the segment's lock."""
    async with context.sharing:
        layout = context.layouts.layout(segment_id)
        # From the end on, so that what is left follows the flushed length without gap.
        placed = _last_placed(context.layouts, layout)
        done = not placed or placed[0].start == layout.storage_length
        if not placed and not extra:
            return True
        change = plan_unplace(layout, placed, context.chunk, extra if done else ())
        await context.commit(change)
        for chunk in change.chunks_dropped:
            context.blocks.forget(chunk.name)
    return done


async def unplace_all(context: Context, segment_id: int) -> None:
    """Take away what a concat placed and did not show. The caller holds the segment's lock."""
    if has_placed(context.layouts, segment_id):
        while not await run_unplace(context, segment_id, ()):
            pass


def _last_placed(layouts: LayoutStore, layout: Layout) -> list[Extent]:
    """The last extents beyond the flushed length, in order: as many as a slice takes."""
    found: list[Extent] = []
    end = OFFSET_END
    while end > layout.storage_length and len(found) < PLACED_PER_SLICE:
        extent = layouts.floor(layout.segment_id, end - 1)
        if extent is None or extent.start < layout.storage_length:
            break
        found.append(extent)
        end = extent.start
    return found[::-1]


def _closed(context: Context, joining: Joining) -> Ends:
    """The rows of both, if the concat may continue and the source's chunks take no more bytes."""
    ends = checked(context, joining)
    if ends.source.last_chunk_id:
        end = ends.source.storage_length
        open_part = context.layouts.floor(joining.source_id, end - 1)
        raise OffsetError(
            "the source's last chunk is open",
            segment=ends.source_state.name,
            expected=end,
            # Up to here the source lies in chunks that take no more bytes.
            actual=end if open_part is None else open_part.start,
        )
    return ends


def placed_end(context: Context, joining: Joining, end: int) -> int:
    """End of what is placed already; the target's flushed length before anything is."""
    if end == joining.offset:
        return end
    last = context.layouts.floor(joining.target_id, end - 1)
    return joining.offset if last is None or last.end <= joining.offset else last.end
