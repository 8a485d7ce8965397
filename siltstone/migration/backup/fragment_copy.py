"""Fragments of chunks that travel to a worker, and what copies them into the place of backups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    LostDataError,
    SiltstoneError,
)
from siltstone.core.errors import Outcome as Effect
from siltstone.core.storage.block_reads import BlockRange, chunk_parts, read_blocks, read_exactly
from siltstone.core.storage.block_sums import combined
from siltstone.core.storage.cached import uncached
from siltstone.core.storage.optional_verbs import (
    PieceError,
    PieceRoom,
    create_from,
    overwrite,
    piece_bytes,
)
from siltstone.migration.backup.worker_place import WorkerPlace
from siltstone.pipelines.scrub import unread_status
from siltstone.pipelines.window import unpack_sums
from siltstone.pipelines.work import OK, SAME, ItemOutcome, Step, share_of
from siltstone.store.worker_store import worker_store

OCCUPIED: Final = "occupied"
"""A try that died left an object of this name. Only the turn's holder deletes it and retries."""

FRAGMENT_BYTES: Final = 32 * MIB
"""Of one object at most: a service sends it by few requests, and it fits in memory."""

_CREATES_MAX: Final = 3
READ_BYTES: Final = 4 * MIB
"""Of a chunk, read and verified by one request to a service at the other end of a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentItem:
    """A fragment of a chunk that is to be in the place.

    Attributes:
        chunk: its name on long-term storage.
        length: committed bytes of the chunk.
        start: first byte of the fragment, at the beginning of a block.
        stop: its end, at the end of a block or of the chunk.
        sums: CRC32C of each of its blocks: u32[], little-endian; none of an object in place that
            has none.
        name: of the object.
        found: length of the object that has this name already; ``None`` when there is none.
    """

    chunk: str
    length: int
    start: int
    stop: int
    sums: bytes
    name: str
    found: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the fragment."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentWork:
    """Copies fragments, and verifies each block on the way.

    Attributes:
        store: the settings file of the source.
        uuid: of the source.
        place: where they go.
        rate: bytes a second that all openings together bring there; ``None`` for no limit.
    """

    store: str
    uuid: str
    place: WorkerPlace
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the source's long-term storage and the place."""
        with (
            closing(worker_store(self.store, self.uuid)) as source,
            self.place.open(share_of(self.rate, openings)) as place,
        ):
            yield partial(_copied, uncached(source), place, PieceRoom())


def _copied(
    source: ChunkStorage, place: ChunkStorage, room: PieceRoom, item: FragmentItem
) -> ItemOutcome:
    """Copy a fragment. What fails in the place is an error: it would fail for all others too.

    Nothing is deleted here: a task may be repeated, and its first try may outlive the job.
    """
    if item.found == item.size and _matches(place, room, item):
        return _done(item, SAME, combined(unpack_sums(item.sums), item.size))
    fragment = _Fragment(source, room, item)
    try:
        if is_put(lambda: create_from(place, item.name, item.size, fragment.pieces())):
            return _done(item, OK, fragment.crc)
    except PieceError as failed:
        return unread(item.name, failed)
    return ItemOutcome(subject=item.name, status=OCCUPIED, message="its name is taken")


def _done(item: FragmentItem, status: str, crc: int) -> ItemOutcome:
    return ItemOutcome(
        subject=item.name, status=status, length=item.size, detail=crc.to_bytes(4, "little")
    )


def unread(subject: str, failed: PieceError) -> ItemOutcome:
    """What became of bytes that could not be had; raises what is no error of a storage."""
    if not isinstance(failed.error, SiltstoneError):
        raise failed.error from None
    status = unread_status(failed.error)
    return ItemOutcome(subject=subject, status=status, message=str(failed.error))


class _Fragment:
    """The bytes of a fragment, verified on their way.

    Attributes:
        crc: CRC32C of all pieces that were given last.
    """

    def __init__(self, source: ChunkStorage, room: PieceRoom, item: FragmentItem) -> None:
        self.crc = 0
        self._source = source
        self._room = room
        self._item = item

    def pieces(self) -> Iterator[memoryview]:
        """Yield them, from the first one on."""
        item, sums = self._item, unpack_sums(self._item.sums)
        self.crc = combined(sums, item.size)
        step = piece_bytes(self._source, READ_BYTES)
        for begin in range(0, item.size, step):
            length = min(step, item.size - begin)
            view = self._room.of(length)
            if sums:
                first = begin // BLOCK_BYTES
                blocks = BlockRange(
                    name=item.chunk,
                    chunk_length=item.length,
                    offset=item.start + begin,
                    length=length,
                    sums=sums[first : first + step // BLOCK_BYTES],
                )
                read_blocks(self._source, blocks, view)
            else:
                read_exactly(self._source, item.chunk, item.start + begin, view)
                self.crc = crc32c(view, self.crc)
            yield view


def is_put(create: Callable[[], None]) -> bool:
    """Make an object; false when its name is taken, also by a try of ours without an answer."""
    for tries_left in range(_CREATES_MAX - 1, -1, -1):
        try:
            create()
        except ChunkExistsError:
            return False
        except ChunkStorageFullError:
            raise  # it stays full, whatever became of the name
        except ChunkError as error:
            if not tries_left or error.outcome is not Effect.UNKNOWN:
                raise
        else:
            return True
    raise AssertionError("the last try returns or raises")


def _matches(place: ChunkStorage, room: PieceRoom, item: FragmentItem) -> bool:
    """Whether an object that a run which died has left is whole, for certain."""
    sums = unpack_sums(item.sums)
    if not sums:
        return False
    parts = chunk_parts(item.name, item.size, sums, piece_bytes(place, FRAGMENT_BYTES))
    try:
        for part in parts:
            view = room.of(part.length)
            read_exactly(place, item.name, part.offset, view)
            if not part.match(view):
                return False
    except (ChunkNotFoundError, LostDataError):
        return False
    return is_synced(place, item.name, item.size, view[-1:])


def is_synced(storage: ChunkStorage, name: str, length: int, last: Buffer) -> bool:
    """Make durable what a run that died has left whole; false when it is unknown whether it is.

    Where a chunk shows bytes before they are synced, that run may have ended in between. To write
    one byte again, the ``last`` one, syncs all of them. A sync that failed is never repeated.
    """
    if storage.capabilities.overwrite:
        try:
            overwrite(storage, name, length - 1, [last])
        except ChunkError:
            return False
    return True
