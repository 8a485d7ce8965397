"""The log writer of a read-only open: it refuses."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.core.errors import ReadOnlyError
from siltstone.core.records.table_record import TableEntry
from siltstone.metadata.tables import Tables


class NoWriter:
    """A ``LogWriter`` that puts nothing through any log."""

    epoch = 0

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def pending(self, table_id: int, key: bytes) -> bytes | None:
        """The acknowledged value: nothing is ever pending here."""
        entry = self._tables.get(table_id, key)
        return None if entry is None else entry.value

    async def update(self, entries: Sequence[TableEntry]) -> int:
        """Refuse."""
        raise ReadOnlyError("container is open read-only", entries=len(entries))
