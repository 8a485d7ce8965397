"""Files that frames will go to later: made, and written with zeros, before a call waits for them.

A block that was only preallocated is marked as written by its first write. A sync of the file then
waits for the file system's journal, hence for whatever others change on the same disk. In a file
whose zeros were written, the sync of a frame has its own bytes to write and no more. A file that
was truncated from the log is written with zeros again: its blocks are there already, and its pages
are in memory.

How large they are, and whether zeros are written at all, ``Growth`` says.

A file gets the name of a log file only when all of it is zeros, durably. Until then one that was
used before has a name that nothing reads.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Final

from siltstone.core.constants import KIB
from siltstone.core.errors import StorageFullError
from siltstone.core.open_files import LACK
from siltstone.core.posix import write_fully
from siltstone.tier1.file.errors import FULL
from siltstone.tier1.file.folder import LogFolder, OpenFile
from siltstone.tier1.file.growth import Growth
from siltstone.tier1.file.names import FileKey

IN_PLACE: Final = frozenset({0xEF53, 0x58465342})
"""``f_type`` of ext2 to ext4 and XFS: a written block stays where it is when it is written again.

Where each write goes to a new place, zeros would use up the room that was reserved.
"""

KEPT_MAX: Final = 4
"""Files that may lie ready or wait to be used again; more are unlinked when they are truncated."""

SLICE_BYTES: Final = 512 * KIB
"""Zeros that are written at a time. The sync of a frame may have to wait for this many."""

_ZEROS: Final = memoryview(bytes(SLICE_BYTES))


@dataclass(slots=True)
class _Spare:
    """A file that was never used, by its name; ``filled``: how many bytes of it are written."""

    file: OpenFile
    filled: int

    @property
    def is_ready(self) -> bool:
        return self.filled == self.file.size


@dataclass(slots=True)
class _Renewal:
    """A truncated file that is written with zeros; ``filled``: how many bytes of it already."""

    file: OpenFile
    filled: int


class Spares:
    """The spare files of one epoch, in the order of their use. Thread-safe.

    Every method but ``close`` raises ``OSError`` besides what it says; after that error the files
    must not be used again.

    Args:
        folder: of the log.
        newest: the newest file that the epoch has.
        growth: the size of each.
        fills: whether zeros are written; otherwise files are only preallocated.
    """

    def __init__(self, folder: LogFolder, newest: OpenFile, growth: Growth, *, fills: bool) -> None:
        self._folder = folder
        self._newest = newest.key
        self._newest_bytes = newest.size
        self._growth = growth
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
        return bool(self._spares) and self._spares[0].is_ready

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

    def fit(self, size: int) -> None:
        """Make the oldest file larger if it has less than ``size`` bytes. There must be one.

        Raises:
            StorageFullError: there is no room for that; nothing changed.
        """
        with self._changed:
            spare = self._spares[0]
            if spare.file.size < size:
                self._wait_for(spare.file)
                spare.file = self._enlarged(spare.file, size)

    def take(self) -> tuple[OpenFile, bool]:
        """Give the oldest file away, and whether it is as quick as one gets. There must be one."""
        with self._changed:
            self._wait_for(self._spares[0].file)
            spare = self._spares.pop(0)
            return spare.file, spare.is_ready or not self._fills

    def keep(self, key: FileKey) -> bool:
        """Take a file out of the log, to be used again; return False if it is better unlinked.

        There are enough of them, it has another size than the next one, the disk has no room for
        another name, or there is no descriptor. The log is without it, durably, as if it had been
        unlinked.
        """
        with self._changed:
            count = len(self._spares) + len(self._old) + (self._renewal is not None)
            if self._closed or not self._fills or count >= KEPT_MAX:
                return False
            if self._folder.size(key) != self._growth.next_bytes(self._newest_bytes):
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
                (spare for spare in self._spares if not spare.is_ready), None
            )
            part = part or self._renewal or self._next_renewal()
            if part is None or not self._growth.is_worth_zeros(part.file.size):
                return 0
            self._busy_fd = fd = part.file.fd
        try:
            length = min(SLICE_BYTES, part.file.size - part.filled)
            write_fully(self._folder.calls, fd, [_ZEROS[:length]], part.filled)
            self._folder.calls.fdatasync(fd)
        finally:
            with self._changed:
                self._busy_fd = -1
                self._changed.notify_all()
        with self._changed:
            part.filled += length
            if part is self._renewal and part.filled == part.file.size:
                self._renewed(part)
        return length

    def leave(self) -> None:
        """Leave one small file for the next owner, room for a claim, and unlink the rest.

        Call it when no frame of the epoch will follow; nothing is made or kept afterwards.
        """
        with self._changed:
            self._closed = True
            self._drop_old()
            while len(self._spares) > 1:
                self._wait_for(self._spares[-1].file)
                # The last one first: a death in between leaves no gap.
                file = self._spares.pop().file
                self._folder.calls.close(file.fd)
                self._folder.unlink(file.key)
            for spare in self._spares:
                self._wait_for(spare.file)
                size = self._growth.reserve_bytes()
                if size < spare.file.size:
                    self._folder.calls.ftruncate(spare.file.fd, size)

    def close(self) -> None:
        """Close all descriptors. Idempotent."""
        with self._changed:
            self._closed = True
            while self._busy_fd >= 0:
                self._changed.wait()
            fds = [spare.file.fd for spare in self._spares]
            fds += [] if self._renewal is None else [self._renewal.file.fd]
            self._spares, self._renewal = [], None
        for fd in fds:
            self._folder.calls.close(fd)

    # --- with the lock held ---

    def _create(self) -> OpenFile:
        key = FileKey(self._newest.epoch, self._newest.number + 1)
        size = self._growth.next_bytes(self._newest_bytes)
        try:
            file = self._folder.create(key, size)
        except StorageFullError:
            if not self._drop_old():
                raise
            file = self._folder.create(key, size)
        self._newest, self._newest_bytes = key, size
        return file

    def _enlarged(self, file: OpenFile, size: int) -> OpenFile:
        """The next file with room for a large frame."""
        try:
            larger = self._folder.enlarge(file, size)
        except StorageFullError:
            if not self._drop_old():
                raise
            larger = self._folder.enlarge(file, size)
        if file.key == self._newest:
            self._newest_bytes = larger.size
        return larger

    def _wait_for(self, file: OpenFile) -> None:
        while self._busy_fd == file.fd:
            self._changed.wait()

    def _drop_old(self) -> bool:
        """Unlink what only waits to be used again; return whether there was any."""
        while self._renewal is not None and self._busy_fd == self._renewal.file.fd:
            self._changed.wait()  # It may be another state afterwards.
        keys = self._old
        if self._renewal is not None:
            self._folder.calls.close(self._renewal.file.fd)
            keys = [self._renewal.file.key, *keys]
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
            try:
                fd = calls.open(path, os.O_RDWR)
            except OSError as error:
                if error.errno not in LACK:
                    raise
                self._old.insert(0, key)
                return None  # It can wait.
            file = OpenFile(key, fd, calls.fstat(fd).st_size)
            if file.size == self._growth.next_bytes(self._newest_bytes):
                self._renewal = _Renewal(file, 0)
                return self._renewal
            calls.close(fd)  # Files of another size are made by now.
            calls.unlink(path)
        return None

    def _renewed(self, renewal: _Renewal) -> None:
        """All of it is zeros, durably: give it the name of the next file."""
        key = FileKey(self._newest.epoch, self._newest.number + 1)
        if not self._renamed(renewal.file.key.old_name, key.name):
            self._drop_old()
            return
        file = renewal.file._replace(key=key)
        self._newest, self._newest_bytes, self._renewal = key, file.size, None
        self._spares.append(_Spare(file, file.size))

    def _renamed(self, old: str, new: str) -> bool:
        """Rename a file durably, unless there is no room for the name, or no descriptor."""
        folder = self._folder
        try:
            with folder.changing():
                folder.calls.rename(folder.file(old), folder.file(new))
        except OSError as error:
            if error.errno not in FULL | LACK:
                raise
            return False
        return True
