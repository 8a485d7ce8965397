"""The change of a layout: one transaction on what a segment keeps in chunks.

A change of a system segment is also a record, inside a journal batch; its codec is
``siltstone.core.records.journal_batch``.
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """One transaction on the layout of one segment: all of it or nothing.

    Attributes:
        segment_id: the segment.
        before: the layout that the change was planned on; another one in the store is a defect.
        after: the new layout row; ``None`` removes it, with the last slice of a deleted segment.
        extents_removed: rows that go.
        extents_put: rows that come, or replace one of the same start.
        chunks_put: chunk rows as they are afterwards.
        chunks_dropped: chunks that nothing references any more, as they were; each gets its garbage
            task in the same transaction (system chunks have no tasks).
        sums: block sums that come with ``chunks_put``.
        writers: writer rows as of ``after.storage_length``.
        live: commit only if the segment is not deleted.
        states: of other segments; commit only if they are still the same.
        layouts_removed: segments whose layout row goes as well, such as the source of a concat.
        extra: table entries that the caller adds to the transaction; none for a system segment.
    """

    segment_id: int
    before: Layout
    after: Layout | None
    extents_removed: tuple[Extent, ...] = ()
    extents_put: tuple[Extent, ...] = ()
    chunks_put: tuple[Chunk, ...] = ()
    chunks_dropped: tuple[Chunk, ...] = ()
    sums: tuple[BlockSumsPatch, ...] = ()
    writers: tuple[WriterRow, ...] = ()
    live: bool = True
    states: tuple[SegmentState, ...] = ()
    layouts_removed: tuple[int, ...] = ()
    extra: tuple[TableEntry, ...] = ()
