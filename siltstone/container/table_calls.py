"""The calls of a container that are about tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.container.models.segments import TableValue
from siltstone.container.models.tables import UpdatePage
from siltstone.container.state.table_snapshots import LivingSnapshot

if TYPE_CHECKING:
    from siltstone.container.assembly import OwnerParts
    from siltstone.container.reads.reads import Reading


class TableCalls:
    """What an owned container does with tables; a part of ``Container``."""

    _parts: OwnerParts

    def _reading(self) -> Reading:
        raise NotImplementedError

    async def create_table(self, table: str, *, exist_ok: bool = False) -> None:
        """See ``TableVerbs.create``."""
        await self._parts.tables.create(table, exist_ok=exist_ok)

    async def table_get(self, table: str, key: bytes) -> TableValue | None:
        """See ``Reading.table_get``."""
        return self._reading().table_get(table, key)

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
        return self._reading().table_scan(table, start, end, reverse=reverse, limit=limit)

    async def table_snapshot(self, table: str, ttl_s: float) -> LivingSnapshot:
        """See ``TableSnapshots.take``."""
        return self._reading().table_snapshot(table, ttl_s)

    async def table_updates(self, table: str, after: int) -> UpdatePage:
        """See ``TableFeed.page``."""
        self._reading()
        return await self._parts.feed.page(table, after)

    async def wait_for_version(self, after: int, timeout_s: float) -> None:
        """See ``TableFeed.wait``."""
        self._reading()
        await self._parts.feed.wait(after, timeout_s)

    async def table_version(self) -> int:
        """The newest table version that is acknowledged."""
        return self._reading().replica.tables.applied_version

    async def list_tables(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[str]:
        """See ``Reading.list_tables``."""
        return self._reading().list_tables(prefix, start_after, limit)
