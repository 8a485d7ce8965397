"""Descriptors of the chunks that were read last, for reads that need no waiting.

The kernel copies what it has in memory, or says that it has not. File systems that can not tell,
such as an NFS mount, are asked once and never again.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import suppress
from typing import Final

from siltstone.core.posix import FileCalls

FILES_MAX: Final = 32
"""A chunk that somebody else deletes keeps its room for as long as it is among these."""


def version_of(status: os.stat_result) -> str:
    """What changes when a file is replaced or written to."""
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


class KeptFiles:
    """Thread-safe.

    Args:
        calls: the file calls.
    """

    def __init__(self, calls: FileCalls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._files: OrderedDict[str, int] = OrderedDict()
        self._is_able: bool | None = None

    def keep(self, name: str, fd: int) -> None:
        """Keep a chunk that was just read, by a descriptor of our own."""
        with self._lock:
            if self._is_able is None:
                self._is_able = self._can_tell(fd)
            if not self._is_able or name in self._files:
                return
            self._files[name] = os.dup(fd)
            if len(self._files) > FILES_MAX:
                _, oldest = self._files.popitem(last=False)
                self._close(oldest)

    def read(self, name: str, offset: int, buffer: memoryview) -> str | None:
        """See ``ReadNow``."""
        with self._lock:
            fd = self._files.get(name)
            if fd is None:
                return None
            try:
                count = self._calls.preadv_now(fd, [buffer], offset)
                status = self._calls.fstat(fd)
            except BlockingIOError:
                return None
            except OSError:
                self._end()
                return None
            if not status.st_nlink:
                del self._files[name]
                self._close(fd)
                return None
            self._files.move_to_end(name)
            return version_of(status) if count == len(buffer) else None

    def forget(self, name: str) -> None:
        """Let go of a chunk that is to be deleted."""
        with self._lock:
            fd = self._files.pop(name, None)
            if fd is not None:
                self._close(fd)

    def close(self) -> None:
        """Let go of all, for ever."""
        with self._lock:
            self._end()

    def _can_tell(self, fd: int) -> bool:
        try:
            self._calls.preadv_now(fd, [bytearray(1)], 0)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _end(self) -> None:
        self._is_able = False
        while self._files:
            self._close(self._files.popitem()[1])

    def _close(self, fd: int) -> None:
        # Nothing was written through it, so its closing tells nothing.
        with suppress(OSError):
            self._calls.close(fd)
