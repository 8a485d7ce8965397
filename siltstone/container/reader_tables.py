"""The calls of a read-only container that read tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.table_snapshots import LivingSnapshot
from siltstone.core.table_value import TableValue

if TYPE_CHECKING:
    from siltstone.container.reading import Reading


class ReaderTables:
    """What a read-only container shows of tables; a part of ``ReadContainer``."""

    async def _fresh(self) -> Reading:
        raise NotImplementedError

    async def table_get(self, table: str, key: bytes) -> TableValue | None:
        """See ``Reading.table_get``."""
        return (await self._fresh()).table_get(table, key)

    async def table_scan(
        self,
        table: str,
        start: bytes = b"",
        end: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int = 1_000,
    ) -> list[tuple[bytes, TableValue]]:
        """See ``Reading.table_scan``."""
        return (await self._fresh()).table_scan(table, start, end, reverse=reverse, limit=limit)

    async def table_snapshot(self, table: str, ttl_s: float) -> LivingSnapshot:
        """See ``TableSnapshots.take``. It ends early when this reader starts from a checkpoint."""
        return (await self._fresh()).table_snapshot(table, ttl_s)

    async def table_version(self) -> int:
        """The newest table version that is acknowledged."""
        return (await self._fresh()).replica.tables.applied_version

    async def list_tables(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[str]:
        """See ``Reading.list_tables``."""
        return (await self._fresh()).list_tables(prefix, start_after, limit)
