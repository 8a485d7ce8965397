"""Collections in backups: objects of rows, copied as chunks are, and states that name them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

from siltstone.collections.any_collection import collections_are_installed, store_has_collections
from siltstone.collections.state.part_names import name_of_part, part_key
from siltstone.collections.state.restored import restored_state
from siltstone.container.reads.chunk_rows import ChunkRows
from siltstone.core.checksums import combine
from siltstone.core.errors import CapabilityError, CorruptDataError
from siltstone.core.records.backup import BackupChunk
from siltstone.core.records.backup_collections import BackupCollection
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.collection_entry import COLLECTION_ID_BYTES
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.records.collection_state import (
    CollectionState,
    Times,
    decode_state,
    encode_state,
)
from siltstone.migration.backup.chunk_restore import ChunkItem
from siltstone.migration.backup.plan import ChunkPlan, plan_chunks
from siltstone.pipelines.store_view import StoreView
from siltstone.store.worker_store import worker_store

if TYPE_CHECKING:
    from siltstone.collections.blocking.held import BlockingHold
    from siltstone.collections.held_collections import HeldCollection
    from siltstone.store.admin.prefilled_init import NewStore


class CollectionsToCopy:
    """What of the collections of a store a backup is to have.

    Args:
        hold: keeps them; ``None`` where nothing is to be copied.
        has_left: the store has collections that are not copied.

    Attributes:
        damaged: what cannot be read, and why.
        has_left: see above; also those that cannot be read.
    """

    def __init__(self, hold: BlockingHold | None, *, has_left: bool) -> None:
        self._hold = hold
        self.damaged = {} if hold is None else dict(hold.damaged)
        self.has_left = has_left or bool(self.damaged)

    def plans(
        self, folder: str, known: Mapping[str, BackupChunk], lengths: Mapping[str, int]
    ) -> list[CollectionPlan]:
        """Plan the objects of rows. See ``plan_chunks``."""
        found = () if self._hold is None else self._hold.found
        return [_planned(folder, one, known, lengths) for one in found]

    def check(self) -> None:
        """Raise ``LeaseExpiredError`` if what is missing may have been deleted rightly."""
        if self._hold is not None:
            self._hold.check()


@contextmanager
def held_collections(view: StoreView, *, every: bool) -> Iterator[CollectionsToCopy]:
    """Hold all collections of a store until the end of the block.

    Args:
        view: the store.
        every: whether they are wanted.

    Raises:
        CapabilityError: they are in a table of the owner.
    """
    if not store_has_collections(view.path, view.uuid):
        yield CollectionsToCopy(None, has_left=False)
    elif not (every and collections_are_installed()):
        yield CollectionsToCopy(None, has_left=True)
    else:
        from siltstone.collections.blocking.held import hold_collections

        _check_choice(view)
        with hold_collections(view.path) as hold:
            yield CollectionsToCopy(hold, has_left=False)


def _check_choice(view: StoreView) -> None:
    from siltstone.collections.consensus.table_plugin import TABLE
    from siltstone.collections.consensus_choice import chosen_consensus

    with closing(worker_store(view.path, view.uuid)) as storage:
        if chosen_consensus(storage) == TABLE:
            raise CapabilityError(
                "a backup cannot hold collections that are in a table of the owner; copy their "
                "rows in the owner, and make backups of single containers by --container"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionPlan:
    """A collection of a backup that is being made.

    Attributes:
        held: at one entry.
        parts: the objects of rows that its state names, by name.
        plans: of these objects, in the order of their names.
    """

    held: HeldCollection
    parts: Mapping[str, CollectionPart]
    plans: Sequence[ChunkPlan]

    def judge(self) -> None:
        """Compare what came with the sums of the state; note the damage in the plans."""
        for plan in self.plans:
            if plan.damage:
                continue
            part, fragments = self.parts[plan.name], plan.result().fragments
            crc = reduce(lambda crc, one: combine(crc, one.crc, one.length), fragments, 0)
            if crc != part.crc:
                plan.damage = "damaged: object of rows does not match its sum"

    def result(self) -> BackupCollection:
        """What the backup says of it."""
        row = self.held.row
        return BackupCollection(
            name=row.name,
            id=row.id,
            key_columns=row.key_columns,
            times=int(row.times),
            history=row.history,
            created_ms=row.created_ms,
            columns=row.columns,
            state=encode_state(self.held.state),
            parts=tuple(plan.result() for plan in self.plans),
        )


def _planned(
    folder: str,
    held: HeldCollection,
    known: Mapping[str, BackupChunk],
    lengths: Mapping[str, int],
) -> CollectionPlan:
    parts = _parts_of(held.state)
    rows = [
        ChunkRows(
            container=0,
            chunk=Chunk(chunk_id=1, name=name, epoch=0, length=part.length, closed=True),
            sums=(),
        )
        for name, part in parts.items()
    ]
    return CollectionPlan(held=held, parts=parts, plans=plan_chunks(folder, rows, known, lengths))


def _parts_of(state: CollectionState) -> dict[str, CollectionPart]:
    return {
        part_key(state.id, name_of_part(part)): part
        for batch in state.batches.items
        for part in batch.parts()
        if part.inline is None
    }


class RestoredCollections:
    """Collections of a backup that become those of a new store.

    Args:
        collections: of the backup.
        store_id: of the new store, 16 bytes: the same in each try, so the new ids are, too.
    """

    def __init__(self, collections: Sequence[BackupCollection], store_id: bytes) -> None:
        self._collections = collections
        self._store_id = store_id

    def items(self, lengths: Mapping[str, int]) -> list[ChunkItem]:
        """The objects of rows, each under its new name.

        Args:
            lengths: of what is at the new place, by name.

        Raises:
            CorruptDataError: a state does not name what the backup has of it.
        """
        items = []
        for one in self._collections:
            state = _state_of(one)
            new_id = self._id(one)
            parts = _parts_of(state)
            copies = {copy.name: copy for copy in one.parts}
            if {name: part.length for name, part in parts.items()} != {
                name: copy.length for name, copy in copies.items()
            }:
                raise CorruptDataError("a backup lacks objects of a collection", where=one.name)
            for name, part in parts.items():
                if copies[name].missing:
                    continue
                new = part_key(new_id, name_of_part(part))
                items.append(
                    ChunkItem(
                        name=new,
                        stem=copies[name].stem,
                        length=part.length,
                        fragments=copies[name].fragments,
                        found=lengths.get(new),
                    )
                )
        return items

    def make(self, new: NewStore) -> None:
        """Give each its first entry, then its name. May be repeated. Needs their package."""
        if self._collections:
            asyncio.run(self._make(new))

    async def _make(self, new: NewStore) -> None:
        from siltstone.collections.async_collection import AsyncCollection
        from siltstone.collections.catalog import (
            CATALOG_NAME,
            Catalog,
            CatalogRow,
            begun,
            catalog_row,
        )
        from siltstone.collections.housekeeping import Housekeeping
        from siltstone.collections.opened_place import place_of

        place = place_of(new.assembly, new.assembly.environment, None)
        try:
            opened = await place.ask(lambda: begun(place, catalog_row()))
            housekeeping = Housekeeping(place, opened)
            catalog = Catalog(AsyncCollection(CATALOG_NAME, place, housekeeping))
            named = await catalog.rows()
            for one in self._collections:
                row = CatalogRow(
                    name=one.name,
                    id=self._id(one),
                    columns=one.columns,
                    key_columns=one.key_columns,
                    times=Times(one.times),
                    history=one.history,
                    created_ms=one.created_ms,
                )
                first = restored_state(_state_of(one), row.id)
                await place.ask(partial(begun, place, row, first))
                if row.name not in named:
                    await catalog.add(row)
            await housekeeping.settle()
            await housekeeping.close()
        finally:
            await place.ask(place.close)

    def _id(self, one: BackupCollection) -> bytes:
        text = self._store_id + one.id
        return hashlib.blake2b(
            text, digest_size=COLLECTION_ID_BYTES, person=b"silt-restore"
        ).digest()


def _state_of(one: BackupCollection) -> CollectionState:
    state = decode_state(one.state, where=f"collection {one.name} of a backup")
    if state.id != one.id:
        raise CorruptDataError("state of another collection", where=one.name)
    return state
