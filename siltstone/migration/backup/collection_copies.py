"""Collections in backups: objects of rows, copied as chunks are, and states that name them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from siltstone.collections.any_collection import collections_are_installed, store_has_collections
from siltstone.collections.state.part_names import name_of_part, object_parts, part_key
from siltstone.collections.state.restored import restored_state
from siltstone.container.reads.chunk_rows import ChunkRows
from siltstone.core.checksums import combine
from siltstone.core.errors import CorruptDataError
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
from siltstone.migration.source.held_collections import held_collections
from siltstone.pipelines.store_view import StoreView

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
def collections_to_copy(view: StoreView, *, every: bool) -> Iterator[CollectionsToCopy]:
    """Hold all collections of a store until the end of the block.

    Args:
        view: the store.
        every: whether they are wanted.
    """
    if not store_has_collections(view.path, view.uuid):
        yield CollectionsToCopy(None, has_left=False)
    elif not (every and collections_are_installed()):
        yield CollectionsToCopy(None, has_left=True)
    else:
        with held_collections(view.path, is_pinned=True) as hold:
            yield CollectionsToCopy(hold, has_left=False)


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
    parts = object_parts(held.state)
    rows = [
        ChunkRows(
            container=0,
            chunk=Chunk(chunk_id=1, name=name, epoch=0, length=part.length, closed=True),
            sums=(),
        )
        for name, part in parts.items()
    ]
    return CollectionPlan(held=held, parts=parts, plans=plan_chunks(folder, rows, known, lengths))


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
            parts = object_parts(state)
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
        from siltstone.collections.catalog import CatalogRow
        from siltstone.collections.new_copies import NewCopies
        from siltstone.collections.opened_place import place_of

        place = place_of(new.assembly, new.assembly.environment, None)
        async with NewCopies(place) as copies:
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
                await copies.make(row, restored_state(_state_of(one), row.id))
            await copies.settle()

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
