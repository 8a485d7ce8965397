"""A table as asyncio applications hold it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final

from siltstone.container.views import Operation, Put, Remove, TableValue, VersionIs
from siltstone.store.arguments import check_buffer, check_key

if TYPE_CHECKING:
    from siltstone.container.container import Container
    from siltstone.core.words import Buffer
    from siltstone.store.container_slot import ContainerSlot

SCAN_COUNT: Final = 1000
"""Entries that a scan takes at a time."""


class AsyncTable:
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

    async def get(self, key: Buffer) -> TableValue | None:
        """Return the value of ``key``, ``None`` when it has none. Raises ``TableNotFoundError``."""
        return await self._container.table_get(self._name, check_key(key))

    async def put(self, key: Buffer, value: Buffer) -> int:
        """Set ``key`` whatever it was; return the version."""
        return await self.update({bytes(check_buffer(key)): value})

    async def remove(self, key: Buffer) -> int:
        """Remove ``key``, if it is there; return the version."""
        return await self.update({bytes(check_buffer(key)): None})

    async def update(
        self,
        changes: Mapping[bytes, Buffer | None],
        *,
        expected: Mapping[bytes, int | None] | None = None,
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
                operations.append(Put(self._name, raw, bytes(check_buffer(value))))
        if not operations:
            raise ValueError("an update needs at least one change")
        conditions = [
            VersionIs(self._name, check_key(key), version)
            for key, version in (expected or {}).items()
        ]
        result = await self._container.commit(operations, conditions)
        return result.version

    async def scan(
        self, start: Buffer = b"", end: Buffer | None = None, *, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, TableValue]]:
        """Yield the entries with ``start <= key < end`` in the order of their keys.

        What changes meanwhile may or may not be seen; no key is seen twice.

        Args:
            start: the first key; empty means from the beginning.
            end: the key behind the last; ``None`` means to the end.
            reverse: from the last key to the first.
        """
        first = check_key(start)
        behind = None if end is None else check_key(end)
        while True:
            page = await self._container.table_scan(
                self._name, first, behind, reverse=reverse, limit=SCAN_COUNT
            )
            for entry in page:
                yield entry
            if len(page) < SCAN_COUNT:
                return
            last = page[-1][0]
            if reverse:
                behind = last
            else:
                first = last + b"\0"
