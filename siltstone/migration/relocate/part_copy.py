"""Objects of rows that a worker copies to a collection of another store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from siltstone.collections.state.part_names import name_of_part, part_key
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment, SystemEnvironment
from siltstone.core.errors import ChunkExistsError, SiltstoneError
from siltstone.core.records.collection_part import CollectionPart
from siltstone.core.storage.block_reads import read_exactly
from siltstone.core.storage.cached import uncached
from siltstone.core.storage.optional_verbs import PieceError, PieceRoom
from siltstone.migration.backup.chunk_put import put_chunk
from siltstone.migration.backup.fragment_copy import is_synced, unread
from siltstone.pipelines.whole_objects import ObjectItem, compare_object, object_pieces
from siltstone.pipelines.work import OK, SAME, ItemOutcome, Step, share_of
from siltstone.store.worker_store import worker_store

_NONCE_BYTES: Final = 8
_NAMES_MAX: Final = 3
"""Names of one object, each after the one before was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartItem:
    """An object of rows that is to be in a copy.

    Attributes:
        name: of the object in the store that is copied.
        new_id: of the copy, 16 bytes.
        part: what the state says of it.
        found: length of what has its name in the copy already; ``None`` when nothing has.
    """

    name: str
    new_id: bytes
    part: CollectionPart
    found: int | None

    @property
    def size(self) -> int:
        """Bytes that are copied."""
        return self.part.length


@dataclass(frozen=True, slots=True, kw_only=True)
class PartCopyWork:
    """Copies objects of rows, each compared with its sum. It deletes nothing.

    Attributes:
        source: the settings file of the store that is copied.
        uuid: of that store.
        target: the settings file of the other store.
        target_uuid: its uuid.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    source: str
    uuid: str
    target: str
    target_uuid: str
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the long-term storage of both."""
        each = share_of(self.rate, openings)
        with (
            closing(SystemEnvironment()) as environment,
            closing(worker_store(self.source, self.uuid, each)) as source,
            closing(worker_store(self.target, self.target_uuid)) as target,
        ):
            yield partial(_copied, uncached(source), target, PieceRoom(), environment)


def _copied(
    source: ChunkStorage,
    target: ChunkStorage,
    room: PieceRoom,
    environment: Environment,
    item: PartItem,
) -> ItemOutcome:
    """Copy one object; the detail of the outcome is its nonce there.

    What has its name already may be half of it, and a try that lives on may write it. So it is
    used if it is whole, and else left to the sweep; the copy gets another name.
    """
    part = item.part
    if item.found is not None:
        if item.found == part.length and _is_there(target, room, item):
            return _done(item, SAME, part.nonce)
        part = _renamed(part, environment)
    pieces = partial(
        object_pieces,
        source,
        ObjectItem(name=item.name, length=part.length, crc=part.crc),
        room,
    )
    try:
        for _ in range(_NAMES_MAX):
            name = part_key(item.new_id, name_of_part(part))
            if put_chunk(target, name, part.length, pieces):
                return _done(item, OK, part.nonce)
            part = _renamed(part, environment)
    except PieceError as failed:
        return unread(item.name, failed)
    raise ChunkExistsError("each name was taken", chunk=item.name, operation="create")


def _done(item: PartItem, status: str, nonce: int) -> ItemOutcome:
    return ItemOutcome(
        subject=item.name,
        status=status,
        length=item.part.length,
        detail=nonce.to_bytes(_NONCE_BYTES, "little"),
    )


def nonce_of(outcome: ItemOutcome) -> int:
    """The nonce that the name of a copy has."""
    return int.from_bytes(outcome.detail, "little")


def _renamed(part: CollectionPart, environment: Environment) -> CollectionPart:
    nonce = int.from_bytes(environment.random_bytes(_NONCE_BYTES), "little")
    return replace(part, nonce=nonce)


def _is_there(target: ChunkStorage, room: PieceRoom, item: PartItem) -> bool:
    """Whether a try that died has brought all of an object, durably."""
    name = part_key(item.new_id, name_of_part(item.part))
    whole = ObjectItem(name=name, length=item.part.length, crc=item.part.crc)
    if compare_object(target, room, whole).status != OK:
        return False
    last = room.of(1)
    try:
        read_exactly(target, name, item.part.length - 1, last)
    except SiltstoneError:
        return False
    return is_synced(target, name, item.part.length, last)
