"""A table, and a table at one version, as blocking applications hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from siltstone.core.closed_on_exit import Closing
from siltstone.store.blocking.background_loop import awaited
from siltstone.store.handles.arguments import check_key
from siltstone.store.handles.async_table import value_of

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.container.models.segments import TableValue
    from siltstone.container.models.tables import TableUpdate
    from siltstone.core.bytes_like import BytesLike
    from siltstone.store.blocking.background_loop import BackgroundLoop
    from siltstone.store.handles.async_table import AsyncTable, AsyncTableSnapshot


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


class Table:
    """A handle to a table, for any thread. See ``AsyncTable``."""

    __slots__ = ("_loop", "_table")

    def __init__(self, loop: BackgroundLoop, table: AsyncTable) -> None:
        self._loop = loop
        self._table = table

    @property
    def name(self) -> str:
        """The table's name."""
        return self._table.name

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    def get(self, key: BytesLike) -> TableValue | None:
        """Return the value of ``key``, ``None`` when it has none.

        It is read by this thread, as it is acknowledged at this moment.
        """
        self._loop.check_caller()
        raw = check_key(key)
        found = value_of(self._table, raw)
        return self._loop.run(self._table.get(raw)) if found is None else found[0]

    def put(self, key: BytesLike, value: BytesLike) -> int:
        """Set ``key`` whatever it was; return the version."""
        return self._loop.run(awaited(partial(self._table.put, key, value)))

    def remove(self, key: BytesLike) -> int:
        """Remove ``key``, if it is there; return the version."""
        return self._loop.run(awaited(partial(self._table.remove, key)))

    def update(
        self,
        changes: Mapping[bytes, BytesLike | None],
        *,
        expected: Mapping[bytes, SupportsIndex | None] | None = None,
    ) -> int:
        """Change several keys at once, all or none. See ``AsyncTable.update``."""
        return self._loop.run(awaited(partial(self._table.update, changes, expected=expected)))

    def scan(
        self, start: BytesLike = b"", end: BytesLike | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, TableValue]]:
        """Yield the entries with ``start <= key < end`` in the order of their keys."""
        for page in self._loop.iterate(
            lambda: self._table._pages(start, end, reverse=reverse), batch=1
        ):
            yield from page

    def remove_range(
        self,
        start: BytesLike = b"",
        end: BytesLike | None = None,
        *,
        expected: Mapping[bytes, SupportsIndex | None] | None = None,
    ) -> int:
        """Remove every key with ``start <= key < end``. See ``AsyncTable.remove_range``."""
        return self._loop.run(self._table.remove_range(start, end, expected=expected))

    def snapshot(self, ttl_s: float = 60.0) -> TableSnapshot:
        """Return a handle that reads the table as it is now. See ``AsyncTable.snapshot``."""
        return TableSnapshot(self._loop, self._loop.run(self._table.snapshot(ttl_s)))

    def version(self) -> int:
        """Return the newest acknowledged table version of the container."""
        return self._loop.run(self._table.version())

    def follow(self, version: SupportsIndex) -> Iterator[TableUpdate]:
        """Yield every update after ``version``, without an end. See ``AsyncTable.follow``."""
        return self._loop.iterate(lambda: self._table.follow(version), batch=1)
