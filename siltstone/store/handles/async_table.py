"""A table, and a table at one version, as asyncio applications hold them.

Tables are scanned a page at a time, so that memory holds no more than one page.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from siltstone.container.models.segments import RemoveRange, TableValue, VersionIs
from siltstone.core.bytes_like import as_bytes
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.errors import ClosedError
from siltstone.store.handles.arguments import check_changes, check_expected, check_key, check_offset
from siltstone.store.handles.container_slot import Handle
from siltstone.store.handles.unpicklable import LivingHandle

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.container.models.tables import TableUpdate
    from siltstone.container.state.table_snapshots import LivingSnapshot
    from siltstone.core.bytes_like import BytesLike
    from siltstone.store.handles.container_slot import ContainerSlot

PAGE_COUNT: Final = 1000
"""Most entries of a page."""

Found = tuple[bytes, TableValue]
"""A key and what it has."""

Fetch = Callable[[bytes, bytes | None], Awaitable[list[Found]]]
"""Given first key and the one after the last, returns the next entries; none only at the end."""


async def pages(
    fetch: Fetch, start: BytesLike, end: BytesLike | None, *, reverse: bool
) -> AsyncIterator[list[Found]]:
    """Yield the entries with ``start <= key < end``, page by page."""
    first = check_key(start)
    behind = None if end is None else check_key(end)
    while page := await fetch(first, behind):
        yield page
        last = page[-1][0]
        if reverse:
            behind = last
        else:
            first = last + b"\0"


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
        """Yield what ``scan`` yields, as lists of up to 1,000 that were fetched at once."""

        async def fetch(first: bytes, behind: bytes | None) -> list[Found]:
            return self._held.scan(first, behind, reverse=reverse, limit=PAGE_COUNT)

        return pages(fetch, start, end, reverse=reverse)

    async def close(self) -> None:
        """End it, so that what was overwritten need not be kept any more. Idempotent."""
        self._held.release()


FOLLOW_WAIT_S: Final = 30.0
"""A follower asks again after this time, so that no wait is without an end."""


class AsyncTable(Handle):
    """A handle to a table: ordered bytes to bytes, each value with the version that wrote it."""

    __slots__ = ("_name",)

    def __init__(self, slot: ContainerSlot, name: str) -> None:
        self._name = name
        super().__init__(slot)

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    def __repr__(self) -> str:
        return f"AsyncTable({self._name!r})"

    async def get(self, key: BytesLike) -> TableValue | None:
        """Return the value of ``key``, ``None`` when it has none. Raises ``TableNotFoundError``."""
        return await self._container.table_get(self._name, check_key(key))

    def put(self, key: BytesLike, value: BytesLike) -> asyncio.Future[int]:
        """Set ``key`` whatever it was; the result is the version, given as soon as it is durable.

        Key and value are taken by the call, awaited or not: many changes can be on their way
        without a task for each. Those of a table take effect in the order of their calls, unless
        one of them has to wait for room. Cancelling frees the caller; the change may still happen.

        Raises, when awaited:
            TableNotFoundError: there is no such table.
            AppendTooLargeError: it does not fit in one frame of the log.
            BackPressureError: no room before the deadline; nothing was changed.
            SafeModeError: long-term storage has too little room; nothing was changed.
            OutcomeUnknownError: the log failed; the change may or may not be there.
            FencedError: another owner took over; this store can no longer be used.
        """
        change = (check_key(key), as_bytes(value, what="value"))
        return self._container.update(self._name, (change,))

    def remove(self, key: BytesLike) -> asyncio.Future[int]:
        """Remove ``key``, if it is there; the result is the version. Otherwise like ``put``."""
        return self._container.update(self._name, ((check_key(key), None),))

    async def remove_range(
        self,
        start: BytesLike = b"",
        end: BytesLike | None = None,
        *,
        expected: Mapping[bytes, SupportsIndex | None] | None = None,
    ) -> int:
        """Remove every key with ``start <= key < end`` at once; return the version.

        It is one small record and takes bounded time and memory, however many keys there are.

        Args:
            start: the first key; empty means from the beginning.
            end: the key after the last, above ``start``; ``None`` means to the end.
            expected: as for ``update``.

        Raises:
            ConditionFailedError: a key has another version; nothing was removed.
            TableNotFoundError: there is no such table.
        """
        behind = None if end is None else check_key(end)
        operation = RemoveRange(self._name, check_key(start), behind)
        conditions = [VersionIs(self._name, *found) for found in check_expected(expected or {})]
        return (await self._container.commit([operation], conditions)).version

    def update(
        self,
        changes: Mapping[bytes, BytesLike | None],
        *,
        expected: Mapping[bytes, SupportsIndex | None] | None = None,
    ) -> asyncio.Future[int]:
        """Change several keys at once, all or none; the result is the version that did.

        Otherwise like ``put``.

        Args:
            changes: key to value; ``None`` removes the key.
            expected: key to the version that it must have now; ``None`` means it must be absent.
                Keys that are not changed may be named too.

        Raises, when awaited, what ``put`` does, and:
            ConditionFailedError: a key has another version; nothing was changed.
        """
        found = check_changes(changes)
        if not found:
            raise ValueError("an update needs at least one change")
        return self._container.update(
            self._name, found, check_expected(expected) if expected else ()
        )

    async def scan(
        self, start: BytesLike = b"", end: BytesLike | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, TableValue]]:
        """Yield the entries with ``start <= key < end`` in the order of their keys.

        Memory holds one page of up to 1 MiB. While the table changes, each key is seen as it was at
        some version between the first step and the last: a key that is there all the time is seen
        once, one that comes or goes meanwhile may be missed, none is seen twice. ``snapshot`` shows
        one version.

        Args:
            start: the first key; empty means from the beginning.
            end: the key after the last; ``None`` means to the end.
            reverse: from the last key to the first.
        """
        async for page in self._pages(start, end, reverse=reverse):
            for entry in page:
                yield entry

    def _pages(
        self, start: BytesLike = b"", end: BytesLike | None = None, *, reverse: bool = False
    ) -> AsyncIterator[list[tuple[bytes, TableValue]]]:
        """Yield what ``scan`` yields, as lists of what was fetched at once."""

        def fetch(first: bytes, behind: bytes | None) -> Awaitable[list[Found]]:
            return self._container.table_scan(
                self._name, first, behind, reverse=reverse, limit=PAGE_COUNT
            )

        return pages(fetch, start, end, reverse=reverse)

    async def snapshot(self, ttl_s: float = 60.0) -> AsyncTableSnapshot:
        """Return a handle that reads the table as it is now, whatever changes later.

        It lives in memory: it also ends when its container is closed or opened again.

        Args:
            ttl_s: seconds until it ends, above 0, at most a day. What is overwritten meanwhile
                stays on disk as long.

        Raises:
            TableNotFoundError: there is no such table.
            SnapshotLimitError: 16 snapshots of tables of this container are living.
        """
        return AsyncTableSnapshot(await self._container.table_snapshot(self._name, ttl_s))

    async def version(self) -> int:
        """Return the newest acknowledged table version of the container, a point to follow from."""
        return await self._container.table_version()

    async def follow(self, version: SupportsIndex) -> AsyncIterator[TableUpdate]:
        """Yield every update of this table after ``version``, in order, and wait for new ones.

        What one commit did to the table is one update, so following again from the version of the
        last one misses and repeats nothing.

        Args:
            version: what an update, a snapshot or ``version`` returned; 0 is the beginning. One
                that a reader has not seen yet is waited for.

        Raises:
            TableNotFoundError: there is no such table.
            TableTruncatedError: the table log does not reach back to ``version``: read a snapshot,
                and follow from its version.
            ValueError: no update ever had this version.
        """
        position = check_offset(version, what="version")
        while True:
            page = await self._container.table_updates(self._name, position)
            for update in page.updates:
                yield update
            if page.position == position:
                await self._container.wait_for_version(position, FOLLOW_WAIT_S)
            position = page.position


def value_of(table: AsyncTable, key: bytes) -> tuple[TableValue | None] | None:
    """What ``key`` has, on any thread; ``None`` when only the store's loop can tell.

    Raises what ``AsyncTable.get`` raises.
    """
    reading = table._container.tables_now()
    if reading is None:
        return None
    try:
        return (reading.table_get(table._name, key),)
    except ClosedError:  # just now
        return None


def bare_value_of(table: AsyncTable, key: bytes) -> tuple[bytes | None] | None:
    """What ``value_of`` gives, without the version. For who asks a hundred thousand times."""
    reading = table._container.tables_now()
    if reading is None:
        return None
    try:
        return (reading.table_value(table._name, key),)
    except ClosedError:  # just now
        return None


async def value_pages(
    snapshot: AsyncTableSnapshot, start: bytes, end: bytes | None
) -> AsyncIterator[list[tuple[bytes, bytes]]]:
    """Yield what ``AsyncTableSnapshot.scan`` does, without versions, as lists of up to 1,000."""
    values = snapshot._held.values
    while page := values(start, end, limit=PAGE_COUNT):
        yield page
        start = page[-1][0] + b"\0"


def has_ended(snapshot: AsyncTableSnapshot) -> bool:
    """Whether it cannot be read any more, such as since its container was opened again."""
    return snapshot._held.ended


def end_snapshot(snapshot: AsyncTableSnapshot) -> None:
    """``AsyncTableSnapshot.close``, where nothing can be awaited."""
    snapshot._held.release()
