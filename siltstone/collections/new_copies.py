"""Collections that continue from copies of others: each begun by its state, then given its name."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.catalog import CATALOG_NAME, Catalog, CatalogRow, begun, catalog_row
from siltstone.collections.housekeeping import Housekeeping
from siltstone.collections.place import CollectionPlace
from siltstone.collections.state_progress import advanced
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.errors import CollectionExistsError, CollectionLimitError
from siltstone.core.records.collection_entry import COLLECTION_ID_BYTES
from siltstone.core.records.collection_state import CollectionState, Life

_COPIES_MAX: Final = 1_000
"""Of one collection in one store, dropped ones too: each is a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """What a store has of another one's collection.

    Attributes:
        new_id: what a copy of it has to be, 16 bytes; ``None`` where none may be made.
        upper: of the copy that is there under its name; ``None`` where there is none.
    """

    new_id: bytes | None
    upper: int | None


class NewCopies(AsyncClosing):
    """A place to which collections are copied. Used on one loop.

    Args:
        place: where they come to be; closed here.
        closes: the store that the place is of, closed here after it; ``None`` for none.
    """

    def __init__(self, place: CollectionPlace, closes: AsyncClosing | None = None) -> None:
        self.place = place
        self._closes = closes
        self._catalog: Housekeeping | None = None

    async def plan(self, name: str, source: CollectionState) -> CopyPlan:
        """Choose the id of a copy: the same in each try, until that copy has its name.

        Args:
            name: of the collection.
            source: its state in the other store.

        Raises:
            CollectionExistsError: another collection has the name.
            CollectionLimitError: it was copied too often.
            CorruptDataError, ChunkError: a copy that is there cannot be read.
        """
        named = await self._named()
        holder = named.get(name)
        ids = {row.id for row in named.values()}
        for number in range(_COPIES_MAX):
            new_id = _copy_id(self.place.store_id, source.id, number)
            opened = await self.place.ask(partial(self.place.consensus.open, new_id))
            state = None if opened is None else advanced(None, opened)[0]
            if state is None or _is_unnamed(state, ids, source):
                if holder is None:
                    return CopyPlan(new_id=new_id, upper=None)
                raise CollectionExistsError(
                    "the target has another collection of this name: rename one of them",
                    collection=name,
                )
            if holder is not None and holder.id == new_id and state.life is Life.OPEN:
                return CopyPlan(new_id=None, upper=state.upper)
        raise CollectionLimitError(
            "too many copies of one collection", collection=name, limit=_COPIES_MAX
        )

    async def make(self, row: CatalogRow, first: CollectionState) -> None:
        """Give a collection its first entry, and after that its name. May be repeated.

        Args:
            row: of the catalog.
            first: the state before the first entry. What its parts are in is there.

        Raises:
            CollectionExistsError: another collection has the name; this one was dropped.
            ChunkError: long-term storage did not answer; it may have no name yet.
        """
        catalog = await self._begun_catalog()
        opened = await self.place.ask(partial(begun, self.place, row, first))
        try:
            await catalog.add(row)
        except CollectionExistsError:
            held = (await catalog.rows()).get(row.name)
            if held is None or held.id != row.id:
                housekeeping = Housekeeping(self.place, opened)
                await housekeeping.drop()
                await housekeeping.close()
                raise

    async def settle(self) -> None:
        """Wait until what names made due is done."""
        if self._catalog is not None:
            await self._catalog.settle()

    async def close(self) -> None:
        """Close what was opened. Idempotent."""
        if self._catalog is not None:
            await self._catalog.close()
            self._catalog = None
        await self.place.ask(self.place.close)
        if self._closes is not None:
            await self._closes.close()

    async def _named(self) -> dict[str, CatalogRow]:
        if self._catalog is None:
            opened = await self.place.ask(partial(self.place.consensus.open, catalog_row().id))
            if opened is None:
                return {}
        return await (await self._begun_catalog()).rows()

    async def _begun_catalog(self) -> Catalog:
        if self._catalog is None:
            opened = await self.place.ask(partial(begun, self.place, catalog_row()))
            self._catalog = Housekeeping(self.place, opened)
        return Catalog(AsyncCollection(CATALOG_NAME, self.place, self._catalog))


def _is_unnamed(state: CollectionState, ids: Collection[bytes], source: CollectionState) -> bool:
    """Whether a try that died has made a copy of just what is to be copied, but for its name."""
    is_whole = (state.upper, state.since) == (source.upper, source.since)
    return state.life is Life.OPEN and state.id not in ids and is_whole


def _copy_id(store_id: bytes, source_id: bytes, number: int) -> bytes:
    text = store_id + source_id + number.to_bytes(4, "little")
    return hashlib.blake2b(text, digest_size=COLLECTION_ID_BYTES, person=b"silt-copy").digest()
