"""Reading pages of a volume: from the client's folder, and from the place what is only there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.core.errors import (
    ChunkNotFoundError,
    ChunkOffsetError,
    CorruptDataError,
    LostDataError,
)
from siltstone.volumes.local_commits import LocalCommits
from siltstone.volumes.object_names import bundle_name
from siltstone.volumes.partitions import Partitions, VolumePartition
from siltstone.volumes.place_calls import ReadRange, Steps
from siltstone.volumes.records.commit_record import CommitRecord
from siltstone.volumes.records.keys import read_page_key
from siltstone.volumes.records.page_row import (
    AVAILABLE,
    EMPTY,
    ZEROS,
    page_row,
    pending_row,
    remote_lsn_of,
)
from siltstone.volumes.slabs import place_of_page, read_slab, slab_indexes, slab_range

AHEAD_SLABS_MAX: Final = 8
"""2 MiB of pages: by then a request to a service far away takes as long as its bytes."""


class SlabsAhead:
    """How many slabs one request of a reader fetches: more and more while it reads them in order.

    One slab is as much as a random read may cost. A reader that comes to the next slab has read, or
    passed, the 64 pages of the one before.
    """

    def __init__(self) -> None:
        self._next = (0, 0)
        self._count = 1

    def count(self, remote: int, slab: int) -> int:
        """How many slabs to fetch, of which this one is needed.

        Args:
            remote: remote LSN of the record that has it.
            slab: its number in the bundle.
        """
        is_next = (remote, slab) == self._next
        self._count = min(2 * self._count, AHEAD_SLABS_MAX) if is_next else 1
        self._next = (remote, slab + self._count)
        return self._count


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReads:
    """Reads pages of one volume.

    Attributes:
        local: the volume in the client's folder.
        partitions: of the folder.
        volume: id of the volume.
        log: its log in the place.
        fetched: told of pages that were fetched.
    """

    local: LocalCommits
    partitions: Partitions
    volume: bytes
    log: bytes
    fetched: Callable[[Sequence[int]], None]

    def at_hand(self, index: int, lsn: int) -> bytes | int:
        """A page at a local LSN: its 4,096 bytes, or the remote LSN to fetch it of."""
        found = self.partitions.newest_page(self.volume, index, lsn)
        if found is None:
            return ZEROS
        row = found[1]
        if row[0] == AVAILABLE:
            return row[1:]
        return ZEROS if row[0] == EMPTY else remote_lsn_of(row)

    def read(self, index: int, lsn: int, ahead: SlabsAhead) -> Steps[bytes]:
        """Return a page at a local LSN; fetch the slab that has it if it is not here.

        Args:
            index: of the page.
            lsn: of the snapshot.
            ahead: says how many slabs after it are fetched in the same request.

        Raises:
            LostDataError: the place has no such bundle any more.
            CorruptDataError: the bytes there are not those that were pushed.
        """
        found = self.at_hand(index, lsn)
        if isinstance(found, bytes):
            return found
        record = self.local.rows.record(self.log, found)
        number, position = place_of_page(record, index)
        count = min(ahead.count(found, number), len(record.slabs) - number)
        slabs = yield from self.fetch_slabs(record, number, count)
        return slabs[0][position]

    def fetch_slabs(self, record: CommitRecord, first: int, count: int) -> Steps[list[list[bytes]]]:
        """Fetch the pages of neighbouring slabs, and keep those that a row here waits for."""
        name = bundle_name(record.log, record.bundle)
        offset, length = slab_range(record, first, count)
        try:
            data = yield ReadRange(name, offset, length)
        except ChunkNotFoundError as error:
            raise LostDataError(
                "bundle of a commit is gone", where=name, volume=self.local.rows.name
            ) from error
        except ChunkOffsetError as error:
            raise CorruptDataError(
                "bundle is cut", where=name, slab=first, length=error.expected
            ) from error
        slabs = []
        start = 0
        for number in range(first, first + count):
            end = start + record.slabs[number].length
            pages = read_slab(record, number, data[start:end], where=name)
            indexes = slab_indexes(record, number)
            self._keep(record.lsn, dict(zip(indexes, pages, strict=True)))
            self.fetched(indexes)
            slabs.append(pages)
            start = end
        return slabs

    def missing(self, lsn: int, pages: int) -> Iterator[tuple[CommitRecord, int]]:
        """Yield the slabs that have pages of a snapshot which are not here, each once.

        Args:
            lsn: of the snapshot.
            pages: how many it has.
        """
        seen: set[tuple[int, int]] = set()
        records: dict[int, CommitRecord] = {}
        for index in self.partitions.indexes_above(self.volume, 0, pages):
            found = self.at_hand(index, lsn)
            if isinstance(found, bytes):
                continue
            if found not in records:
                records[found] = self.local.rows.record(self.log, found)
            number, _ = place_of_page(records[found], index)
            if (found, number) not in seen:
                seen.add((found, number))
                yield records[found], number

    def _keep(self, remote: int, pages: dict[int, bytes]) -> None:
        """Replace the rows that wait for pages of a record; in the place of others they stay out.

        The batch is not synced: what is lost is fetched again.
        """
        with self.local.lock:
            batch = self.partitions.batch()
            waiting = pending_row(remote)
            for key in self.partitions.page_keys_with(self.volume, list(pages), waiting):
                page = pages[read_page_key(key)[0]]
                batch.put(VolumePartition.PAGES, key, page_row(page))
            self.partitions.write(batch, synced=False)


def neighbours(
    slabs: Iterable[tuple[CommitRecord, int]],
) -> list[tuple[CommitRecord, int, int]]:
    """Join slabs that lie next to each other in a bundle, at most ``AHEAD_SLABS_MAX`` together.

    Args:
        slabs: record and number of each, in any order.

    Returns:
        Record, number of the first, and how many.
    """
    joined: list[tuple[CommitRecord, int, int]] = []
    for record, number in sorted(slabs, key=lambda each: (each[0].lsn, each[1])):
        if joined:
            before, first, count = joined[-1]
            is_next = before.lsn == record.lsn and first + count == number
            if is_next and count < AHEAD_SLABS_MAX:
                joined[-1] = (record, first, count + 1)
                continue
        joined.append((record, number, 1))
    return joined
