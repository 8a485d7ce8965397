"""What the chunks of a table log say by themselves: each record has its place and its own sum."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from siltstone.core.errors import ChunkNotFoundError, CorruptDataError
from siltstone.core.records.table_record import TableRecord, decode_table_record
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.journal.journal_state import system_files

_NAME = re.compile(r".*/e([0-9]{20})/tables-([0-9]{20})-([0-9a-f]{16})")
_BEGIN = bytes((1, 1, 0, 0))
"""Kind, version and reserved bytes, which every record begins with."""


async def log_records(storage: AsyncChunkStorage, container: int) -> AsyncIterator[TableRecord]:
    """Yield every whole record of the table log, by place; some more than once.

    A chunk may be read from its middle, and may continue after damage: a record is taken where it
    matches its own sum and says that its place is the one that it has.

    Raises:
        FormatError: a newer version wrote it.
        ChunkError: long-term storage did not answer.
    """
    found: list[tuple[int, int, int, str, int]] = []
    async for stat in system_files(storage, container):
        match = _NAME.fullmatch(stat.name)
        if match is not None:
            place = int(match[2]), int(match[1]), int(match[3], 16)
            found.append((*place, stat.name, stat.length))
    kept, end = b"", -1
    for start, _, _, name, length in sorted(found):
        try:
            data = bytes(await storage.read_all(name, length))
        except ChunkNotFoundError:
            continue
        # A record may begin in one chunk and end in the next.
        joined = kept + data if start == end else data
        begin = start - len(kept) if start == end else start
        used = 0
        for offset, record in _records(joined, begin, name):
            used = offset + record.length
            yield record
        kept, end = joined[used:], start + len(data)


def _records(data: bytes, start: int, name: str) -> Iterator[tuple[int, TableRecord]]:
    """Whole records of bytes that begin at ``start`` of the table log, with their offsets."""
    offset = 0
    while 0 <= offset < len(data):
        try:
            record = decode_table_record(data, offset, where=name)
        except CorruptDataError:
            offset = data.find(_BEGIN, offset + 1)
            continue
        if record.table_version - record.length == start + offset:
            yield offset, record
        offset += record.length


@dataclass(slots=True, kw_only=True)
class LogOverlay:
    """What records change after a state; without one, from the beginning.

    Attributes:
        position: table version up to which they were taken.
        crc: running sum there.
        values: newest version and value of each key that they set or remove, by table and key.
        removed: ranges of keys that they remove: version, table, first key, key after the last.
        gaps: table versions between which none is there, in order.
    """

    position: int = 0
    crc: int = 0
    values: dict[tuple[int, bytes], tuple[int, bytes | None]] = field(default_factory=dict)
    removed: list[tuple[int, int, bytes, bytes]] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def take(self, record: TableRecord) -> None:
        """Apply a record that follows those before it; any other is known already."""
        start = record.table_version - record.length
        if start < self.position:
            return
        if start != self.position or record.running_crc != self.crc:
            self.gaps.append((self.position, start))
        version = record.table_version
        for entry in record.entries:
            table_id, key, value = entry.table_id, entry.key, entry.value
            if entry.range_end is not None:
                self._remove_range(version, table_id, key, entry.range_end)
            elif entry.splice_at is not None and value is not None:
                self._splice(version, table_id, key, entry.splice_at, value)
            else:
                self.values[table_id, key] = version, value
        self.position, self.crc = version, record.crc_after

    def _remove_range(self, version: int, table_id: int, low: bytes, high: bytes) -> None:
        self.removed.append((version, table_id, low, high))
        for at, key in [*self.values]:
            if at == table_id and low <= key and (not high or key < high):
                self.values[at, key] = version, None

    def _splice(self, version: int, table_id: int, key: bytes, at: int, value: bytes) -> None:
        """Rows of the store's own are spliced; no table of applications ever is."""
        base = self.values.get((table_id, key), (0, None))[1]
        whole = base[:at] + value if base is not None and len(base) >= at else None
        self.values[table_id, key] = version, whole

    def is_removed(self, table_id: int, key: bytes, version: int) -> bool:
        """Whether a key of the state that has this version is removed by a range after it."""
        return any(
            removed > version and at == table_id and low <= key and (not high or key < high)
            for removed, at, low, high in self.removed
        )

    def of(self, table_id: int) -> list[tuple[bytes, int, bytes | None]]:
        """Key, version and value of what is changed in a table, in the order of keys."""
        return sorted(
            (key, version, value)
            for (at, key), (version, value) in self.values.items()
            if at == table_id
        )
