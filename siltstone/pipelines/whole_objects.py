"""Objects of which one sum is known: read whole, and compared with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import CorruptDataError, SiltstoneError
from siltstone.core.storage.block_reads import read_exactly
from siltstone.core.storage.optional_verbs import PieceRoom, piece_bytes
from siltstone.pipelines.scrub import unread_status
from siltstone.pipelines.work import OK, ItemOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectItem:
    """An object that is to be compared.

    Attributes:
        name: of the object.
        length: its bytes.
        crc: CRC32C of them.
    """

    name: str
    length: int
    crc: int

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return self.length


def compare_object(place: ChunkStorage, room: PieceRoom, item: ObjectItem) -> ItemOutcome:
    """Compare one object, twice if it does not match: the way here may have changed it."""
    try:
        try:
            _read(place, item, room)
        except CorruptDataError:
            _read(place, item, room)
    except SiltstoneError as error:
        return ItemOutcome(subject=item.name, status=unread_status(error), message=str(error))
    return ItemOutcome(subject=item.name, status=OK, length=item.length)


def _read(place: ChunkStorage, item: ObjectItem, room: PieceRoom) -> None:
    for _ in object_pieces(place, item, room):
        pass


def object_pieces(place: ChunkStorage, item: ObjectItem, room: PieceRoom) -> Iterator[memoryview]:
    """Read an object piece by piece; its last piece is given only if all of it matches its sum.

    Args:
        place: where it is.
        item: the object.
        room: holds a piece, until the next one is asked for.

    Raises:
        CorruptDataError: it does not match, or is too long.
        LostDataError, ChunkNotFoundError, ChunkError: it cannot be read.
    """
    step, crc = piece_bytes(place, max(item.length, 1)), 0
    for begin in range(0, item.length, step):
        view = room.of(min(step, item.length - begin))
        read_exactly(place, item.name, begin, view)
        crc = crc32c(view, crc)
        if begin + len(view) == item.length:
            if crc != item.crc:
                raise CorruptDataError("the object does not match its sum", where=item.name)
            # An object that continues beyond its end was not made by us.
            if place.stat(item.name).length != item.length:
                raise CorruptDataError("the object is too long", where=item.name)
        yield view
