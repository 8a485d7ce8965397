"""Letting go of pages that the place has, so that a client's folder stays within a bound.

A row that has a page becomes one that says which record to fetch it of, at the same LSN: no reader
sees a difference. Only the versions that the place has at the mapping are let go.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from pyroaring import BitMap

from siltstone.core.constants import MIB
from siltstone.volumes.local_commits import LocalCommits
from siltstone.volumes.partitions import Partitions, VolumePartition
from siltstone.volumes.records.commit_record import CommitRecord
from siltstone.volumes.records.keys import page_key
from siltstone.volumes.records.page_row import AVAILABLE, PAGE_BYTES, pending_row
from siltstone.volumes.records.state_rows import Mapping

_AT_A_TIME: Final = 1_000
"""Pages that are looked at with the lock of the volume held."""

_ROUND_BYTES_MIN: Final = 16 * MIB
_ROUND_SHARE: Final = 8
"""A round looks at every page that is here, so one follows only after an eighth of the bound."""


class Eviction:
    """Keeps the pages of one volume within a bound. Thread-safe.

    Args:
        local: the volume in the client's folder.
        partitions: of the folder.
        log: of the volume.
        bound: bytes of pages that the place has and that stay here; ``None`` for all.
    """

    def __init__(
        self, local: LocalCommits, partitions: Partitions, log: bytes, bound: int | None
    ) -> None:
        self._local = local
        self._partitions = partitions
        self._log = log
        self._bound = bound
        self._lock = threading.Lock()
        self._recent = BitMap()
        self._fetched_bytes = 0

    def note(self, indexes: Sequence[int]) -> None:
        """Note that pages were fetched; begin a round if it is time for one."""
        if self._bound is None:
            return
        with self._lock:
            self._recent.update(indexes)
            self._fetched_bytes += PAGE_BYTES * len(indexes)
            is_due = self._fetched_bytes >= max(_ROUND_BYTES_MIN, self._bound // _ROUND_SHARE)
        if is_due:
            self.evict(self._bound)

    def evict(self, keep: int) -> int:
        """Let go of pages until at most ``keep`` bytes of those that the place has are here.

        What was fetched last stays longest, and then what was pushed last. Ends early if a push, a
        pull or a reset comes. Returns how many pages were let go.
        """
        with self._lock:
            recent, self._recent, self._fetched_bytes = self._recent, BitMap(), 0
        mapping = self._local.rows.snapshot.mapping
        found = sources(
            [self._local.rows.record(self._log, lsn) for lsn in range(1, mapping.remote + 1)]
        )
        left = keep // PAGE_BYTES
        count = 0
        ordered = _in_order(found, recent)
        while some := list(islice(ordered, _AT_A_TIME)):
            done = self._let_go(some, mapping, left)
            if done is None:
                break
            left, gone = done
            count += gone
        return count

    def _let_go(
        self, pages: Sequence[tuple[int, int]], mapping: Mapping, left: int
    ) -> tuple[int, int] | None:
        """Of pages and the records that have them, let those go for which there is no room.

        Returns how many more may stay, and how many went; ``None`` if the mapping is another one.
        """
        with self._local.lock:
            self._local.check_there()
            if self._local.rows.snapshot.mapping != mapping:
                return None
            batch = self._partitions.batch()
            gone = 0
            volume = self._local.rows.volume
            for index, remote in pages:
                version = self._partitions.newest_page(volume, index, mapping.local)
                if version is None or version[1][0] != AVAILABLE:
                    continue
                if left:
                    left -= 1
                    continue
                key = page_key(volume, index, version[0])
                batch.put(VolumePartition.PAGES, key, pending_row(remote))
                gone += 1
            if gone:
                # Not synced: what is here again after a crash may be let go again.
                self._partitions.write(batch, synced=False)
            return left, gone


def sources(records: Sequence[CommitRecord]) -> list[tuple[int, BitMap]]:
    """Which record stored each page last. What became zeros since has a row that says so.

    Args:
        records: of a log from its first one on, in the order of their LSNs.

    Returns:
        Remote LSN and indexes, the newest record first.
    """
    found: list[tuple[int, BitMap]] = []
    seen = BitMap()
    for record in reversed(records):
        found.append((record.lsn, record.stored - seen))
        seen |= record.stored
    return found


def _in_order(found: Sequence[tuple[int, BitMap]], recent: BitMap) -> Iterator[tuple[int, int]]:
    """Index and remote LSN of each page: those that were fetched last, then the others."""
    for lsn, indexes in found:
        yield from ((index, lsn) for index in indexes & recent)
    for lsn, indexes in found:
        yield from ((index, lsn) for index in indexes - recent)
