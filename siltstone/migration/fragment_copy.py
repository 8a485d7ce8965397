"""Fragments of chunks that travel to a worker, and what copies them into the place of backups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import local
from typing import Final

from siltstone.core.block_reads import BlockRange, read_blocks, read_exactly
from siltstone.core.block_sums import combined
from siltstone.core.cached_chunk_storage import uncached
from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    LostDataError,
    SiltstoneError,
)
from siltstone.core.errors import Outcome as Effect
from siltstone.core.words import BLOCK_BYTES, MIB
from siltstone.migration.worker_place import WorkerPlace
from siltstone.pipelines.scrub import unread_status
from siltstone.pipelines.window import unpack_sums
from siltstone.pipelines.work import OK, SAME, Outcome, Step, share_of
from siltstone.pipelines.worker_store import worker_store

OCCUPIED: Final = "occupied"
"""An object has the name, of a try that died. Only who has the turn deletes it and tries again."""

FRAGMENT_BYTES: Final = 32 * MIB
"""Of one object at most: a worker has so much in memory, and a service sends it by few requests."""

_CREATES_MAX: Final = 3
_READ_BYTES: Final = 4 * MIB
"""Read and verified at a time, as long as it is near the processor."""


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
            yield partial(_copied, uncached(source), place, FragmentBuffer())


class FragmentBuffer(local):
    """One buffer for each thread: fresh memory costs as much as reading."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray())

    def of(self, length: int) -> memoryview:
        """Room for ``length`` bytes."""
        if len(self.view) < length:
            self.view = memoryview(bytearray(length))
        return self.view[:length]


def _copied(
    source: ChunkStorage, place: ChunkStorage, buffer: FragmentBuffer, item: FragmentItem
) -> Outcome:
    """Copy a fragment. What fails in the place is an error: it would fail for all others too.

    Nothing is deleted here: a task may be repeated, and its first try may live longer than the job.
    """
    view = buffer.of(item.size)
    if item.found == item.size and _matches(place, view, item):
        return _done(item, SAME, view)
    try:
        _read(source, view, item)
    except SiltstoneError as error:
        return Outcome(subject=item.name, status=unread_status(error), message=str(error))
    if not is_put(place, item.name, view):
        return Outcome(subject=item.name, status=OCCUPIED, message="its name is taken")
    return _done(item, OK, view)


def _done(item: FragmentItem, status: str, view: memoryview) -> Outcome:
    sums = unpack_sums(item.sums)
    crc = combined(sums, item.size) if sums else crc32c(view)
    return Outcome(
        subject=item.name, status=status, length=item.size, detail=crc.to_bytes(4, "little")
    )


def _read(source: ChunkStorage, view: memoryview, item: FragmentItem) -> None:
    sums = unpack_sums(item.sums)
    for begin in range(0, item.size, _READ_BYTES):
        first = begin // BLOCK_BYTES
        length = min(_READ_BYTES, item.size - begin)
        if not sums:
            read_exactly(source, item.chunk, item.start + begin, view[begin : begin + length])
            continue
        blocks = BlockRange(
            name=item.chunk,
            chunk_length=item.length,
            offset=item.start + begin,
            length=length,
            sums=sums[first : first + _READ_BYTES // BLOCK_BYTES],
        )
        read_blocks(source, blocks, view[begin : begin + length])


def is_put(place: ChunkStorage, name: str, view: memoryview) -> bool:
    """Make an object; false when its name is taken, also by a try of ours without an answer."""
    for tries_left in range(_CREATES_MAX - 1, -1, -1):
        try:
            place.create(name, [view])
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


def _matches(place: ChunkStorage, view: memoryview, item: FragmentItem) -> bool:
    """Whether an object that a run which died has left is whole, for certain."""
    if not item.sums:
        return False
    try:
        read_exactly(place, item.name, 0, view)
    except (ChunkNotFoundError, LostDataError):
        return False
    return all(
        crc32c(view[begin : begin + BLOCK_BYTES]) == wanted
        for begin, wanted in zip(
            range(0, item.size, BLOCK_BYTES), unpack_sums(item.sums), strict=True
        )
    )
