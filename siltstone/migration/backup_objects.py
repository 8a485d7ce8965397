"""Objects of backups that travel to a worker, and what compares each with its checksum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from siltstone.core.block_reads import read_exactly
from siltstone.core.checksums import crc32c
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkNotFoundError, LostDataError, SiltstoneError
from siltstone.migration.fragment_copy import FragmentBuffer
from siltstone.migration.worker_place import WorkerPlace
from siltstone.pipelines.scrub import DAMAGED, MISSING, SHORT
from siltstone.pipelines.work import FAILED, OK, Outcome, Step, share_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectItem:
    """An object that is to be compared.

    Attributes:
        name: in the place.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectWork:
    """Reads objects and compares them with their sums.

    Attributes:
        place: where they are.
        rate: bytes a second that all openings together read; ``None`` for no limit.
    """

    place: WorkerPlace
    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        """Open the place."""
        with self.place.open(share_of(self.rate, openings)) as place:
            yield partial(_compared, place, FragmentBuffer())


def _compared(place: ChunkStorage, buffer: FragmentBuffer, item: ObjectItem) -> Outcome:
    status, message = read_object(place, item, buffer.of(item.length))
    length = item.length if status == OK else 0
    return Outcome(subject=item.name, status=status, length=length, message=message)


def read_object(place: ChunkStorage, item: ObjectItem, view: memoryview) -> tuple[str, str]:
    """Fill ``view`` with an object and compare it; return a status and what is wrong.

    What does not match is read once more.
    """
    try:
        for _ in range(2):
            read_exactly(place, item.name, 0, view)
            if crc32c(view) == item.crc:
                # An object that goes on behind its end was not made by us.
                longer = place.stat(item.name).length != item.length
                return (DAMAGED, "the object is too long") if longer else (OK, "")
    except ChunkNotFoundError as error:
        return MISSING, str(error)
    except LostDataError as error:
        return SHORT, str(error)
    except SiltstoneError as error:
        return FAILED, str(error)
    return DAMAGED, f"the object does not match its sum where={item.name}"
