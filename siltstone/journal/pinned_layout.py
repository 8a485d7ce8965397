"""Layouts of system segments: all of them in memory, every change a journal batch first."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from siltstone.core.chunk_names import system_chunk
from siltstone.core.constants import TABLE_LOG_ID, TABLE_LOG_NAME
from siltstone.core.layout_store import LayoutChange, NewChunk
from siltstone.core.records.checkpoint import SystemLayout
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.journal_batch import JournalBatch
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.journal.journal import Journal
from siltstone.journal.pinned_state import (
    Pinned,
    apply_change,
    check_system_layout,
    empty_layout,
)

_COUNTER_BITS = 32
EPOCH_MAX = 2 ** (63 - _COUNTER_BITS) - 1


class PinnedLayoutStore:
    """The ``LayoutStore`` of system segments.

    Memory changes only when a batch is durable, and before the journal's next record is composed: a
    ``snapshot`` taken while a checkpoint is composed is the state after all batches before it.

    Args:
        journal: takes the batches; its epoch is the one of new chunks.
        layouts: the layouts to start from, such as ``JournalState.layouts``.
        statement: gives the safe index and the newest acknowledged log index when the batch of a
            change is composed. The safe index is what holds once that batch is durable.
    """

    def __init__(
        self,
        journal: Journal,
        layouts: Iterable[SystemLayout],
        statement: Callable[[LayoutChange], tuple[int, int]],
    ) -> None:
        assert 0 < journal.epoch <= EPOCH_MAX, "an epoch has to fit into chunk ids"
        self._journal = journal
        self._statement = statement
        self._last_counter = 0
        self._uncommitted: dict[int, str] = {}
        self._starts: dict[int, int] = {}
        ordered = sorted(layouts, key=lambda system: system.layout.segment_id)
        for system in ordered:
            check_system_layout(system)
        self._show(tuple(ordered))

    @property
    def epoch(self) -> int:
        """The epoch that new chunks belong to."""
        return self._journal.epoch

    @property
    def uncommitted(self) -> frozenset[str]:
        """Names of chunks that were reserved and are in no layout yet; they must not be deleted."""
        return frozenset(self._uncommitted.values())

    def snapshot(self) -> Pinned:
        """All layouts, for a checkpoint; frozen."""
        return self._pinned

    def state(self, segment_id: int) -> SegmentState:
        """A live state: a system segment is never sealed or deleted."""
        start = max(self._starts.get(segment_id, 0), self.layout(segment_id).storage_start)
        return SegmentState(segment_id=segment_id, name=TABLE_LOG_NAME, start_offset=start)

    def set_start(self, segment_id: int, start_offset: int) -> None:
        """Let the segment begin at ``start_offset``, at most its flushed length, from now on.

        This is what a later change that drops extents follows; it is not kept, since nothing
        durable needs what is dropped. A lower start than before changes nothing.
        """
        assert start_offset <= self.layout(segment_id).storage_length, "no dead bytes to skip"
        self._starts[segment_id] = max(self._starts.get(segment_id, 0), start_offset)

    def layout(self, segment_id: int) -> Layout:
        """The layout row; an empty layout at 0 when there is none yet."""
        return self._system(segment_id).layout

    def floor(self, segment_id: int, offset: int) -> Extent | None:
        """The extent with the greatest start that is not above ``offset``."""
        extents = self._system(segment_id).extents
        index = bisect_right(extents, offset, key=_start)
        return extents[index - 1] if index else None

    def extents(self, segment_id: int, start: int, end: int, limit: int) -> list[Extent]:
        """Extents that intersect ``[start, end)``, in order, at most ``limit``."""
        extents = self._system(segment_id).extents
        index = max(bisect_right(extents, start, key=_start) - 1, 0)
        found: list[Extent] = []
        for extent in extents[index:]:
            if extent.start >= end or len(found) >= limit:
                break
            if extent.end > start:
                found.append(extent)
        return found

    def chunk(self, chunk_id: int) -> Chunk | None:
        """The chunk row."""
        return self._chunks.get(chunk_id)

    def sums(self, chunk_id: int, group: int) -> tuple[int, ...]:
        """CRC32C of the blocks of one group; empty when there is no such group."""
        return self._sums.get((chunk_id, group), ())

    async def new_chunk(self, segment_id: int, start: int) -> NewChunk:
        """Reserve a chunk. Its id holds the epoch, so it needs no write to be never used again."""
        self._last_counter += 1
        assert self._last_counter < 2**_COUNTER_BITS, "an epoch has used up its chunk ids"
        chunk_id = self.epoch << _COUNTER_BITS | self._last_counter
        name = system_chunk(self._journal.container, self.epoch, start, chunk_id)
        self._uncommitted[chunk_id] = name
        return NewChunk(chunk_id=chunk_id, name=name)

    async def commit(self, change: LayoutChange) -> bool:
        """Make ``change`` durable as a batch, then show it. On failure nothing changes in memory.

        Returns:
            ``True``: a system segment is never deleted.

        Raises:
            ValueError: the change does not fit the layout as it is now; nothing was written.
            LogError: the batch may or may not be durable; the owner must stop.
        """
        planned: list[Pinned] = []

        def compose(sequence: int) -> JournalBatch:
            planned.append(apply_change(self._pinned, change))
            return self._batch(sequence, change)

        def applied(batch: JournalBatch) -> None:
            for chunk in batch.change.chunks_put:
                self._uncommitted.pop(chunk.chunk_id, None)
            self._show(planned[0])

        await self._journal.write_batch(compose, applied)
        return True

    async def state_end(self) -> None:
        """State again what the log holds, by a batch that changes nothing and is the last one.

        Raises like ``Journal.write_last_batch``.
        """

        def compose(sequence: int) -> JournalBatch:
            layout = self.layout(TABLE_LOG_ID)
            change = LayoutChange(segment_id=TABLE_LOG_ID, before=layout, after=layout)
            return self._batch(sequence, change)

        await self._journal.write_last_batch(compose)

    def _batch(self, sequence: int, change: LayoutChange) -> JournalBatch:
        safe_index, newest_index = self._statement(change)
        return JournalBatch(
            lineage=self._journal.lineage,
            epoch=self.epoch,
            sequence=sequence,
            safe_index=safe_index,
            newest_index=newest_index,
            change=change,
        )

    def _show(self, pinned: Pinned) -> None:
        self._pinned = pinned
        self._systems = {system.layout.segment_id: system for system in pinned}
        self._chunks = {chunk.chunk_id: chunk for system in pinned for chunk in system.chunks}
        self._sums = {
            (row.chunk_id, row.group): row.sums for system in pinned for row in system.sums
        }

    def _system(self, segment_id: int) -> SystemLayout:
        return self._systems.get(segment_id) or empty_layout(segment_id)


def _start(extent: Extent) -> int:
    return extent.start
