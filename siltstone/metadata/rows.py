"""Typed reads of the metadata table. What writes it is in ``siltstone.metadata.changes``.

Names without ``pending`` show what was acknowledged; with it, the newest that was assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.records.attributes import decode_attributes
from siltstone.core.records.block_sums import decode_block_sums
from siltstone.core.records.chunk import Chunk, decode_chunk
from siltstone.core.records.epoch_row import EpochRow, decode_epoch_row
from siltstone.core.records.extent import Extent, decode_extent
from siltstone.core.records.keys import (
    METADATA_TABLE,
    CounterKind,
    RowKind,
    after_prefix,
    attributes_key,
    block_sums_key,
    chunk_key,
    counter_key,
    epoch_key,
    extent_key,
    extent_of,
    layout_key,
    name_key,
    name_of,
    state_key,
    table_name_key,
    task_key,
    task_of,
    tombstone_key,
    writer_key,
    writer_name_key,
    writer_of,
)
from siltstone.core.records.layout import Layout, decode_layout
from siltstone.core.records.number import decode_number
from siltstone.core.records.segment_state import SegmentState, decode_segment_state
from siltstone.core.records.task import Task, decode_task
from siltstone.core.records.tombstone import Tombstone, decode_tombstone
from siltstone.core.records.writer_row import WriterRow, decode_writer_row
from siltstone.metadata.index_rows import Entry
from siltstone.metadata.tables import Tables

WRITERS_MAX = 10_000
"""Most writers of a segment."""

TABLE_IDS_MAX = 10_000
"""Ids of tables that are remembered: each commit asks for some."""

FIRST_NUMBER = 1
"""What a counter without a row gives next; 0 is never an id."""

_LAST_MS = 2**63
"""Above the due time of every task."""


class Rows:
    """The metadata rows of one container.

    Every method raises ``CorruptDataError`` for a damaged row and ``FormatError`` for one that a
    newer version wrote.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._table_ids: dict[str, int] = {}

    @property
    def tables(self) -> Tables:
        """The tables that the rows are read from."""
        return self._tables

    @property
    def version(self) -> int:
        """The acknowledged table version, which all reads without ``pending`` show."""
        return self._tables.applied_version

    @property
    def pending_version(self) -> tuple[int, int]:
        """What changes with every assigned update, and when assigned ones are dropped."""
        return self._tables.version, self._tables.running_crc

    # --- segments ----------------------------------------------------------------------------

    def find(self, name: str) -> int | None:
        """Id of the segment of this name."""
        return self._number(RowKind.NAME, name_key(name))

    def pending_find(self, name: str) -> int | None:
        """Id of the segment of this name, as assigned."""
        return self._pending_number(RowKind.NAME, name_key(name))

    def segments(
        self, prefix: str = "", start_after: str = "", limit: int = ROWS_PER_SLICE
    ) -> list[tuple[str, int]]:
        """Names that start with ``prefix`` and are above ``start_after``, in order, with ids."""
        return self._names(RowKind.NAME, name_key, prefix, start_after, limit)

    def segment_pages(self) -> Iterator[list[tuple[str, int]]]:
        """All names in order, with ids, page by page; each is what is there when asked for."""
        last = ""
        while page := self.segments("", last):
            yield page
            last = page[-1][0]

    def state(self, segment_id: int) -> SegmentState | None:
        """State of a segment."""
        entry = self._get(state_key(segment_id))
        return None if entry is None else decode_segment_state(segment_id, entry.value)

    def pending_state(self, segment_id: int) -> SegmentState | None:
        """State of a segment, as assigned."""
        entry = self._pending(state_key(segment_id))
        return None if entry is None else decode_segment_state(segment_id, entry.value)

    def attributes(self, segment_id: int) -> dict[str, str]:
        """Attributes of a segment."""
        return _attributes(segment_id, self._get(attributes_key(segment_id)))

    def pending_attributes(self, segment_id: int) -> dict[str, str]:
        """Attributes of a segment, as assigned."""
        return _attributes(segment_id, self._pending(attributes_key(segment_id)))

    def tombstone(self, name: str) -> Tombstone | None:
        """What became of a segment that was concatenated."""
        entry = self._get(tombstone_key(name))
        return None if entry is None else decode_tombstone(name, entry.value)

    def pending_tombstone(self, name: str) -> Tombstone | None:
        """What became of a segment that was concatenated, as assigned."""
        entry = self._pending(tombstone_key(name))
        return None if entry is None else decode_tombstone(name, entry.value)

    # --- layouts -----------------------------------------------------------------------------

    def layout(self, segment_id: int) -> Layout:
        """Layout of a segment; an empty one at 0 when there is no row."""
        return _layout(segment_id, self._get(layout_key(segment_id)))

    def pending_layout(self, segment_id: int) -> Layout:
        """Layout of a segment, as assigned; an empty one at 0 when there is no row."""
        return _layout(segment_id, self._pending(layout_key(segment_id)))

    def floor(self, segment_id: int, offset: int) -> Extent | None:
        """The extent with the greatest start that is not above ``offset``."""
        low, high = extent_key(segment_id, 0), extent_key(segment_id, offset) + b"\0"
        found = self._scan(low, high, limit=1, reverse=True)
        return _extent(*found[0]) if found else None

    def extents(self, segment_id: int, start: int, end: int, limit: int) -> list[Extent]:
        """Extents that intersect ``[start, end)``, in order, at most ``limit``."""
        if start >= end or limit <= 0:
            return []
        first = self.floor(segment_id, start)
        found = [] if first is None or first.end <= start else [first]
        if found and (limit == 1 or found[0].end >= end):
            return found  # one seek, and most look-ups need no more
        low, high = extent_key(segment_id, start) + b"\0", extent_key(segment_id, end)
        rest = self._scan(low, high, limit=limit - len(found))
        return found + [_extent(key, entry) for key, entry in rest]

    def chunk(self, chunk_id: int) -> Chunk | None:
        """A chunk's row."""
        entry = self._get(chunk_key(chunk_id))
        return None if entry is None else decode_chunk(chunk_id, entry.value)

    def pending_chunk(self, chunk_id: int) -> Chunk | None:
        """A chunk's row, as assigned."""
        entry = self._pending(chunk_key(chunk_id))
        return None if entry is None else decode_chunk(chunk_id, entry.value)

    def sums(self, chunk_id: int, group: int) -> tuple[int, ...]:
        """CRC32C of the blocks of one group; empty when there is no such row."""
        entry = self._get(block_sums_key(chunk_id, group))
        return decode_block_sums(chunk_id, group, entry.value) if entry else ()

    # --- writers -----------------------------------------------------------------------------

    def writer(self, segment_id: int, number: int) -> WriterRow | None:
        """The writer of this number."""
        entry = self._get(writer_key(segment_id, number))
        return None if entry is None else decode_writer_row(segment_id, number, entry.value)

    def pending_writer(self, segment_id: int, number: int) -> WriterRow | None:
        """The writer of this number, as assigned."""
        entry = self._pending(writer_key(segment_id, number))
        return None if entry is None else decode_writer_row(segment_id, number, entry.value)

    def pending_writer_number(self, segment_id: int, name: str) -> int | None:
        """Number of the writer of this name, as assigned."""
        return self._pending_number(RowKind.WRITER_NAME, writer_name_key(segment_id, name))

    def writers(self, segment_id: int, limit: int = WRITERS_MAX) -> list[WriterRow]:
        """All writers of a segment, by number."""
        low, high = writer_key(segment_id, 0), writer_key(segment_id + 1, 0)
        return [
            decode_writer_row(*writer_of(key), entry.value)
            for key, entry in self._scan(low, high, limit=limit)
        ]

    # --- tasks, tables, counters -------------------------------------------------------------

    def tasks(
        self, until_ms: int, limit: int = ROWS_PER_SLICE, after: Task | None = None
    ) -> list[Task]:
        """Tasks that are due at ``until_ms``, the earliest first, from the one after ``after`` on.

        ``dropped_version`` is filled in from the row's own version where the row has 0.
        """
        low = bytes((RowKind.TASK,))
        if after is not None:
            low = task_key(after.due_ms, after.kind, after.subject) + b"\0"
        found = self._scan(low, task_key(until_ms + 1, 0, 0), limit=limit)
        return [_task(key, entry) for key, entry in found]

    def task_pages(
        self, until_ms: int = _LAST_MS, after: Task | None = None
    ) -> Iterator[list[Task]]:
        """Tasks that are due at ``until_ms``, else all, after the one ``after``, page by page.

        Each page is what is there when it is asked for.
        """
        while page := self.tasks(until_ms, after=after):
            yield page
            after = page[-1]

    def epoch(self, epoch: int) -> EpochRow | None:
        """What the sweep knows of an epoch, as assigned."""
        entry = self._pending(epoch_key(epoch))
        return None if entry is None else decode_epoch_row(epoch, entry.value)

    def table_id(self, name: str) -> int | None:
        """Id of the table of this name."""
        found = self._table_ids.get(name)
        if found is None:
            found = self._number(RowKind.TABLE, table_name_key(name))
            if found is not None:
                # A table is never removed and never gets another id.
                if len(self._table_ids) >= TABLE_IDS_MAX:
                    self._table_ids.clear()
                self._table_ids[name] = found
        return found

    def pending_table_id(self, name: str) -> int | None:
        """Id of the table of this name, as assigned."""
        return self._pending_number(RowKind.TABLE, table_name_key(name))

    def table_names(
        self, prefix: str = "", start_after: str = "", limit: int = ROWS_PER_SLICE
    ) -> list[tuple[str, int]]:
        """Tables whose names start with ``prefix`` and are above ``start_after``, with ids."""
        return self._names(RowKind.TABLE, table_name_key, prefix, start_after, limit)

    def counter(self, counter: CounterKind) -> int:
        """The next number that the counter gives; 1 at first."""
        return self._number(RowKind.COUNTER, counter_key(counter)) or FIRST_NUMBER

    def pending_counter(self, counter: CounterKind) -> int:
        """The next number that the counter gives, as assigned."""
        return self._pending_number(RowKind.COUNTER, counter_key(counter)) or FIRST_NUMBER

    # --- steps -------------------------------------------------------------------------------

    def _get(self, key: bytes) -> Entry | None:
        return self._tables.get(METADATA_TABLE, key)

    def _pending(self, key: bytes) -> Entry | None:
        return self._tables.pending(METADATA_TABLE, key)

    def _scan(
        self, low: bytes, high: bytes | None, *, limit: int, reverse: bool = False
    ) -> list[tuple[bytes, Entry]]:
        return self._tables.scan(METADATA_TABLE, low, high, reverse=reverse, limit=limit)

    def _number(self, kind: RowKind, key: bytes) -> int | None:
        entry = self._get(key)
        return None if entry is None else decode_number(kind, entry.value)

    def _pending_number(self, kind: RowKind, key: bytes) -> int | None:
        entry = self._pending(key)
        return None if entry is None else decode_number(kind, entry.value)

    def _names(
        self,
        kind: RowKind,
        key_of: Callable[[str], bytes],
        prefix: str,
        start_after: str,
        limit: int,
    ) -> list[tuple[str, int]]:
        first = key_of(prefix)
        low = max(first, key_of(start_after) + b"\0") if start_after else first
        found = self._scan(low, after_prefix(first), limit=limit)
        return [(name_of(key), decode_number(kind, entry.value)) for key, entry in found]


def _layout(segment_id: int, entry: Entry | None) -> Layout:
    if entry is None:
        return Layout(segment_id=segment_id)
    return decode_layout(segment_id, entry.value)


def _attributes(segment_id: int, entry: Entry | None) -> dict[str, str]:
    return {} if entry is None else decode_attributes(segment_id, entry.value)


def _extent(key: bytes, entry: Entry) -> Extent:
    return decode_extent(*extent_of(key), entry.value)


def _task(key: bytes, entry: Entry) -> Task:
    task = decode_task(*task_of(key), entry.value)
    return task if task.dropped_version else replace(task, dropped_version=entry.version)
