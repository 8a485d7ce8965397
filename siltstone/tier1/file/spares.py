"""Files that frames will go to later: made, and written with zeros, before anybody waits for them.

A block that was only preallocated is marked as written by its first write. A sync of the file then
waits for the file system's journal, hence for whatever others change on the same disk. In a file
whose zeros were written, the sync of a frame has its own bytes to write and no more. A file that
was truncated from the log is written with zeros again: its blocks are there already, and its pages
are in memory.

A file gets the name of a log file only when all of it is zeros, durably. Until then one that was
used before has a name that nobody reads.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Final

from siltstone.core.errors import StorageFullError
from siltstone.core.posix import write_fully
from siltstone.core.words import KIB
from siltstone.tier1.file.errors import FULL
from siltstone.tier1.file.folder import LogFolder, OpenFile
from siltstone.tier1.file.names import FileKey

IN_PLACE: Final = frozenset({0xEF53, 0x58465342})
"""``f_type`` of ext2 to ext4 and XFS: a written block stays where it is when it is written again.

Where each write goes to a new place, zeros would use up the room that was reserved.
"""

KEPT_MAX: Final = 4
"""Files that may lie ready or wait to be used again; more are unlinked when they are truncated."""

SLICE_BYTES: Final = 512 * KIB
"""Zeros that are written at a time. The sync of a frame may have to wait for so many."""

_ZEROS: Final = memoryview(bytes(SLICE_BYTES))


@dataclass(slots=True)
class _Spare:
    """A file that was never used, by its name; ``filled``: so many bytes of it are written."""

    file: OpenFile
    filled: int


@dataclass(slots=True)
class _Renewal:
    """A truncated file that is written with zeros; ``filled``: so many bytes of it already."""

    key: FileKey
    fd: int
    filled: int


class Spares:
    """The spare files of one epoch, in the order of their use. Thread-safe.

    Every method but ``close`` raises ``OSError`` besides what it says; whoever meets that must not
    use the files again.

    Args:
        folder: of the log.
        newest: the newest file that the epoch has.
        file_bytes: size of each.
        fills: whether zeros are written; otherwise files are only preallocated.
    """

    def __init__(self, folder: LogFolder, newest: FileKey, file_bytes: int, *, fills: bool) -> None:
        self._folder = folder
        self._newest = newest
        self._file_bytes = file_bytes
        self._fills = fills
        self._changed = threading.Condition()
        self._spares: list[_Spare] = []
        self._old: list[FileKey] = []
        self._renewal: _Renewal | None = None
        self._busy_fd = -1
        self._closed = False

    def __len__(self) -> int:
        """How many files ``take`` would give."""
        return len(self._spares)

    @property
    def is_ready(self) -> bool:
        """Whether the next file is written with zeros in full."""
        return bool(self._spares) and self._spares[0].filled == self._file_bytes

    def have(self, count: int, *, must: bool) -> None:
        """Have ``count`` files, or as many as fit unless there ``must`` be all of them.

        Raises:
            StorageFullError: there must be, and there is no room.
        """
        with self._changed:
            while len(self._spares) < count and not self._closed:
                try:
                    self._spares.append(_Spare(self._create(), 0))
                except StorageFullError:
                    if must:
                        raise
                    return

    def take(self) -> tuple[OpenFile, bool]:
        """Give the oldest file away, and whether it is as quick as one gets. There must be one."""
        with self._changed:
            while self._busy_fd == self._spares[0].file.fd:
                self._changed.wait()
            spare = self._spares.pop(0)
            return spare.file, spare.filled == self._file_bytes or not self._fills

    def keep(self, key: FileKey) -> bool:
        """Take a file out of the log, to be used again; return False if it is better unlinked.

        There are enough of them, or the disk has no room for another name.
        The log is without it, durably, as if it had been unlinked.
        """
        with self._changed:
            count = len(self._spares) + len(self._old) + (self._renewal is not None)
            if self._closed or not self._fills or count >= KEPT_MAX:
                return False
            if not self._renamed(key.name, key.old_name):
                return False
            self._old.append(key)
            return True

    def work(self) -> int:
        """Write and sync some zeros; return how many.

        Only one thread may do so at a time.
        """
        with self._changed:
            if self._closed or not self._fills:
                return 0
            part: _Spare | _Renewal | None = next(
                (spare for spare in self._spares if spare.filled < self._file_bytes), None
            )
            part = part or self._renewal or self._next_renewal()
            if part is None:
                return 0
            fd = part.fd if isinstance(part, _Renewal) else part.file.fd
            self._busy_fd = fd
        try:
            length = min(SLICE_BYTES, self._file_bytes - part.filled)
            write_fully(self._folder.calls, fd, [_ZEROS[:length]], part.filled)
            self._folder.calls.fdatasync(fd)
        finally:
            with self._changed:
                self._busy_fd = -1
                self._changed.notify_all()
        with self._changed:
            part.filled += length
            if part is self._renewal and part.filled == self._file_bytes:
                self._renewed(part)
        return length

    def close(self) -> None:
        """Close all descriptors. Idempotent."""
        with self._changed:
            self._closed = True
            while self._busy_fd >= 0:
                self._changed.wait()
            fds = [spare.file.fd for spare in self._spares]
            fds += [] if self._renewal is None else [self._renewal.fd]
            self._spares, self._renewal = [], None
        for fd in fds:
            self._folder.calls.close(fd)

    # --- with the lock held ---

    def _create(self) -> OpenFile:
        key = FileKey(self._newest.epoch, self._newest.number + 1)
        try:
            file = self._folder.create(key, self._file_bytes)
        except StorageFullError:
            if not self._drop_old():
                raise
            file = self._folder.create(key, self._file_bytes)
        self._newest = key
        return file

    def _drop_old(self) -> bool:
        """Unlink what only waits to be used again; return whether there was any."""
        while self._renewal is not None and self._busy_fd == self._renewal.fd:
            self._changed.wait()
        keys = self._old
        if self._renewal is not None:
            self._folder.calls.close(self._renewal.fd)
            keys = [self._renewal.key, *keys]
        self._old, self._renewal = [], None
        for key in keys:
            self._folder.calls.unlink(self._folder.file(key.old_name))
        return bool(keys)

    def _next_renewal(self) -> _Renewal | None:
        """Open the next truncated file, if there is one."""
        calls = self._folder.calls
        while self._old:
            key = self._old.pop(0)
            path = self._folder.file(key.old_name)
            fd = calls.open(path, os.O_RDWR)
            if calls.fstat(fd).st_size == self._file_bytes:
                self._renewal = _Renewal(key, fd, 0)
                return self._renewal
            calls.close(fd)  # It was made larger, for the copy of a large frame.
            calls.unlink(path)
        return None

    def _renewed(self, renewal: _Renewal) -> None:
        """All of it is zeros, durably: give it the name of the next file."""
        key = FileKey(self._newest.epoch, self._newest.number + 1)
        if not self._renamed(renewal.key.old_name, key.name):
            self._drop_old()
            return
        self._newest, self._renewal = key, None
        file = OpenFile(key, renewal.fd, self._file_bytes)
        self._spares.append(_Spare(file, self._file_bytes))

    def _renamed(self, old: str, new: str) -> bool:
        """Rename a file durably, unless the disk is so full that the new name has no room."""
        folder = self._folder
        try:
            folder.calls.rename(folder.file(old), folder.file(new))
        except OSError as error:
            if error.errno not in FULL:
                raise
            return False
        folder.sync()
        return True
