"""Layouts of the segments of applications, kept as rows of the metadata table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from siltstone.core.chunk_names import data_chunk, shared_chunk
from siltstone.core.environment import Environment
from siltstone.core.errors import SegmentNotFoundError, StorageFullError
from siltstone.core.layout_store import LayoutChange, NewChunk
from siltstone.core.log_writer import LogWriter
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.keys import METADATA_TABLE, CounterKind, chunk_key
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.records.writer_row import WriterRow
from siltstone.metadata import changes
from siltstone.metadata.recent_rows import RecentRows
from siltstone.metadata.rows import Rows

CHUNK_IDS_RESERVED = 1_024
"""Chunk ids that one table update reserves; what is left of them at the end is never used."""

FULL_ATTEMPTS = 10
FULL_PAUSE_S = 0.2


class TableLayoutStore:
    """A ``PackingLayoutStore`` over the metadata rows of one container.

    Args:
        rows: reads.
        log_writer: puts table updates through the tier-1 log.
        container: index of the container, for the names of chunks.
        environment: gives the time.
        garbage_delay_s: seconds that a dropped chunk stays at least.

    Attributes:
        recent: the rows that were looked up last.
    """

    def __init__(
        self,
        rows: Rows,
        log_writer: LogWriter,
        container: int,
        environment: Environment,
        garbage_delay_s: float,
    ) -> None:
        self._rows = rows
        self.recent = RecentRows(rows)
        self._log = log_writer
        self._container = container
        self._environment = environment
        self._garbage_delay_ms = round(garbage_delay_s * 1_000)
        self._next_chunk_id = 0
        self._reserved_end = 0
        self._reserving = asyncio.Lock()

    @property
    def epoch(self) -> int:
        """The owner's epoch."""
        return self._log.epoch

    def state(self, segment_id: int) -> SegmentState | None:
        """See ``LayoutStore.state``."""
        return self.recent.pending_state(segment_id)

    def layout(self, segment_id: int) -> Layout:
        """See ``LayoutStore.layout``."""
        return self.recent.layout(segment_id)

    def floor(self, segment_id: int, offset: int) -> Extent | None:
        """See ``LayoutStore.floor``."""
        return self._rows.floor(segment_id, offset)

    def extents(self, segment_id: int, start: int, end: int, limit: int) -> list[Extent]:
        """See ``LayoutStore.extents``."""
        return self.recent.extents(segment_id, start, end, limit)

    def chunk(self, chunk_id: int) -> Chunk | None:
        """See ``LayoutStore.chunk``."""
        return self.recent.chunk(chunk_id)

    def sums(self, chunk_id: int, group: int) -> tuple[int, ...]:
        """See ``LayoutStore.sums``."""
        return self.recent.sums(chunk_id, group)

    async def new_chunk(self, segment_id: int, start: int) -> NewChunk:
        """See ``LayoutStore.new_chunk``.

        Raises:
            SegmentNotFoundError: the segment's rows are gone, so nothing can be flushed for it.
            LogError: the log failed.
        """
        chunk_id = await self._chunk_id()
        state = self._rows.pending_state(segment_id)
        if state is None:
            raise SegmentNotFoundError("segment was removed", segment=f"id {segment_id}")
        name = data_chunk(self._container, self.epoch, state.name, start, chunk_id)
        return NewChunk(chunk_id=chunk_id, name=name)

    async def new_shared_chunk(self, count: int) -> NewChunk:
        """See ``PackingLayoutStore.new_shared_chunk``. Raises ``LogError``."""
        chunk_id = await self._chunk_id()
        name = shared_chunk(self._container, self.epoch, count, chunk_id)
        return NewChunk(chunk_id=chunk_id, name=name)

    async def new_chunk_ids(self, count: int) -> list[int]:
        """Reserve ids for chunks that others made, durably. Raises ``LogError``."""
        return [await self._chunk_id() for _ in range(count)]

    async def _chunk_id(self) -> int:
        while self._next_chunk_id == self._reserved_end:
            async with self._reserving:
                if self._next_chunk_id == self._reserved_end:
                    first = self._rows.pending_counter(CounterKind.CHUNK_ID)
                    end = first + CHUNK_IDS_RESERVED
                    await self._log.update([changes.put_counter(CounterKind.CHUNK_ID, end)])
                    self._next_chunk_id, self._reserved_end = first, end
        chunk_id = self._next_chunk_id
        self._next_chunk_id += 1
        return chunk_id

    async def commit(self, change: LayoutChange) -> bool:
        """See ``LayoutStore.commit``.

        While tier 1 is full the change is tried again: users are refused meanwhile, and a change of
        a layout may use the log's reserve.
        """

        def plan() -> tuple[LayoutChange, ...]:
            if change.live:
                state = self._rows.pending_state(change.segment_id)
                if state is None or state.deleted:
                    return ()
            for state in change.states:
                if self._rows.pending_state(state.segment_id) != state:
                    return ()
            return (change,)

        return bool(await self.commit_all(plan))

    async def commit_all(
        self, plan: Callable[[], tuple[LayoutChange, ...]]
    ) -> tuple[LayoutChange, ...]:
        """See ``PackingLayoutStore.commit_all``, and ``commit`` for a full tier 1."""
        for _ in range(FULL_ATTEMPTS):
            try:
                return await self._commit(plan())
            except StorageFullError:
                await self._environment.sleep(FULL_PAUSE_S)
        return await self._commit(plan())

    async def _commit(self, planned: tuple[LayoutChange, ...]) -> tuple[LayoutChange, ...]:
        for change in planned:
            before = self._rows.pending_layout(change.segment_id)
            assert before == change.before, (
                f"layout changed under its writer: planned on {change.before}, found {before}"
            )
        if planned:
            # No await between the plan and the assignment, which update does at once.
            await self._log.update([entry for change in planned for entry in self._entries(change)])
        return planned

    def _entries(self, change: LayoutChange) -> list[TableEntry]:
        entries = [
            changes.remove_layout(change.segment_id)
            if change.after is None
            else changes.put_layout(change.after)
        ]
        entries += [changes.remove_layout(segment_id) for segment_id in change.layouts_removed]
        entries += [changes.remove_extent(extent) for extent in change.extents_removed]
        entries += [changes.put_extent(extent) for extent in change.extents_put]
        entries += [self._chunk_entry(chunk) for chunk in change.chunks_put]
        entries += [changes.put_sums(patch) for patch in change.sums]
        for chunk in change.chunks_dropped:
            entries += self._garbage(chunk)
        entries += [entry for row in change.writers for entry in self._writer_entries(row)]
        entries += change.extra
        return entries

    def _chunk_entry(self, chunk: Chunk) -> TableEntry:
        row = self._log.pending(METADATA_TABLE, chunk_key(chunk.chunk_id))
        return changes.put_chunk(chunk) if row is None else changes.change_chunk(chunk, row)

    def _garbage(self, chunk: Chunk) -> list[TableEntry]:
        """Entries that keep the row, with no references, until a task has deleted the chunk."""
        due_ms = round(self._environment.time() * 1_000) + self._garbage_delay_ms
        task = Task(
            due_ms=due_ms, kind=TaskKind.DELETE_CHUNK, subject=chunk.chunk_id, name=chunk.name
        )
        return [self._chunk_entry(replace(chunk, references=0)), changes.put_task(task)]

    def _writer_entries(self, row: WriterRow) -> list[TableEntry]:
        """One entry, or none for a writer that was evicted meanwhile: it must not come back."""
        known = self._rows.pending_writer(row.segment_id, row.number)
        if known is None or known.sequence > row.sequence:
            return []
        return [changes.advance_writer(row)]
