"""Which neighbouring extents of a segment should lie in one new chunk, and how. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from siltstone.core.chunk_storage import Capabilities
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.layout_store import LayoutChange, NewChunk
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.segments.dropped_chunks import plan_dropping

RUN_EXTENTS_MAX = 250
"""Extents of one rewrite: each costs its row, its chunk's row and a garbage task."""

SHARED_FACTOR = 4
"""This many times as many chunks make a rewrite worth it when all of them are shared and the new
one would be small: a chunk for each segment is what sharing has saved."""

DOMINATING = 2
"""A chunk with more than this many times the bytes of its neighbours is not rewritten for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Bytes of one segment that shall lie in one new chunk.

    Attributes:
        segment_id: the segment.
        start: the first byte; in the first extent, and above its start only if what is below is
            dead and the first of the layout.
        extents: the extents that hold them now, neighbours, to the end of the last.
    """

    segment_id: int
    start: int
    extents: tuple[Extent, ...]

    @property
    def end(self) -> int:
        """Offset in the segment after the last byte."""
        return self.extents[-1].end

    @property
    def length(self) -> int:
        """How many bytes are rewritten."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class RelocationRules:
    """When the live rest of a mostly dead first chunk moves to a chunk of its own.

    Attributes:
        chunk_bytes_min: smaller chunks stay.
        chunk_bytes_max: larger ones too.
        percent: at least this percentage of the chunk must be dead.
        live_bytes_max: at most this many live bytes are copied.
    """

    chunk_bytes_min: int
    chunk_bytes_max: int
    percent: int
    live_bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """When small neighbours become one chunk.

    Attributes:
        small_bytes: an extent of at most this many bytes takes part.
        chunk_bytes: what the new chunk may hold.
        count_min: fewer chunks are not worth a rewrite; four times as many where all are
            shared, unless they fill half a chunk.
        extents_max: most extents of one rewrite.
    """

    small_bytes: int
    chunk_bytes: int
    count_min: int
    extents_max: int = RUN_EXTENTS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """What a look at some neighbours found.

    Attributes:
        rewrites: in order.
        resume: start of a run at their end that more neighbours might make longer.
    """

    rewrites: tuple[Rewrite, ...]
    resume: int | None = None


def plan_relocation(
    layout: Layout, first: Extent, chunk: Chunk, start: int, rules: RelocationRules
) -> Rewrite | None:
    """Plan to move the live rest of the first chunk, if it is worth that.

    Args:
        layout: the row.
        first: the first extent of the layout.
        chunk: what it lies in.
        start: bytes below are dead.
        rules: when it is worth it.
    """
    if first.start != layout.storage_start or not first.start < start < first.end:
        return None
    if first.end > layout.storage_length:
        # A concat placed it, and has not shown it.
        return None
    if chunk.in_place:
        return None
    if chunk.references > 1 or not rules.chunk_bytes_min <= chunk.length <= rules.chunk_bytes_max:
        return None
    live = first.end - start
    if live > rules.live_bytes_max or 100 * (chunk.length - live) < rules.percent * chunk.length:
        return None
    return Rewrite(segment_id=layout.segment_id, start=start, extents=(first,))


def plan_merges(
    layout: Layout,
    extents: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    start: int,
    rules: MergeRules,
    *,
    epoch: int,
    more: bool = False,
) -> MergePlan:
    """Find runs of small neighbours.

    The chunk that this epoch appends to takes no part, nor does one in place. An extent with dead
    bytes takes part without them if it is the layout's first one, and not at all while others
    before it wait to be trimmed.

    Args:
        layout: the row.
        extents: neighbours, in order, none beyond the storage length.
        chunk_of: the row of a chunk.
        start: bytes below are dead.
        rules: when a merge is worth it.
        epoch: of the owner.
        more: whether more neighbours follow; then a run that reaches the end is not planned.
    """
    rewrites: list[Rewrite] = []
    run: list[Extent] = []
    total = 0
    for extent in extents:
        length = extent.end - max(extent.start, start)
        fits = _takes_part(layout, extent, chunk_of, start, rules, epoch)
        full = total + length > rules.chunk_bytes or len(run) == rules.extents_max
        if run and (not fits or full):
            rewrites += _worth(layout, run, chunk_of, start, rules)
            run, total = [], 0
        if fits:
            run.append(extent)
            total += length
    if run and more:
        return MergePlan(rewrites=tuple(rewrites), resume=run[0].start)
    return MergePlan(rewrites=(*rewrites, *_worth(layout, run, chunk_of, start, rules)))


def _takes_part(
    layout: Layout,
    extent: Extent,
    chunk_of: Callable[[int], Chunk],
    start: int,
    rules: MergeRules,
    epoch: int,
) -> bool:
    length = extent.end - max(extent.start, start)
    if not 0 < length <= min(rules.small_bytes, rules.chunk_bytes):
        return False
    if extent.start < start and extent.start != layout.storage_start:
        return False
    chunk = chunk_of(extent.chunk_id)
    if chunk.in_place:
        return False
    if extent.chunk_id != layout.last_chunk_id:
        return True
    return chunk.closed or chunk.epoch != epoch


def _worth(
    layout: Layout,
    run: Sequence[Extent],
    chunk_of: Callable[[int], Chunk],
    start: int,
    rules: MergeRules,
) -> Iterable[Rewrite]:
    """The run as a rewrite without what dominates it at its ends, if enough is left."""
    lengths = [extent.end - max(extent.start, start) for extent in run]
    low, high, total = 0, len(run), sum(lengths)
    while high - low > 1:
        if lengths[low] > DOMINATING * (total - lengths[low]):
            total -= lengths[low]
            low += 1
        elif lengths[high - 1] > DOMINATING * (total - lengths[high - 1]):
            high -= 1
            total -= lengths[high]
        else:
            break
    kept = tuple(run[low:high])
    chunks = {extent.chunk_id for extent in kept}
    least = max(2, rules.count_min)
    if 2 * total < rules.chunk_bytes and all(chunk_of(c).references > 1 for c in chunks):
        least = max(least, min(SHARED_FACTOR * least, rules.extents_max))
    if len(chunks) < least:
        return ()
    first = max(kept[0].start, start)
    return (Rewrite(segment_id=layout.segment_id, start=first, extents=kept),)


def joins_natively(
    rewrite: Rewrite, chunk_of: Callable[[int], Chunk], capabilities: Capabilities
) -> bool:
    """Whether the service can make the new chunk: of whole chunks of ours, within its limits."""
    extents = rewrite.extents
    if not capabilities.concat or not 2 <= len(extents) <= capabilities.concat_parts_max:
        return False
    if rewrite.start != extents[0].start:
        return False
    for extent in extents:
        chunk = chunk_of(extent.chunk_id)
        whole = extent.chunk_offset == 0 and extent.length == chunk.length
        if not whole or chunk.adopted or chunk.references > 1:
            return False
        if extent.length > capabilities.concat_part_bytes_max:
            return False
    return all(extent.length >= capabilities.concat_part_bytes_min for extent in extents[:-1])


def plan_swap(
    layout: Layout,
    found: Sequence[Extent],
    rewrite: Rewrite,
    new: NewChunk,
    sums: tuple[BlockSumsPatch, ...],
    chunk_of: Callable[[int], Chunk],
    *,
    epoch: int,
) -> LayoutChange | None:
    """Plan the transaction that lets one extent in the new chunk stand for those of ``rewrite``.

    Args:
        layout: the row as it is now.
        found: the extents that hold the range now.
        rewrite: what was written.
        new: where.
        sums: of the new chunk.
        chunk_of: the row of a chunk as it is now.
        epoch: of the new chunk.

    Returns:
        ``None`` when the extents are not the same any more.
    """
    first = rewrite.extents[0]
    if tuple(found) != rewrite.extents or rewrite.end > layout.storage_length:
        return None
    cut = rewrite.start > first.start
    if cut and layout.storage_start != first.start:
        return None
    dropping = plan_dropping(rewrite.extents, chunk_of, rows_max=2 * ROWS_PER_SLICE)
    gone = {extent.chunk_id for extent in rewrite.extents}
    extent = Extent(
        segment_id=rewrite.segment_id,
        start=rewrite.start,
        chunk_id=new.chunk_id,
        chunk_offset=0,
        length=rewrite.length,
    )
    chunk = Chunk(
        chunk_id=new.chunk_id, name=new.name, epoch=epoch, length=rewrite.length, closed=True
    )
    return LayoutChange(
        segment_id=rewrite.segment_id,
        before=layout,
        after=replace(
            layout,
            storage_start=rewrite.start if cut else layout.storage_start,
            last_chunk_id=0 if layout.last_chunk_id in gone else layout.last_chunk_id,
        ),
        extents_removed=dropping.extents,
        extents_put=(extent,),
        chunks_put=(*dropping.chunks_put, chunk),
        chunks_dropped=dropping.chunks_dropped,
        sums=sums,
    )
