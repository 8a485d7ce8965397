"""All collections of a store, each at one entry, with all parts kept until the end."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.collections.async_collection import AsyncCollection
from siltstone.collections.catalog import CATALOG_NAME, Catalog, CatalogRow, catalog_row
from siltstone.collections.housekeeping import Housekeeping
from siltstone.collections.place import CollectionPlace
from siltstone.collections.reader_lease import ReaderLease
from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.errors import CollectionDroppedError, CorruptDataError, FormatError
from siltstone.core.records.collection_state import CollectionState, Life


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCollection:
    """A collection at one entry.

    Attributes:
        row: of the catalog.
        state: whose parts stay.
    """

    row: CatalogRow
    state: CollectionState


class HeldCollections(AsyncClosing):
    """Leases of all collections that have a name. Made by ``held``; used on one loop.

    Args:
        place: where they are; closed here.
        closes: the store that the place is of, closed here after it; ``None`` for none.

    Attributes:
        found: the collections.
        damaged: why others cannot be read, by what they are called.
        store_id: of the store, 16 bytes.
    """

    def __init__(self, place: CollectionPlace, closes: AsyncClosing | None = None) -> None:
        self.found: list[HeldCollection] = []
        self.damaged: dict[str, str] = {}
        self.store_id = place.store_id
        self._place = place
        self._closes = closes
        self._open: list[Housekeeping] = []
        self._leases: list[ReaderLease] = []

    @classmethod
    async def held(
        cls,
        place: CollectionPlace,
        closes: AsyncClosing | None = None,
        *,
        by_leases: bool = True,
    ) -> HeldCollections:
        """Take a lease of each. What was appended before this call is in what it holds.

        Args:
            place: where they are; closed here, also if this fails.
            closes: see the class.
            by_leases: whether leases keep the parts; else a pin does that the caller has made.

        Raises:
            CollectionLimitError: one has too many readers.
            ChunkError: long-term storage did not answer.
        """
        made = cls(place, closes)
        try:
            for row in await made._rows():
                try:
                    await made._hold(row, by_leases=by_leases)
                except (CorruptDataError, FormatError) as error:
                    made.damaged[f"collection {row.name}"] = str(error)
        except (CorruptDataError, FormatError) as error:
            made.damaged["catalog of collections"] = str(error)
        except BaseException:
            await made.close()
            raise
        return made

    def check(self) -> None:
        """Raise ``LeaseExpiredError`` if a lease ended: parts may be gone since."""
        for lease in self._leases:
            lease.check()

    async def close(self) -> None:
        """Give all leases back. Idempotent."""
        leases, self._leases = self._leases, []
        for lease in leases:
            await lease.close()
        opened, self._open = self._open, []
        for one in opened:
            await one.close()
        await self._place.ask(self._place.close)
        if self._closes is not None:
            await self._closes.close()

    async def _rows(self) -> list[CatalogRow]:
        row = catalog_row()
        housekeeping = await self._opened(row)
        if housekeeping is None:
            return []
        catalog = Catalog(AsyncCollection(CATALOG_NAME, self._place, housekeeping))
        return list((await catalog.rows()).values())

    async def _hold(self, row: CatalogRow, *, by_leases: bool) -> None:
        housekeeping = await self._opened(row)
        if housekeeping is None:
            # Its name is there and nothing else, so it has what it was made with.
            self.found.append(HeldCollection(row=row, state=row.initial_state()))
            return
        shared = housekeeping.shared
        if not by_leases:
            if shared.state.life is Life.OPEN:
                self.found.append(HeldCollection(row=row, state=shared.state))
            return
        try:
            lease = await ReaderLease.held(
                shared, self._place, lambda state: state.since, reads=True
            )
        except CollectionDroppedError:
            return
        self._leases.append(lease)
        self.found.append(HeldCollection(row=row, state=shared.state))

    async def _opened(self, row: CatalogRow) -> Housekeeping | None:
        opened = await self._place.ask(lambda: self._place.consensus.open(row.id))
        if opened is None:
            return None
        housekeeping = Housekeeping(self._place, opened)
        self._open.append(housekeeping)
        return housekeeping
