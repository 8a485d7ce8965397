"""The lock that a holder keeps for life. It only tells others "in use"; the marker is the fence."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress

from siltstone.core.errors import StoreInUseError
from siltstone.core.posix import write_fully
from siltstone.tier1.file.folder import NOT_THERE, LogFolder, no_folder, read_at
from siltstone.tier1.file.names import LOCK

_ROUNDS_MAX = 100
_TEXT_BYTES_MAX = 4096


class InUseLock:
    """The lock file of one folder: locked by the holder, and holding its description.

    A takeover leaves the older holder's lock where it is and puts a new file in its place, so that
    later polite claims meet the new holder.
    """

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        self._calls = folder.calls
        self._path = folder.file(LOCK)
        self._fd = -1

    @property
    def is_held(self) -> bool:
        """Whether this object has the lock."""
        return self._fd >= 0

    def acquire(self, *, takeover: bool) -> None:
        """Take the lock if it is free; otherwise continue without it if ``takeover`` says so.

        Raises:
            StoreInUseError: a live holder has it.
            CorruptDataError: a folder is in its place.
        """
        for _ in range(_ROUNDS_MAX):
            with no_folder(self._path):
                fd = self._calls.open(self._path, os.O_RDWR | os.O_CREAT)
            kept = False
            try:
                if self._try(fd, fcntl.LOCK_EX):
                    kept = self._is_current(fd)
                    if kept:
                        self._fd = fd
                        return
                elif not self._try(fd, fcntl.LOCK_SH):
                    # Not only a process that looks, which takes a shared lock for a moment.
                    break
            finally:
                if not kept:
                    self._calls.close(fd)
        if not takeover:
            owner = self.description()
            raise StoreInUseError("the log is in use", owner=owner, path=self._folder.path)

    def publish(self, epoch: int, owner: str) -> None:
        """Describe the holder; after a takeover, also put a lock of its own in place.

        The text is for people, and the lock is a courtesy: the claim stands without them.
        """
        text = f"{epoch}\n{owner}\n".encode()
        with suppress(OSError):
            if self._fd < 0:
                self._replace(epoch)
            write_fully(self._calls, self._fd, [text], 0)
            self._calls.ftruncate(self._fd, len(text))

    def is_alive(self) -> bool:
        """Whether a live holder has the lock."""
        try:
            with self._folder.reading(LOCK) as fd:
                return not self._try(fd, fcntl.LOCK_SH)
        except NOT_THERE:
            return False

    def description(self) -> str:
        """What the holder, or the last one, said of itself; empty when none did."""
        try:
            with self._folder.reading(LOCK) as fd:
                text = bytes(read_at(self._calls, fd, 0, _TEXT_BYTES_MAX))
        except (*NOT_THERE, IsADirectoryError):
            return ""
        return text.decode("utf-8", "replace").partition("\n")[2].rstrip("\n")

    def is_usable(self) -> bool:
        """Whether a holder could take it, for all that its place says."""
        try:
            return not stat.S_ISDIR(self._calls.stat(self._path).st_mode)
        except NOT_THERE:
            return True

    def release(self) -> None:
        """Free the lock. Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._calls.close(fd)

    def _replace(self, epoch: int) -> None:
        path = self._folder.file(f"{LOCK}-{epoch}")
        fd = self._calls.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            self._calls.flock(fd, fcntl.LOCK_EX)
            self._calls.rename(path, self._path)
        except OSError:
            self._calls.close(fd)
            raise
        self._fd = fd

    def _try(self, fd: int, operation: int) -> bool:
        try:
            self._calls.flock(fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_current(self, fd: int) -> bool:
        try:
            there = self._calls.stat(self._path)
        except FileNotFoundError:
            return False
        mine = self._calls.fstat(fd)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)
