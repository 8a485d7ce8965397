"""Snapshots of tables: reads at one table version, for a limited time and in a limited number.

A snapshot lives in memory only. It ends when its time is over, when it is released, and when its
container closes or starts again: then it cannot be read any more, and another one is to be taken.
"""

from __future__ import annotations

import asyncio

from siltstone.container.models.segments import TableValue
from siltstone.container.models.tables import TTL_S_MAX
from siltstone.core.constants import MIB
from siltstone.core.errors import ClosedError, SnapshotExpiredError, SnapshotLimitError
from siltstone.metadata.index_snapshot import IndexSnapshot
from siltstone.metadata.tables import Tables

SNAPSHOTS_MAX = 16
"""Living snapshots of one container: each keeps files, and some memory, of its moment."""

SCAN_ROWS_MAX = 10_000
SCAN_BYTES_MAX = MIB


class LivingSnapshot:
    """One table at one version. Used on the event loop only.

    Attributes:
        table: the table's name.
        version: the table version that it shows.
    """

    def __init__(self, table: str, table_id: int, version: int, taken: IndexSnapshot) -> None:
        self.table = table
        self.version = version
        self._table_id = table_id
        self._taken = taken
        self._timer: asyncio.TimerHandle | None = None

    def get(self, key: bytes) -> TableValue | None:
        """The value of a key at that version. Raises ``SnapshotExpiredError``."""
        try:
            return self._taken.get(self._table_id, key)
        except ClosedError as error:
            raise self._expired() from error

    def scan(
        self, start: bytes, end: bytes | None, *, reverse: bool, limit: int
    ) -> list[tuple[bytes, TableValue]]:
        """The next entries of ``[start, end)``; see ``Reading.table_scan``.

        Raises:
            SnapshotExpiredError: its time is over, or its container was closed.
        """
        try:
            return self._taken.scan(
                self._table_id,
                start,
                end,
                reverse=reverse,
                limit=min(limit, SCAN_ROWS_MAX),
                bytes_max=SCAN_BYTES_MAX,
            )
        except ClosedError as error:
            raise self._expired() from error

    def values(self, start: bytes, end: bytes | None, *, limit: int) -> list[tuple[bytes, bytes]]:
        """What ``scan`` gives, in order, for who needs no versions. Raises what it raises."""
        try:
            return self._taken.scan_values(
                self._table_id, start, end, limit=limit, bytes_max=SCAN_BYTES_MAX
            )
        except ClosedError as error:
            raise self._expired() from error

    def release(self) -> None:
        """End it. Idempotent."""
        self._taken.close()
        if self._timer is not None:
            self._timer.cancel()

    def release_after(self, seconds: float) -> None:
        """End it when ``seconds`` have passed."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self.release)

    @property
    def ended(self) -> bool:
        """Whether it cannot be read any more."""
        return self._taken.closed

    def _expired(self) -> SnapshotExpiredError:
        return SnapshotExpiredError("snapshot has ended", table=self.table, version=self.version)


class TableSnapshots:
    """The living snapshots of one container."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._living: list[LivingSnapshot] = []

    def take(self, table: str, table_id: int, ttl_s: float) -> LivingSnapshot:
        """Hold on to a table as it is acknowledged now.

        Args:
            table: its name.
            table_id: its id.
            ttl_s: seconds until it ends, above 0, at most a day.

        Raises:
            SnapshotLimitError: too many are living.
            ValueError: ``ttl_s`` is out of range.
        """
        if not 0 < ttl_s <= TTL_S_MAX:
            raise ValueError(f"ttl_s must be above 0 and at most {TTL_S_MAX:.0f}, not {ttl_s}")
        self._living = [snapshot for snapshot in self._living if not snapshot.ended]
        if len(self._living) >= SNAPSHOTS_MAX:
            raise SnapshotLimitError("too many snapshots", table=table, limit=SNAPSHOTS_MAX)
        version = self._tables.applied_version
        snapshot = LivingSnapshot(table, table_id, version, self._tables.snapshot())
        self._living.append(snapshot)
        snapshot.release_after(ttl_s)
        return snapshot
