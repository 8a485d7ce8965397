"""Descriptors of the chunks that were read last, for reads that need no waiting.

The kernel copies what it has in memory, or says that it has not. File systems that cannot tell,
such as an NFS mount, are asked once and never again.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Final

from siltstone.core.open_files import files_max, may_give_back
from siltstone.core.posix import FileCalls

FILES_MAX: Final = 32
"""A chunk that another process deletes keeps its room for as long as it is among these."""

_SHARE: Final = 8
"""Of the files that this process may have open, an eighth at most is only kept."""


def version_of(status: os.stat_result) -> str:
    """What changes when a file is replaced or written to."""
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


class _KeptFile:
    """A descriptor of our own, closed with the last reference: a read on its way holds one.

    Attributes:
        fd: the descriptor.
        links: how many names the file had; one less tells that the chunk may be gone.
        seen: time and length that the file had last, and the version that they make.
        used: whether it was read since it was last passed over.
    """

    __slots__ = ("_calls", "fd", "links", "seen", "used")

    def __init__(self, calls: FileCalls, fd: int, links: int) -> None:
        self._calls = calls
        self.fd = fd
        self.links = links
        self.seen = (-1, -1, "")
        self.used = False

    def __del__(self) -> None:
        # Nothing was written through it, so its closing tells nothing.
        with suppress(OSError):
            self._calls.close(self.fd)

    def see(self, status: os.stat_result) -> str:
        """Note ``version_of`` for as long as time and length stay, and return it."""
        version = version_of(status)
        self.seen = (status.st_mtime_ns, status.st_size, version)
        return version


class KeptFiles:
    """Thread-safe; reads take no lock, so any number of threads read at a time.

    Args:
        calls: the file calls.
    """

    def __init__(self, calls: FileCalls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._files: dict[str, _KeptFile] = {}
        self._is_able: bool | None = None
        limit = files_max()
        self._files_max = FILES_MAX if limit is None else max(1, min(FILES_MAX, limit // _SHARE))
        may_give_back(self)

    def keep(self, name: str, fd: int, links: int) -> None:
        """Keep a chunk that was just read, by a descriptor of our own if there is one for it.

        One that was deleted since is not kept; a deletion that comes later lets go of it.

        Args:
            name: of the chunk.
            fd: a descriptor of it.
            links: how many names the file had when it was opened.
        """
        if name in self._files:
            return
        with self._lock:
            if self._is_able is None:
                self._is_able = self._can_tell(fd)
            if not self._is_able or name in self._files:
                return
            # The bytes were read: that none is left for the next read is no failure of this one.
            with suppress(OSError):
                if self._calls.fstat(fd).st_nlink != links:
                    return
                if len(self._files) >= self._files_max:
                    self._pass_over()
                self._files[name] = _KeptFile(self._calls, os.dup(fd), links)

    def read(self, name: str, offset: int, buffer: memoryview | bytearray) -> str | None:
        """See ``ReadNow``."""
        file = self._files.get(name)
        if file is None:
            return None
        try:
            count = self._calls.preadv_now(file.fd, [buffer], offset)
            status = self._calls.fstat(file.fd)
        except BlockingIOError:
            return None
        except OSError:
            self.close()
            return None
        if status.st_nlink != file.links or not file.links:
            # A draft that a dead writer left may be the last name of a chunk that was deleted.
            self.forget(name)
            return None
        file.used = True
        if count != len(buffer):
            return None
        modified_ns, length, version = file.seen
        if status.st_mtime_ns == modified_ns and status.st_size == length:
            return version
        return file.see(status)

    def forget(self, name: str) -> None:
        """Let go of a chunk that is to be deleted."""
        with self._lock:
            self._files.pop(name, None)

    def give_back(self) -> None:
        """Let go of all, for now: see ``open_files``."""
        with self._lock:
            self._files.clear()

    def close(self) -> None:
        """Let go of all, for ever."""
        with self._lock:
            self._is_able = False
            self._files.clear()

    def _can_tell(self, fd: int) -> bool:
        try:
            self._calls.preadv_now(fd, [bytearray(1)], 0)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _pass_over(self) -> None:
        """Let go of the oldest that was not read since it was the oldest before."""
        while True:
            name, file = next(iter(self._files.items()))
            del self._files[name]
            if not file.used:
                return
            file.used = False
            self._files[name] = file
