"""The calls of a read-only container that ask for tables."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from siltstone.container.models.tables import UpdatePage
from siltstone.container.state.table_snapshots import LivingSnapshot
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkNotFoundError, LostDataError
from siltstone.core.table_value import TableValue

if TYPE_CHECKING:
    from siltstone.container.reader.reader_view import View
    from siltstone.container.reads.reads import Reading

POLL_S: Final = 0.2


class ReaderTables:
    """How a read-only container shows tables; part of ``ReadContainer``."""

    _environment: Environment
    _lock: asyncio.Lock

    if TYPE_CHECKING:

        def _current(self) -> View: ...
        async def _fresh(self) -> Reading: ...
        async def _start(self) -> None: ...

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

    async def table_updates(self, table: str, after: int) -> UpdatePage:
        """See ``TableFeed.page``."""
        await self._fresh()
        try:
            return await self._current().feed.page(table, after)
        except (LostDataError, ChunkNotFoundError):
            async with self._lock:
                await self._start()
            return await self._current().feed.page(table, after)

    async def wait_for_version(self, after: int, timeout_s: float) -> None:
        """Wait until something is acknowledged behind ``after``, or for so long."""
        end = self._environment.monotonic() + timeout_s
        while (await self._fresh()).replica.tables.applied_version <= after:
            left = end - self._environment.monotonic()
            if left <= 0:
                return
            await self._environment.sleep(min(POLL_S, left))

    async def table_version(self) -> int:
        """The newest table version that is acknowledged."""
        return (await self._fresh()).replica.tables.applied_version

    async def list_tables(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[str]:
        """See ``Reading.list_tables``."""
        return (await self._fresh()).list_tables(prefix, start_after, limit)
