"""A database of SQLite in a volume, as one connection sees it: a file of pages with locks.

SQLite locks the file before it reads and before it writes. The first lock pins a snapshot; the
second one takes the only place of a writer on this volume in the process. Everything that was
written becomes one commit when SQLite asks for a sync, where an error still rolls back cleanly.

Page 1 has a counter by which SQLite notices that another connection changed the file, at byte 24,
and once more at byte 92. In a volume it is zeros, and a reader gets the generation of its snapshot
in its place, which also goes up with pulls and resets. So equal counters of two clients mean
nothing, and a commit of SQLite finds the number that it expects.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import apsw

from siltstone.volumes.errors import ConcurrentWriteError
from siltstone.volumes.reader import VolumeReader, VolumeWriter
from siltstone.volumes.records.page_row import PAGE_BYTES
from siltstone.volumes.volume import Volume

_COUNTER: Final = slice(24, 28)
_PAGE_COUNT: Final = slice(28, 32)
_NO_COUNTER: Final = bytes(4)

Pragma = Callable[[Volume, str, str | None], str | None]


class DatabaseFile:
    """What SQLite calls, on the thread of the connection.

    Args:
        volume: has the pages.
        writes: held by the one connection of this process that may write.
        pragma: answers the pragmas of volumes.
        read_only: no lock for writing is given.
    """

    def __init__(
        self, volume: Volume, writes: threading.Lock, pragma: Pragma, *, read_only: bool
    ) -> None:
        self._volume = volume
        self._writes = writes
        self._pragma = pragma
        self._read_only = read_only
        self._level = apsw.SQLITE_LOCK_NONE
        self._pages: VolumeWriter | None = None
        self._first: bytes | None = None
        self._has_committed = False
        self._seen = (-1, b"")

    # --- bytes ------------------------------------------------------------------------------------

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - SQLite's name
        """Bytes of the pinned snapshot; fewer at the end of the file."""
        pages = self._pages
        if pages is None:  # A look at the header, before any lock.
            with self._volume.reader() as newest:
                return self._read(newest, amount, offset)
        return self._read(pages, amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        """Keep whole pages until the sync."""
        pages = self._writable()
        if offset % PAGE_BYTES or len(data) % PAGE_BYTES:
            raise apsw.IOError(f"write of {len(data)} bytes at {offset}: not whole pages")
        for start in range(0, len(data), PAGE_BYTES):
            index = (offset + start) // PAGE_BYTES + 1
            page = bytes(data[start : start + PAGE_BYTES])
            if index == 1:
                self._first = page
                page = _stored(page)
            pages.write(index, page)

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        """Cut the file off; a commit has done it already, by the count in the header."""
        count = -(-size // PAGE_BYTES)
        pages = self._writable()
        if pages.page_count != count:
            pages.truncate(count)

    def xFileSize(self) -> int:  # noqa: N802 - SQLite's name
        """Bytes of the pinned snapshot."""
        if self._pages is None:
            return self._volume.info().pages * PAGE_BYTES
        return self._pages.page_count * PAGE_BYTES

    def xSync(self, flags: int) -> bool:  # noqa: N802 - SQLite's name
        """Nothing: the commit came before, with the control that SQLite sends ahead."""
        return True

    # --- locks ------------------------------------------------------------------------------------

    def xLock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        """Pin the newest snapshot to read; be the one that writes."""
        if level <= self._level:
            return
        if self._pages is None:
            self._pages = self._volume.writer()
        if level >= apsw.SQLITE_LOCK_RESERVED > self._level:
            self._reserve(self._pages)
        self._level = level

    def xUnlock(self, level: int) -> None:  # noqa: N802 - SQLite's name
        """Let others write, and drop what was written and not synced; let go of the snapshot."""
        if level >= self._level:
            return
        if self._level >= apsw.SQLITE_LOCK_RESERVED:
            if self._pages is not None:
                self._pages.drop_changes()
            self._first = None
            self._has_committed = False
            self._writes.release()
        self._level = level
        if level == apsw.SQLITE_LOCK_NONE and self._pages is not None:
            pages, self._pages = self._pages, None
            pages.close()

    def xCheckReservedLock(self) -> bool:  # noqa: N802 - SQLite's name
        """Whether a connection of this process writes."""
        return self._writes.locked()

    # --- all else ---------------------------------------------------------------------------------

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802 - SQLite's name
        """Commit before a sync; answer pragmas."""
        if op == apsw.SQLITE_FCNTL_SYNC:
            self._commit()
            return True
        if op == apsw.SQLITE_FCNTL_PRAGMA:
            asked = apsw.VFSFcntlPragma(ptr)
            answer = self._pragma(self._volume, asked.name, asked.value)
            if answer is None:
                return False
            asked.result = answer
            return True
        return False

    def xSectorSize(self) -> int:  # noqa: N802 - SQLite's name
        """Bytes that are written together."""
        return PAGE_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802 - SQLite's name
        """A commit is whole or absent, and touches no other page."""
        return apsw.SQLITE_IOCAP_ATOMIC4K | apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xClose(self) -> None:  # noqa: N802 - SQLite's name
        """Let go of everything."""
        self.xUnlock(apsw.SQLITE_LOCK_NONE)

    # --- inside -----------------------------------------------------------------------------------

    def _read(self, pages: VolumeReader, amount: int, offset: int) -> bytes:
        index, start = offset // PAGE_BYTES + 1, offset % PAGE_BYTES
        parts = []
        while amount > 0 and index <= pages.page_count:
            part = self._page(pages, index)[start : start + amount]
            parts.append(part)
            amount -= len(part)
            index, start = index + 1, 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _page(self, pages: VolumeReader, index: int) -> bytes:
        if index != 1:
            return pages.read(index)
        if self._first is not None:
            return _shown(pages.read(1), pages.snapshot.generation)
        # Every lock looks at it, and at one LSN it is always the same.
        local, page = self._seen
        if local != pages.snapshot.local:
            local = pages.snapshot.local
            page = _shown(pages.read(1), pages.snapshot.generation)
            self._seen = (local, page)
        return page

    def _writable(self) -> VolumeWriter:
        if self._pages is None or self._level < apsw.SQLITE_LOCK_RESERVED:
            raise apsw.IOError("a write without a lock")
        return self._pages

    def _reserve(self, pages: VolumeWriter) -> None:
        if self._read_only:
            raise apsw.ReadOnlyError("database was opened to be read")
        if not self._writes.acquire(blocking=False):
            raise apsw.BusyError("another connection of this process writes")
        if not pages.is_newest():
            self._writes.release()
            raise apsw.BusyError("the volume changed since this transaction began to read")

    def _commit(self) -> None:
        """Commit what was written; not what a rollback wrote back of a transaction that spilled."""
        pages = self._pages
        if pages is None or self._level < apsw.SQLITE_LOCK_RESERVED:
            return
        first = self._first
        if first is not None:
            if not self._has_committed and first[_COUNTER] == _counter(pages.snapshot.generation):
                pages.drop_changes()  # The counter is that of the snapshot: nothing was changed.
                self._first = None
                return
            pages.truncate(int.from_bytes(first[_PAGE_COUNT], "big"))
        try:
            pages.commit_and_stay()
        except ConcurrentWriteError as error:
            raise apsw.BusyError(str(error)) from error
        self._first = None
        self._has_committed = True


def _counter(generation: int) -> bytes:
    return (generation % 2**32).to_bytes(4, "big")


def _stored(page: bytes) -> bytes:
    """Page 1 without its counter."""
    return page[:24] + _NO_COUNTER + page[28:92] + _NO_COUNTER + page[96:]


def _shown(page: bytes, generation: int) -> bytes:
    """Page 1 with the counter of a snapshot."""
    counter = _counter(generation)
    return page[:24] + counter + page[28:92] + counter + page[96:]
