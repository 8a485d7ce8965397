"""Chunks that a worker brings back from backups to long-term storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkNotFoundError,
    CorruptDataError,
    LostDataError,
    SiltstoneError,
)
from siltstone.core.records.backup import BackupFragment
from siltstone.core.storage.block_reads import read_exactly
from siltstone.core.storage.optional_verbs import PieceError, PieceRoom, piece_bytes
from siltstone.migration.backup.chunk_put import put_chunk
from siltstone.migration.backup.fragment_copy import FRAGMENT_BYTES, OCCUPIED, is_synced, unread
from siltstone.migration.backup.plan import fragment_name
from siltstone.migration.backup.worker_place import WorkerPlace
from siltstone.pipelines.whole_objects import ObjectItem, object_pieces
from siltstone.pipelines.work import OK, SAME, ItemOutcome, Step, share_of
from siltstone.store.manifest import COPY_NAME
from siltstone.store.worker_store import worker_store


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkItem:
    """A chunk that is to be on long-term storage.

    Attributes:
        name: of the chunk.
        stem: what the names of its objects begin with in the place.
        length: its bytes.
        fragments: what it is made of.
        found: length of what has this name there already; ``None`` when nothing has.
    """

    name: str
    stem: str
    length: int
    fragments: tuple[BackupFragment, ...]
    found: int | None

    @property
    def size(self) -> int:
        """Bytes that are brought."""
        return self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkWork:
    """Brings chunks back, each fragment compared with its sum.

    Attributes:
        place: where the backup is.
        folder: of the store in the place.
        target: the settings file of the store that is made.
        uuid: of that store.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    place: WorkerPlace
    folder: str
    target: str
    uuid: str
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the place and the new long-term storage."""
        with (
            self.place.open(share_of(self.rate, openings)) as place,
            closing(worker_store(self.target, self.uuid, name=COPY_NAME)) as target,
        ):
            yield partial(_restored, self, place, target, PieceRoom())


def _restored(
    work: ChunkWork, place: ChunkStorage, target: ChunkStorage, room: PieceRoom, item: ChunkItem
) -> ItemOutcome:
    """Bring one chunk. What fails on the new storage is an error: it would fail for all others.

    Nothing is deleted here: a task may be repeated, and its first try may outlive the job.
    """
    occupied = ItemOutcome(subject=item.name, status=OCCUPIED, message="its name is taken")
    if item.found is not None:
        if item.found == item.length and _is_there(target, item, room):
            return ItemOutcome(subject=item.name, status=SAME, length=item.length)
        return occupied
    pieces = partial(_pieces, work, place, room, item)
    try:
        if not put_chunk(target, item.name, item.length, pieces):
            return occupied
    except PieceError as failed:
        if isinstance(failed.error, CorruptDataError) and _can_be_read(pieces()):
            return occupied  # by what came of it: a byte was changed on the way here
        return unread(item.name, failed)
    return ItemOutcome(subject=item.name, status=OK, length=item.length)


def _pieces(
    work: ChunkWork, place: ChunkStorage, room: PieceRoom, item: ChunkItem
) -> Iterator[memoryview]:
    """Read a chunk, each fragment compared with its sum. Raises ``SiltstoneError``."""
    end = 0
    for fragment in item.fragments:
        found = ObjectItem(
            name=work.folder + fragment_name(item.stem, fragment.start, fragment.stop),
            length=fragment.length,
            crc=fragment.crc,
        )
        position = fragment.start
        for piece in object_pieces(place, found, room):
            # A fragment begins with the block that was not whole at the end of the one before.
            yield piece[max(0, end - position) :]
            position += len(piece)
        end = fragment.stop


def _can_be_read(pieces: Iterator[memoryview]) -> bool:
    try:
        for _ in pieces:
            pass
    except SiltstoneError:
        return False
    return True


def _is_there(target: ChunkStorage, item: ChunkItem, room: PieceRoom) -> bool:
    """Whether a try that died has brought all of a chunk."""
    try:
        if not all(_has(target, item.name, fragment, room) for fragment in item.fragments):
            return False
        last = room.of(1)
        read_exactly(target, item.name, item.length - 1, last)
    except (ChunkNotFoundError, LostDataError):
        return False
    return is_synced(target, item.name, item.length, last)


def _has(target: ChunkStorage, name: str, fragment: BackupFragment, room: PieceRoom) -> bool:
    step, crc = piece_bytes(target, FRAGMENT_BYTES), 0
    for begin in range(fragment.start, fragment.stop, step):
        view = room.of(min(step, fragment.stop - begin))
        read_exactly(target, name, begin, view)
        crc = crc32c(view, crc)
    return crc == fragment.crc
