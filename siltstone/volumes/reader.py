"""Readers and writers of pages, each pinned to a snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex

from siltstone.core.closed_on_exit import Closing
from siltstone.core.constants import Buffer
from siltstone.core.errors import ClosedError
from siltstone.core.whole_number import whole_number
from siltstone.volumes.local_commits import LocalCommits
from siltstone.volumes.pages import PageReads, SlabsAhead
from siltstone.volumes.place_calls import Steps
from siltstone.volumes.records.keys import INDEX_MAX
from siltstone.volumes.records.page_row import PAGE_BYTES, ZEROS
from siltstone.volumes.records.state_rows import Snapshot

Runner = Callable[[Steps[bytes]], bytes]


class VolumeReader(Closing):
    """Reads the pages of a volume as they were when the reader was made. A context manager.

    Whatever is committed, pulled, pushed or fetched meanwhile, it reads the same. Not thread-safe.

    Attributes:
        snapshot: what it reads.
    """

    def __init__(self, local: LocalCommits, reads: PageReads, run: Runner) -> None:
        self._local = local
        self._reads = reads
        self._run = run
        self._ahead = SlabsAhead()
        self._closed = False
        self.snapshot: Snapshot = local.pin()

    @property
    def page_count(self) -> int:
        """How many pages the volume has; those never written are zeros."""
        return self.snapshot.pages

    def read(self, index: SupportsIndex) -> bytes:
        """Return the 4,096 bytes of a page; zeros if it was never written, or is beyond the end.

        Args:
            index: of the page, from 1 on.

        Raises:
            ValueError: no volume can have such a page.
            ChunkError: the page is only in the place, which did not answer.
            LostDataError: the place has its bundle no more.
            CorruptDataError: the bytes are not those that were pushed.
        """
        number = check_index(index)
        self._check_open()
        if number > self.snapshot.pages:
            return ZEROS
        found = self._reads.at_hand(number, self.snapshot.local)
        self._local.check_there()  # a row that was dropped meanwhile reads as zeros
        if isinstance(found, bytes):
            return found
        return self._run(self._reads.read(number, self.snapshot.local, self._ahead))

    def is_newest(self) -> bool:
        """Whether no commit, pull or reset came since the snapshot."""
        self._check_open()
        return self._local.rows.snapshot.local == self.snapshot.local

    def close(self) -> None:
        """Let go of the snapshot. Idempotent."""
        if not self._closed:
            self._closed = True
            self._local.unpin(self.snapshot)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("reader is closed", volume=self._local.rows.name)
        self._local.check_there()


class VolumeWriter(VolumeReader):
    """Writes pages, and reads what it wrote before it is committed. A context manager.

    It commits only if no other commit came since it was made. What it wrote is in memory until
    then. Leaving the context without ``commit`` drops it. Not thread-safe.
    """

    def __init__(self, local: LocalCommits, reads: PageReads, run: Runner) -> None:
        super().__init__(local, reads, run)
        self._written: dict[int, bytes] = {}
        self._pages = self.snapshot.pages
        self._kept = self._pages

    @property
    def page_count(self) -> int:
        """How many pages the volume has, with what was written."""
        return self._pages

    def read(self, index: SupportsIndex) -> bytes:
        """See ``VolumeReader.read``; with what was written here."""
        number = check_index(index)
        self._check_open()
        written = self._written.get(number)
        if written is not None:
            return written
        return super().read(number) if number <= self._kept else ZEROS

    def write(self, index: SupportsIndex, page: Buffer) -> None:
        """Write a page; the volume grows to have it.

        Args:
            index: of the page, from 1 on.
            page: 4,096 bytes.

        Raises:
            ValueError: no volume can have such a page, or it has another length.
        """
        number = check_index(index)
        self._check_open()
        content = bytes(memoryview(page))
        if len(content) != PAGE_BYTES:
            raise ValueError(f"a page has {PAGE_BYTES} bytes, not {len(content)}")
        self._written[number] = content
        self._pages = max(self._pages, number)

    def truncate(self, pages: SupportsIndex) -> None:
        """Let the volume have this many pages: cut the end off, or grow with pages of zeros.

        Raises:
            ValueError: no volume can have so many pages.
        """
        count = whole_number(pages, what="count of pages")
        if not 0 <= count <= INDEX_MAX:
            raise ValueError(f"a volume has 0 to {INDEX_MAX} pages, not {count}")
        self._check_open()
        for index in [index for index in self._written if index > count]:
            del self._written[index]
        self._kept = min(self._kept, count)
        self._pages = count

    def commit(self) -> Snapshot:
        """Commit what was written, all or nothing, and end. Returns the snapshot that has it.

        Without a change there is no commit.

        Raises:
            ConcurrentWriteError: another commit came since the writer was made; nothing is changed.
        """
        try:
            return self.commit_and_stay()
        finally:
            self.close()

    def commit_and_stay(self) -> Snapshot:
        """Commit as ``commit`` does, and go on reading and writing on the snapshot that has it."""
        self._check_open()
        base = self.snapshot
        if self._written or not self._pages == base.pages == self._kept:
            self.snapshot = self._local.commit(base, self._written, self._pages, self._kept)
        self.drop_changes()
        return self.snapshot

    def drop_changes(self) -> None:
        """Forget what was written since the snapshot."""
        self._written = {}
        self._pages = self._kept = self.snapshot.pages


def check_index(index: SupportsIndex) -> int:
    """Return the index of a page as an ``int``. Raises ``ValueError`` and ``TypeError``."""
    number = whole_number(index, what="index of a page")
    if not 1 <= number <= INDEX_MAX:
        raise ValueError(f"pages are numbered from 1 to {INDEX_MAX}, not {number}")
    return number
