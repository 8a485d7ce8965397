"""Objects of a store that a worker copies to another long-term storage, under the same names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkExistsError, ChunkNotFoundError, LostDataError
from siltstone.core.storage.block_reads import chunk_parts, read_blocks, read_exactly
from siltstone.core.storage.cached import uncached
from siltstone.core.storage.optional_verbs import PieceError, PieceRoom, piece_bytes
from siltstone.migration.backup.chunk_put import put_chunk
from siltstone.migration.backup.fragment_copy import READ_BYTES, unread
from siltstone.pipelines.whole_objects import ObjectItem, object_pieces
from siltstone.pipelines.window import unpack_sums
from siltstone.pipelines.work import OK, SAME, ItemOutcome, Step, share_of
from siltstone.store.admin.place_objects import delete
from siltstone.store.manifest import COPY_NAME, MANIFEST_NAME
from siltstone.store.worker_store import worker_store


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveItem:
    """An object that is to be at the new place.

    Attributes:
        name: the same at both.
        length: bytes that are copied; the old one may have more after them that nothing names.
        sums: CRC32C of each block: u32[], little-endian; none of what has none.
        crc: CRC32C of all bytes, where there are no sums of blocks; ``None`` if it is not known.
        found: length of what has this name at the new place; ``None`` when nothing has.
        doubted: what is found may be other bytes, so it is compared; else it is not the object.
    """

    name: str
    length: int
    sums: bytes
    found: int | None
    doubted: bool = False
    crc: int | None = None

    @property
    def size(self) -> int:
        """Bytes that are copied."""
        return self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveWork:
    """Copies objects, each block, or object, that has a sum compared with it.

    Attributes:
        source: the settings file with the old long-term storage.
        target: that with the new one.
        uuid: of the store, which both places must be of.
        named: the name of the manifest at the old place.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    source: str
    target: str
    uuid: str
    rate: int | None
    named: str = MANIFEST_NAME

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open both."""
        each = share_of(self.rate, openings)
        with (
            closing(worker_store(self.source, self.uuid, each, self.named)) as source,
            closing(worker_store(self.target, self.uuid, name=COPY_NAME)) as target,
        ):
            yield partial(_moved, uncached(source), target, PieceRoom())


def _moved(
    source: ChunkStorage, target: ChunkStorage, room: PieceRoom, item: MoveItem
) -> ItemOutcome:
    """Copy one object. What fails at the new place is an error: it would fail for all others."""
    if item.doubted and item.found == item.length and _is_there(source, target, room, item):
        return ItemOutcome(subject=item.name, status=SAME, length=item.length)
    pieces = partial(_pieces, source, room, item)
    try:
        # Tasks of a move are threads of its driver; nothing else works there meanwhile.
        for taken in (item.found is not None, True):
            if taken:
                delete(target, item.name)
            if put_chunk(target, item.name, item.length, pieces):
                return ItemOutcome(subject=item.name, status=OK, length=item.length)
    except PieceError as failed:
        delete(target, item.name)
        return unread(item.name, failed)
    raise ChunkExistsError(
        "another program writes to the new place", chunk=item.name, operation="create"
    )


def _is_there(source: ChunkStorage, target: ChunkStorage, room: PieceRoom, item: MoveItem) -> bool:
    """Whether an object at the new place is the one that it should be, byte for byte."""
    sums = unpack_sums(item.sums)
    try:
        for part in chunk_parts(item.name, item.length, sums, piece_bytes(target, READ_BYTES)):
            view = room.of(part.length)
            read_exactly(target, item.name, part.offset, view)
            if not sums:
                theirs = bytearray(part.length)
                read_exactly(source, item.name, part.offset, memoryview(theirs))
            if not (part.match(view) if sums else view == theirs):
                return False
    except (ChunkNotFoundError, LostDataError):
        return False
    return True


def _pieces(source: ChunkStorage, room: PieceRoom, item: MoveItem) -> Iterator[memoryview]:
    """Read an object, compared with the sums that are known of it. Raises ``SiltstoneError``."""
    if item.crc is not None:
        whole = ObjectItem(name=item.name, length=item.length, crc=item.crc)
        yield from object_pieces(source, whole, room)
        return
    sums = unpack_sums(item.sums)
    for part in chunk_parts(item.name, item.length, sums, piece_bytes(source, READ_BYTES)):
        view = room.of(part.length)
        if sums:
            read_blocks(source, part, view)
        else:
            read_exactly(source, item.name, part.offset, view)
        yield view
