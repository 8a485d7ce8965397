"""A log writer that acknowledges at once, over real tables; what it was given is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from siltstone.core.records.table_record import TableEntry
from siltstone.metadata.assigned_update import AssignedUpdate
from siltstone.metadata.tables import Tables


class AcknowledgingLog:
    """A ``LogWriter``. While ``hold`` is set, updates wait, assigned, for ``release``."""

    def __init__(self, tables: Tables, epoch: int = 7) -> None:
        self.epoch = epoch
        self.updates: list[AssignedUpdate] = []
        self.hold: asyncio.Event | None = None
        self._tables = tables
        self._unacknowledged: list[AssignedUpdate] = []

    def pending(self, table_id: int, key: bytes) -> bytes | None:
        entry = self._tables.pending(table_id, key)
        return None if entry is None else entry.value

    async def update(self, entries: Sequence[TableEntry]) -> int:
        update = self._tables.assign(entries)
        self.updates.append(update)
        self._unacknowledged.append(update)
        if self.hold is not None:
            await self.hold.wait()
        if self._unacknowledged:
            frame, self._unacknowledged = self._unacknowledged, []
            self._tables.acknowledge(frame, len(self.updates))
        return update.table_version
