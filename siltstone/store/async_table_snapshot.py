"""A table at one version, as asyncio applications hold it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from siltstone.core.closing import AsyncClosing
from siltstone.store.arguments import check_key
from siltstone.store.living_handle import LivingHandle
from siltstone.store.table_pages import PAGE_COUNT, Found, pages

if TYPE_CHECKING:
    from siltstone.container.table_snapshots import LivingSnapshot
    from siltstone.container.views import TableValue
    from siltstone.core.bytes_like import BytesLike


class AsyncTableSnapshot(LivingHandle, AsyncClosing):
    """A handle to a table as it was; ``AsyncTable.snapshot`` makes one. Close it when done."""

    def __init__(self, held: LivingSnapshot) -> None:
        self._held = held

    def __repr__(self) -> str:
        return f"AsyncTableSnapshot({self._held.table!r}, version={self.version})"

    @property
    def version(self) -> int:
        """The table version that it shows; follow the table from here to see what came after."""
        return self._held.version

    async def get(self, key: BytesLike) -> TableValue | None:
        """Return what ``key`` had, ``None`` for nothing. Raises ``SnapshotExpiredError``."""
        return self._held.get(check_key(key))

    async def scan(
        self, start: BytesLike = b"", end: BytesLike | None = None, *, reverse: bool = False
    ) -> AsyncIterator[Found]:
        """Yield the entries with ``start <= key < end`` at exactly that version, in order.

        Raises:
            SnapshotExpiredError: its time is over, or its container was closed.
        """
        async for page in self._pages(start, end, reverse=reverse):
            for entry in page:
                yield entry

    def _pages(
        self, start: BytesLike = b"", end: BytesLike | None = None, *, reverse: bool = False
    ) -> AsyncIterator[list[Found]]:
        """Yield what ``scan`` yields, as lists of what was fetched at once."""

        async def fetch(first: bytes, behind: bytes | None) -> list[Found]:
            return self._held.scan(first, behind, reverse=reverse, limit=PAGE_COUNT)

        return pages(fetch, start, end, reverse=reverse)

    async def close(self) -> None:
        """End it, so that what was overwritten need not be kept any more. Idempotent."""
        self._held.release()
