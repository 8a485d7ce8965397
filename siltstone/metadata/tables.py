"""All tables of a container at two table versions: the acknowledged one and the assigned one.

An update is *assigned* its table version when it is put into a frame, and *applied* to the index
once that frame is acknowledged. Between the two it is pending: conditions are checked against it,
readers do not see it. Synchronous, and pure but for the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.table_record import (
    Entries,
    KeyChanges,
    TableRecord,
    count_entries,
    encode_entries,
    encode_record,
)
from siltstone.metadata.assigned_update import AssignedUpdate, IndexChanges
from siltstone.metadata.index import Index
from siltstone.metadata.index_rows import (
    NO_LIMIT,
    Entry,
    RangeEnd,
    entry_of,
    index_key,
    range_bounds,
    stored,
    stored_value,
    version_bytes,
)
from siltstone.metadata.index_snapshot import IndexSnapshot
from siltstone.metadata.position import Position


class Tables:
    """Tables over an index, with the updates that are not acknowledged yet.

    Args:
        index: empty, or of ``lineage``; never written by anything else from now on.
        lineage: 16 bytes.

    Attributes:
        moment: another object after every change of assigned or acknowledged entries. As long as it
            is the same, so is all that any row says; any thread may compare it.
    """

    def __init__(self, index: Index, lineage: bytes) -> None:
        position = index.position or Position(lineage, 0, 0, 0)
        assert position.lineage == lineage, "the index belongs to another lineage"
        self._index = index
        self._lineage = lineage
        self._applied = position.version
        self._applied_crc = position.running_crc
        self._version = position.version
        self._running_crc = position.running_crc
        # By index key: what it has by the newest change that is assigned and not acknowledged. In
        # place of a removal are the changes of its update: those of others are other objects.
        self._overlay: dict[bytes, bytes | RangeEnd | IndexChanges] = {}
        self._ranges: list[tuple[bytes, RangeEnd]] = []
        self.moment = object()

    @property
    def lineage(self) -> bytes:
        """The lineage of the table log."""
        return self._lineage

    @property
    def version(self) -> int:
        """End of the table log with every assigned update."""
        return self._version

    @property
    def running_crc(self) -> int:
        """CRC32C of the table log up to ``version``."""
        return self._running_crc

    @property
    def applied_version(self) -> int:
        """End of the table log as far as it is acknowledged and applied."""
        return self._applied

    @property
    def applied_crc(self) -> int:
        """CRC32C of the table log up to ``applied_version``."""
        return self._applied_crc

    def get(self, table_id: int, key: bytes) -> Entry | None:
        """Return the acknowledged entry of a key."""
        return self._index.get(table_id, key)

    def value(self, table_id: int, key: bytes) -> bytes | None:
        """Return the acknowledged value of a key, for who needs no version."""
        found = self._index.get_raw(index_key(table_id, key))
        return None if found is None else stored_value(found)

    def pages(self, table_id: int, start: bytes, end: bytes) -> Iterator[list[tuple[bytes, Entry]]]:
        """Yield acknowledged entries of ``[start, end)``, page by page.

        Other work may be done between two pages: each is what is there when it is asked for.
        """
        while page := self.scan(table_id, start, end):
            yield page
            start = page[-1][0] + b"\0"

    def scan(
        self,
        table_id: int,
        start: bytes,
        end: bytes | None,
        *,
        reverse: bool = False,
        limit: int = ROWS_PER_SLICE,
        bytes_max: int = NO_LIMIT,
    ) -> list[tuple[bytes, Entry]]:
        """Return acknowledged entries of ``[start, end)``; see ``Index.scan``."""
        return self._index.scan(
            table_id, start, end, reverse=reverse, limit=limit, bytes_max=bytes_max
        )

    def pending(self, table_id: int, key: bytes) -> Entry | None:
        """Return the newest assigned entry of a key, acknowledged or not."""
        full = index_key(table_id, key)
        newest = self._overlay.get(full)
        if newest is not None:
            return entry_of(newest) if isinstance(newest, bytes) else None
        if self._ranges and self._removed(full):
            return None
        value = self._index.get_raw(full)
        return None if value is None else entry_of(value)

    def pending_version(self, table_id: int, key: bytes) -> int | None:
        """The version of the newest assigned entry of a key; ``None`` when there is none."""
        entry = self.pending(table_id, key)
        return None if entry is None else entry.version

    def snapshot(self) -> IndexSnapshot:
        """Hold on to the acknowledged entries of all tables, which have ``applied_version``."""
        return self._index.snapshot()

    def assign(self, entries: Entries) -> AssignedUpdate:
        """Give an update its place at the end of the table log.

        Raises:
            ValueError: a splice keeps more bytes than there are; nothing changed.
        """
        return self.assign_encoded(entries, encode_entries(entries))

    def assign_encoded(self, entries: Entries, encoded: bytes) -> AssignedUpdate:
        """Give an update its place, where ``encoded`` is what ``encode_entries`` makes of it."""
        count = count_entries(entries)
        record, crc = encode_record(encoded, count, self._version, self._running_crc)
        version = self._version + len(record)
        changes = self._changes(entries, version)
        self._show_pending(changes)
        self._version = version
        self._running_crc = crc
        self.moment = object()
        return AssignedUpdate(record, version, crc, changes)

    def _show_pending(self, changes: IndexChanges) -> None:
        overlay = self._overlay
        for key, value in changes.pairs():
            if value is None:
                overlay[key] = changes
            elif isinstance(value, RangeEnd):
                self._remove_pending(key, value)
            else:
                overlay[key] = value

    def acknowledge(self, updates: Sequence[AssignedUpdate], log_index: int) -> list[bytes]:
        """Apply the updates of one acknowledged frame.

        Args:
            updates: all table updates of the frame, in order, none left out since the last call.
            log_index: index of the frame in the tier-1 log.

        Returns:
            The index keys of their changes, in order.
        """
        if not updates:
            return []
        first, last = updates[0], updates[-1]
        assert first.table_version - len(first.record) == self._applied, (
            "updates are acknowledged in the order of their assignment"
        )
        position = Position(self._lineage, last.table_version, last.crc_after, log_index + 1)
        changes = updates[0].changes
        if len(updates) > 1:
            changes = IndexChanges()
            for update in updates:
                changes.extend(update.changes)
        self.moment = object()
        self._apply(changes, position)
        self._applied = last.table_version
        self._applied_crc = last.crc_after
        if self._applied == self._version:  # then nothing is pending
            self._overlay.clear()
            self._ranges.clear()
        else:
            for update in updates:
                self._forget(update.changes)
        return changes.keys

    def _apply(self, changes: IndexChanges, position: Position) -> None:
        if changes.ranged:
            self._index.apply(list(changes.pairs()), position)
        else:  # of each key, the last change alone
            self._index.apply_rows(dict(changes.pairs()), position)

    def replay(self, record: TableRecord, log_index: int | None = None) -> bool:
        """Apply a record of the table log or of a frame; return whether it was new.

        Args:
            record: decoded.
            log_index: index of the frame that holds it; ``None`` for one from the table log itself.

        Raises:
            CorruptDataError: the record does not continue what was applied.
        """
        before = self._applied
        self.replay_all([(record, log_index)])
        return self._applied > before

    def replay_all(self, records: Iterable[tuple[TableRecord, int | None]]) -> None:
        """Apply records in their order, and pass over those that were applied already.

        One change of the index takes many of them, so a caller with many gives them together; all
        of their entries are in memory meanwhile.

        Args:
            records: each decoded, with its log index as ``replay`` takes it.

        Raises:
            CorruptDataError: a record does not continue what was before it; what was is applied.
        """
        assert not self._overlay, "replay happens before anything is assigned"
        changes = IndexChanges()
        position = self._index.position
        next_index = 0 if position is None else position.log_index
        try:
            for record, log_index in records:
                where = f"table log at {record.table_version - record.length}"
                if not self._continues(record, where):
                    continue
                try:
                    new = self._changes(record.entries, record.table_version)
                except ValueError as error:
                    raise CorruptDataError(
                        "splice of a value that is not there", where=where
                    ) from error
                # The frame may hold more records: it is done when a later one begins.
                next_index = next_index if log_index is None else log_index
                if new.ranged:  # Each looks at all that is pending.
                    changes = self._apply_replayed(changes, next_index)
                self._show_pending(new)
                changes.extend(new)
                self._version, self._running_crc = record.table_version, record.crc_after
                if new.ranged:
                    changes = self._apply_replayed(changes, next_index)
        finally:
            self._apply_replayed(changes, next_index)

    def _continues(self, record: TableRecord, where: str) -> bool:
        """Whether a record is the next one; false for one that was applied already.

        Raises:
            CorruptDataError: it is neither.
        """
        if record.table_version <= self._version:
            if record.table_version == self._version and record.crc_after != self._running_crc:
                raise CorruptDataError("table log differs from the index", where=where)
            return False
        if record.table_version - record.length != self._version:
            raise CorruptDataError("gap in the table log", where=where, applied=self._version)
        if record.running_crc != self._running_crc:
            raise CorruptDataError("table log does not match its running sum", where=where)
        return True

    def _apply_replayed(self, changes: IndexChanges, next_index: int) -> IndexChanges:
        """Apply what was replayed up to ``_version``; return what to collect the next ones in."""
        if self._version == self._applied:
            return changes
        self.moment = object()
        self._apply(changes, Position(self._lineage, self._version, self._running_crc, next_index))
        self._applied, self._applied_crc = self._version, self._running_crc
        self._overlay.clear()
        self._ranges.clear()
        return IndexChanges()

    def drop_pending(self) -> None:
        """Forget what was assigned and not acknowledged: its frames are lost."""
        self.moment = object()
        self._overlay.clear()
        self._ranges.clear()
        self._version = self._applied
        self._running_crc = self._applied_crc

    def _removed(self, full: bytes) -> bool:
        """Whether an assigned range removal covers a key that nothing assigned touched since."""
        return any(low <= full < end.key for low, end in self._ranges)

    def _remove_pending(self, low: bytes, end: RangeEnd) -> None:
        overlay = self._overlay
        for key in overlay:
            if low <= key < end.key:
                overlay[key] = end
        self._ranges.append((low, end))

    def _changes(self, entries: Entries, version: int) -> IndexChanges:
        """Return what entries do to the index; a splice sees the entries before it."""
        version_part = version_bytes(version)
        changes = IndexChanges()
        table, prefix = -1, b""
        for entry in entries:
            if entry.table_id != table:
                table = entry.table_id
                prefix = index_key(table, b"")
            if isinstance(entry, KeyChanges):
                changes.keys += [prefix + key for key in entry.keys]
                changes.values += [
                    None if value is None else version_part + value for value in entry.values
                ]
                continue
            key, value = prefix + entry.key, entry.value
            if value is None:
                if entry.range_end is None:
                    changes.add(key, None)
                else:
                    low, high = range_bounds(table, entry.key, entry.range_end)
                    changes.add(low, RangeEnd(high))
                    changes.ranged = True
            elif entry.splice_at is None:
                changes.add(key, version_part + value)
            else:
                value = self._base(key, changes, entry.splice_at) + value
                changes.add(key, stored(version, value))
        return changes

    def _base(self, key: bytes, changes: IndexChanges, length: int) -> bytes:
        newest: bytes | RangeEnd | None = None
        for earlier, value in zip(reversed(changes.keys), reversed(changes.values), strict=True):
            if isinstance(value, RangeEnd):
                if earlier <= key < value.key:
                    break
            elif earlier == key:
                newest = value
                break
        else:
            pending = self._overlay.get(key)
            if isinstance(pending, bytes):
                newest = pending
            elif pending is None and not self._removed(key):
                newest = self._index.get_raw(key)
        base = stored_value(newest) if isinstance(newest, bytes) else None
        if base is None or len(base) < length:
            raise ValueError(f"splice keeps {length} bytes of a value that has fewer")
        return base[:length]

    def _forget(self, changes: IndexChanges) -> None:
        """Drop what is applied now from what is pending, unless it was changed again since."""
        overlay = self._overlay
        for key, value in changes.pairs():
            if overlay.get(key) is (changes if value is None else value):
                del overlay[key]
            if isinstance(value, RangeEnd):
                self._forget_range(value)

    def _forget_range(self, end: RangeEnd) -> None:
        overlay = self._overlay
        for key in [key for key, newest in overlay.items() if newest is end]:
            del overlay[key]
        self._ranges = [held for held in self._ranges if held[1] is not end]
