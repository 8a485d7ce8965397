"""The ledger of an open keyspace: its rows, decoded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from siltstone.container.models.segments import VersionIs
from siltstone.objects.errors import RebuildingError
from siltstone.objects.records.head import Head, HeadFields, decode_head, head_fields
from siltstone.objects.records.keys import (
    MANIFEST,
    SPACE,
    STATE,
    ObjectKey,
    after_prefix,
    first_sqn_of,
    head_key,
    lookup_key,
)
from siltstone.objects.records.rebuild_rows import is_rebuild
from siltstone.objects.records.space_rows import (
    ManifestRow,
    Space,
    SpaceState,
    decode_manifest_row,
    decode_space,
    decode_state,
)
from siltstone.objects.space_names import SpaceNames
from siltstone.store.handles.async_table import AsyncTable, bare_value_of, value_of

if TYPE_CHECKING:
    from siltstone.container.models.segments import TableValue
    from siltstone.store.async_store import AsyncStore

HeadRow = tuple[bytes, HeadFields]
"""The row of a head, and its fields of a fixed length."""

NO_ROW: Final = b"\x00"
"""No row has this key."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """The state of a keyspace, and the table version that wrote it."""

    state: SpaceState
    version: int


class Ledger:
    """Looks into the table of one keyspace."""

    def __init__(self, store: AsyncStore, names: SpaceNames) -> None:
        self._store = store
        self._names = names
        self._table: AsyncTable = store.table(names.ledger)

    async def space(self) -> Space | None:
        """What the keyspace is; ``None`` where there is none.

        Raises:
            TableNotFoundError: there is none.
        """
        found = await self._table.get(SPACE)
        return None if found is None else decode_space(found.value, where=self._names.name)

    async def state(self) -> Versioned | None:
        """What the next batch begins with. Raises ``RebuildingError`` while there is no ledger."""
        return self._state(await self._table.get(STATE))

    def state_now(self) -> Versioned | None:
        """``state`` on any thread; ``None`` also when only the store's loop can tell."""
        found = value_of(self._table, STATE)
        return None if found is None else self._state(found[0])

    def _state(self, found: TableValue | None) -> Versioned | None:
        if found is None:
            return None
        check_built(found.value, keyspace=self._names.name)
        return Versioned(decode_state(found.value, where=self._names.name), found.version)

    async def settle(self) -> None:
        """Wait until all that was committed up to now is acknowledged, or was refused.

        A caller that was cancelled waits for its commit no longer, and what is read does not show
        it yet. So this comes before a decision to delete what no row names.

        Raises:
            TableNotFoundError: there is none.
            SiltstoneError: the log failed, or another owner has the store.
        """
        await self._store.commit([], [VersionIs(self._names.ledger, NO_ROW, None)])

    async def manifest(self) -> list[ManifestRow]:
        """The value segments, in the order of their SQNs."""
        return await manifest_of(self._table.scan, where=self._names.name)

    def row_now(self, key: ObjectKey) -> tuple[HeadRow | None] | None:
        """What ``head_now`` finds, checked and not decoded.

        Returns:
            ``None`` when only the store's loop can tell.
        """
        row_key = lookup_key(key)
        found = bare_value_of(self._table, row_key)
        if found is None:
            return None
        value = found[0]
        return (None,) if value is None else ((value, head_fields(value, row_key)),)

    def head_now(self, key: ObjectKey) -> tuple[Head | None] | None:
        """The head of an object, expired or not, on any thread.

        Returns:
            ``None`` when only the store's loop can tell.
        """
        row_key = head_key(key)
        found = value_of(self._table, row_key)
        return None if found is None else (_head(row_key, found[0]),)

    async def head(self, key: ObjectKey) -> Head | None:
        """The head of an object, expired or not."""
        found = self.head_now(key)
        if found is not None:
            return found[0]
        row_key = head_key(key)
        return _head(row_key, await self._table.get(row_key))


def check_built(state: bytes, *, keyspace: str) -> None:
    """Refuse a ledger that is being rebuilt, by its state. Raises ``RebuildingError``."""
    if is_rebuild(state):
        raise RebuildingError(
            "the keyspace is being rebuilt; repeat the rebuild, or the restore, to end one that "
            "was interrupted",
            keyspace=keyspace,
        )


def _head(row_key: bytes, found: TableValue | None) -> Head | None:
    return None if found is None else decode_head(found.value, where=row_key.hex())


async def manifest_of(
    scan: Callable[[bytes, bytes], AsyncIterator[tuple[bytes, TableValue]]], *, where: str
) -> list[ManifestRow]:
    """The value segments, in the order of their SQNs, of a ledger or of a snapshot of it."""
    return [
        decode_manifest_row(first_sqn_of(key), found.value, where=where)
        async for key, found in scan(MANIFEST, after_prefix(MANIFEST))
    ]
