"""The names of collections: rows of a collection of its own, whose id is zero."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.consensus_choice import make_choice
from siltstone.collections.history_text import history_of
from siltstone.collections.place import CollectionPlace
from siltstone.collections.rows.row_schema import RowSchema, row_schema
from siltstone.collections.state.diffs import diff_of
from siltstone.collections.state.next_state import initial_state, next_state
from siltstone.core.consensus import Opened
from siltstone.core.errors import (
    CollectionExistsError,
    CollectionNotFoundError,
    CorruptDataError,
    OutcomeUnknownError,
    StoreNotFoundError,
    UpperMismatchError,
)
from siltstone.core.records.collection_rows import CollectionSchema
from siltstone.core.records.collection_state import CollectionState, Times, encode_state
from siltstone.core.storage.optional_verbs import is_there
from siltstone.store.manifest import MANIFEST_NAME, MOVED_NAME, check_not_left

CATALOG_ID: Final = bytes(16)

CATALOG_NAME: Final = "catalog"
"""In messages; it is not in the catalog itself, so a collection may have this name too."""

NAME_BYTES_MAX: Final = 255
"""Of a name of a collection: as of a file."""

TIMES: Final = {"ms": Times.MILLISECONDS, "count": Times.COUNT}
"""What people call them."""

_COLUMNS: Final = pyarrow.schema(
    [
        pyarrow.field("name", pyarrow.string(), nullable=False),
        pyarrow.field("id", pyarrow.binary(), nullable=False),
        pyarrow.field("columns", pyarrow.binary(), nullable=False),
        pyarrow.field("key_columns", pyarrow.int32(), nullable=False),
        pyarrow.field("times", pyarrow.int32(), nullable=False),
        pyarrow.field("history", pyarrow.uint64(), nullable=False),
        pyarrow.field("created_ms", pyarrow.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRow:
    """What a collection is made of, before its first entry.

    Attributes:
        name: as people call it.
        id: 16 bytes.
        columns: the schema as Arrow serializes it.
        key_columns: how many of its columns make the key.
        times: what its times are.
        history: how far the since stays below the upper.
        created_ms: milliseconds since 1970.
    """

    name: str
    id: bytes
    columns: bytes
    key_columns: int
    times: Times
    history: int
    created_ms: int

    def initial_state(self) -> CollectionState:
        """The state before the first entry: the same, in whichever process."""
        schema = CollectionSchema(schema_id=0, key_columns=self.key_columns, arrow=self.columns)
        return initial_state(
            self.id,
            schema,
            times=self.times,
            history=self.history,
            created_ms=self.created_ms,
        )

    def to_row(self) -> dict[str, object]:
        """As a row of the catalog."""
        return {
            "name": self.name,
            "id": self.id,
            "columns": self.columns,
            "key_columns": self.key_columns,
            "times": int(self.times),
            "history": self.history,
            "created_ms": self.created_ms,
        }


def new_row(
    place: CollectionPlace,
    name: str,
    columns: RowSchema,
    *,
    history: str | int = "all",
    times: str = "ms",
) -> CatalogRow:
    """What a new collection is made of. See ``AsyncCollections.create``; raises ``ValueError``."""
    if times not in TIMES:
        raise ValueError(f"times are 'ms' or 'count', not {times!r}")
    return CatalogRow(
        name=check_name(name),
        id=place.environment.uuid(),
        columns=columns.to_bytes(),
        key_columns=columns.key_columns,
        times=TIMES[times],
        history=history_of(history, times),
        created_ms=place.now_ms(),
    )


def catalog_row() -> CatalogRow:
    """What the catalog itself is made of; depends on nothing."""
    schema: RowSchema = row_schema(_COLUMNS, ["name"])
    return CatalogRow(
        name=CATALOG_NAME,
        id=CATALOG_ID,
        columns=schema.to_bytes(),
        key_columns=schema.key_columns,
        times=Times.COUNT,
        history=1,
        created_ms=0,
    )


def opened_catalog(place: CollectionPlace) -> Opened | None:
    """Open the catalog; ``None`` where there is none. Blocking.

    Raises:
        StoreNotFoundError: there is none since the store was switched to another place.
    """
    opened = place.consensus.open(CATALOG_ID)
    if opened is None:
        check_not_left(place.storage)
    return opened


class Catalog:
    """The names of the collections of a store.

    Args:
        collection: the one that keeps them.
    """

    def __init__(self, collection: AsyncCollection) -> None:
        self._collection = collection

    async def rows(self) -> dict[str, CatalogRow]:
        """All collections by name, in the order of their names."""
        return (await self._read())[1]

    async def row(self, name: str) -> CatalogRow:
        """What a collection is made of. Raises ``CollectionNotFoundError``."""
        rows = await self.rows()
        if name not in rows:
            raise CollectionNotFoundError("no such collection", collection=name)
        return rows[name]

    async def add(self, row: CatalogRow) -> None:
        """Give a name to a new collection. Raises ``CollectionExistsError``."""
        check_name(row.name)
        while True:
            upper, rows = await self._read()
            if row.name in rows:
                raise CollectionExistsError("collection exists", collection=row.name)
            if await self._changed(upper, [row], []):
                return

    async def rename(self, name: str, new: str) -> CatalogRow:
        """Give a collection another name, and return its row."""
        check_name(new)
        while True:
            upper, rows = await self._read()
            if name not in rows:
                raise CollectionNotFoundError("no such collection", collection=name)
            if new in rows:
                raise CollectionExistsError("collection exists", collection=new)
            row = replace(rows[name], name=new)
            if await self._changed(upper, [row], [rows[name]]):
                return row

    async def remove(self, collection_id: bytes) -> None:
        """Take the name of a collection away, whichever it has by now. May be repeated."""
        while True:
            upper, rows = await self._read()
            found = [row for row in rows.values() if row.id == collection_id]
            if not found or await self._changed(upper, [], found):
                return

    async def _read(self) -> tuple[int, dict[str, CatalogRow]]:
        snapshot = await self._collection.snapshot()
        table = await snapshot.to_arrow()
        rows = [_row(found) for found in table.to_pylist()]
        upper = 0 if snapshot.as_of is None else snapshot.as_of + 1
        return upper, {row.name: row for row in sorted(rows, key=lambda row: row.name)}

    async def _changed(
        self, upper: int, added: list[CatalogRow], removed: list[CatalogRow]
    ) -> bool:
        """Change rows if nothing else changed; return whether that was so."""
        try:
            await self._collection.append(
                [row.to_row() for row in added],
                remove=[row.to_row() for row in removed] or None,
                expected_upper=upper,
            )
        except UpperMismatchError:
            return False
        except OutcomeUnknownError:
            rows = (await self._read())[1].values()
            if not all(row in rows for row in added) or any(row in rows for row in removed):
                raise
        return True


def check_name(name: str) -> str:
    """Return the name of a collection. Raises ``ValueError`` if it can be none."""
    if not name or len(name.encode()) > NAME_BYTES_MAX or not name.isprintable():
        raise ValueError(
            f"a name of a collection has 1 to {NAME_BYTES_MAX} bytes, and no control characters: "
            f"{name[:60]!r}"
        )
    return name


def _row(found: dict[str, Any]) -> CatalogRow:
    try:
        return CatalogRow(**{**found, "times": Times(found["times"])})
    except (KeyError, TypeError, ValueError) as error:
        where = repr(found)[:200]
        raise CorruptDataError("row of the catalog makes no sense", where=where) from error


def begun(
    place: CollectionPlace,
    row: CatalogRow,
    first: CollectionState | None = None,
    *,
    is_leaving: bool = False,
) -> Opened:
    """Open a collection; give it its first entry if it has none. Blocking.

    Args:
        place: where it is.
        row: of the catalog.
        first: the state before the first entry; ``None`` means that of a new collection.
        is_leaving: whether that is for a switch of the store to another place.

    Raises:
        StoreNotFoundError: the store was switched to another place meanwhile.
    """
    opened = place.consensus.open(row.id)
    if opened is not None:
        return opened
    make_choice(place.storage, place.settings.consensus)
    before = row.initial_state() if first is None else first
    rollup = place.consensus.put_rollup(row.id, 0, encode_state(before))
    if row.id == CATALOG_ID and not is_leaving:
        # The first object of a collection. A switch of storage looks for one after it took the name
        # of the store away, so one of the two sees the other.
        _check_place(place)
    after = next_state(before, replace(before, rollups={0: rollup}), place.now_ms())
    return place.consensus.begin(row.id, rollup, diff_of(before, after, actor=place.who))


def _check_place(place: CollectionPlace) -> None:
    """Raise ``StoreNotFoundError`` if a switch took the name of the store away from here."""
    names = (MOVED_NAME, MANIFEST_NAME)
    moved, named = (is_there(place.storage, name) for name in names)
    if moved and not named:
        raise StoreNotFoundError("the store was switched to another long-term storage")
