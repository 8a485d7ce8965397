"""A table as asyncio applications hold it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from siltstone.container.views import Operation, Put, Remove, RemoveRange, TableValue, VersionIs
from siltstone.core.bytes_like import as_bytes
from siltstone.store.arguments import check_key, check_offset, check_version
from siltstone.store.async_table_snapshot import AsyncTableSnapshot
from siltstone.store.living_handle import LivingHandle
from siltstone.store.table_pages import PAGE_COUNT, Found, pages

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.container.container import Container
    from siltstone.container.table_views import TableUpdate
    from siltstone.core.bytes_like import BytesLike
    from siltstone.store.container_slot import ContainerSlot

FOLLOW_WAIT_S: Final = 30.0
"""A follower asks again so often, so that no wait is without an end."""


class AsyncTable(LivingHandle):
    """A handle to a table: ordered bytes to bytes, each value with the version that wrote it."""

    __slots__ = ("__weakref__", "_container", "_name")

    def __init__(self, slot: ContainerSlot, name: str) -> None:
        self._name = name
        self._container: Container
        slot.bind_handle(self)

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    def __repr__(self) -> str:
        return f"AsyncTable({self._name!r})"

    async def get(self, key: BytesLike) -> TableValue | None:
        """Return the value of ``key``, ``None`` when it has none. Raises ``TableNotFoundError``."""
        return await self._container.table_get(self._name, check_key(key))

    async def put(self, key: BytesLike, value: BytesLike) -> int:
        """Set ``key`` whatever it was; return the version."""
        operation = Put(self._name, check_key(key), as_bytes(value, what="value"))
        return (await self._container.commit((operation,))).version

    async def remove(self, key: BytesLike) -> int:
        """Remove ``key``, if it is there; return the version."""
        operation = Remove(self._name, check_key(key))
        return (await self._container.commit((operation,))).version

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
            end: the key behind the last, above ``start``; ``None`` means to the end.
            expected: as for ``update``.

        Raises:
            ConditionFailedError: a key has another version; nothing was removed.
            TableNotFoundError: there is no such table.
        """
        behind = None if end is None else check_key(end)
        operation = RemoveRange(self._name, check_key(start), behind)
        return await self._commit([operation], expected)

    async def update(
        self,
        changes: Mapping[bytes, BytesLike | None],
        *,
        expected: Mapping[bytes, SupportsIndex | None] | None = None,
    ) -> int:
        """Change several keys at once, all or none, and return the version that did.

        Args:
            changes: key to value; ``None`` removes the key.
            expected: key to the version that it must have now; ``None`` means it must be absent.
                Keys that are not changed may be named too.

        Raises:
            ConditionFailedError: a key has another version; nothing was changed.
            TableNotFoundError: there is no such table.
        """
        operations: list[Operation] = []
        for key, value in changes.items():
            raw = check_key(key)
            if value is None:
                operations.append(Remove(self._name, raw))
            else:
                operations.append(Put(self._name, raw, as_bytes(value, what="value")))
        if not operations:
            raise ValueError("an update needs at least one change")
        return await self._commit(operations, expected)

    async def _commit(
        self, operations: Sequence[Operation], expected: Mapping[bytes, SupportsIndex | None] | None
    ) -> int:
        conditions = [
            VersionIs(self._name, check_key(key), check_version(version))
            for key, version in (expected or {}).items()
        ]
        result = await self._container.commit(operations, conditions)
        return result.version

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
            end: the key behind the last; ``None`` means to the end.
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
        """Yield every update of this table behind ``version``, in order, and wait for new ones.

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
