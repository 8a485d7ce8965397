"""A table at one version, as blocking applications hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from siltstone.core.closing import Closing

if TYPE_CHECKING:
    from siltstone.container.views import TableValue
    from siltstone.core.bytes_like import BytesLike
    from siltstone.store.async_table_snapshot import AsyncTableSnapshot
    from siltstone.store.background_loop import BackgroundLoop


class TableSnapshot(Closing):
    """A handle to a table as it was, for any thread. See ``AsyncTableSnapshot``."""

    def __init__(self, loop: BackgroundLoop, snapshot: AsyncTableSnapshot) -> None:
        self._loop = loop
        self._snapshot = snapshot

    def __repr__(self) -> str:
        return repr(self._snapshot).removeprefix("Async")

    @property
    def version(self) -> int:
        """The table version that it shows."""
        return self._snapshot.version

    def get(self, key: BytesLike) -> TableValue | None:
        """Return what ``key`` had, ``None`` when it had nothing."""
        return self._loop.run(self._snapshot.get(key))

    def scan(
        self, start: BytesLike = b"", end: BytesLike | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, TableValue]]:
        """Yield the entries with ``start <= key < end`` at exactly that version, in order."""
        for page in self._loop.iterate(
            lambda: self._snapshot._pages(start, end, reverse=reverse), batch=1
        ):
            yield from page

    def close(self) -> None:
        """End it. Idempotent."""
        self._loop.run(self._snapshot.close())
