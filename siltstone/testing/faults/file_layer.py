"""Layers between a component and the file system: what every call passes through in a test.

A layer takes ``FileCalls`` and is one, so layers stack. ``FileLayer`` counts and records calls and
fails the ones that a test picked; ``FullDisk`` has room for a number of bytes only.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from errno import ENOSYS, EOPNOTSUPP
from typing import TypeVar

from siltstone.core.chunk_storage import Buffer
from siltstone.core.posix import FileCalls, PathName, SystemFileCalls

T = TypeVar("T")

KINDS = (
    "open", "close", "pwritev", "preadv", "fdatasync", "fsync", "fstatvfs", "fstat", "stat",
    "ftruncate", "posix_fallocate", "fchmod", "flock", "scandir", "mkdir", "rmdir", "unlink",
    "link", "links", "identity", "rename", "write_out", "free_memory",
)  # fmt: skip
"""The names of all calls, as ``fail_call`` and ``calls`` know them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as it was made.

    Attributes:
        kind: one of ``KINDS``.
        target: the path as given, or the name that the descriptor was opened by.
    """

    kind: str
    target: str


class FileLayer:
    """Passes every call on to ``inner``; counts, records, and fails those that were picked.

    Thread-safe. ``before`` is called with each ``Call`` ahead of it, outside of any lock, so a test
    may pause a thread there.

    Attributes:
        calls: every call in order, until ``forget``.
        before: called ahead of each call; may raise ``OSError``.
    """

    def __init__(self, inner: FileCalls | None = None) -> None:
        self.inner: FileCalls = inner or SystemFileCalls()
        self.calls: list[Call] = []
        self.before: Callable[[Call], None] = lambda call: None
        self._guard = threading.RLock()
        self._counts: Counter[str] = Counter()
        self._failures: dict[tuple[str, int], tuple[int, bool]] = {}
        self._names: dict[int, str] = {}

    def fail_call(
        self, kind: str, number: int = 1, error: int = errno.EIO, *, applied: bool = False
    ) -> None:
        """Fail the ``number``-th call of ``kind`` from now on, 1 being the next.

        Args:
            kind: one of ``KINDS``.
            number: which call, counted from now.
            error: the errno.
            applied: whether the call has its effect anyway, as when a reply is lost.
        """
        assert kind in KINDS, kind
        with self._guard:
            self._failures[kind, self._counts[kind] + number] = (error, applied)

    def forget(self) -> None:
        """Forget the recorded calls and the failures that did not happen."""
        with self._guard:
            self.calls.clear()
            self._failures.clear()

    def targets(self, kind: str) -> list[str]:
        """What the calls of one kind were made on, in order."""
        with self._guard:
            return [call.target for call in self.calls if call.kind == kind]

    def _call(
        self, kind: str, on: PathName | int, action: Callable[[], T], *folders: int | None
    ) -> T:
        """Make one call; ``folders`` are the descriptors that paths are relative to."""
        call = Call(kind=kind, target=self._target(on))
        with self._guard:
            self._counts[kind] += 1
            self.calls.append(call)
            failure = self._failures.pop((kind, self._counts[kind]), None)
        self.before(call)
        if failure is None:
            return action()
        error, applied = failure
        if applied:
            action()
        elif kind in ("fsync", "fdatasync", "write_out") and isinstance(on, int):
            self.lose_unsynced(on)
        elif kind == "close" and isinstance(on, int):
            action()  # A descriptor is gone after close, whatever close answered.
        raise OSError(error, os.strerror(error))

    def lose_unsynced(self, fd: int) -> None:
        """A sync of ``fd`` failed: the kernel may have dropped what it could not write.

        The page cache calls those pages clean from then on, so a later sync succeeds without them.
        ``PowerCut`` models it; a layer above it passes it on.
        """
        if isinstance(self.inner, FileLayer):
            self.inner.lose_unsynced(fd)

    def _target(self, on: PathName | int) -> str:
        if isinstance(on, int):
            return self._names.get(on, str(on))
        return os.fsdecode(on)

    # --- the calls ---

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        """``FileCalls.open``."""

        def action() -> int:
            fd = self.inner.open(path, flags, mode, dir_fd=dir_fd)
            self._names[fd] = os.fsdecode(path)
            return fd

        return self._call("open", path, action, dir_fd)

    def open_below(self, path: PathName, flags: int, *, dir_fd: int) -> int:
        """No layer opens more than one part at a time, so that each is a call that it sees."""
        raise OSError(ENOSYS, os.strerror(ENOSYS))

    def close(self, fd: int) -> None:
        """``FileCalls.close``."""
        self._call("close", fd, lambda: self.inner.close(fd))

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """``FileCalls.pwritev``."""
        return self._call("pwritev", fd, lambda: self.inner.pwritev(fd, buffers, offset))

    def preadv(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        """``FileCalls.preadv``."""
        return self._call("preadv", fd, lambda: self.inner.preadv(fd, buffers, offset))

    def preadv_now(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        """No layer has anything in memory, so that every read is a call that it sees."""
        raise OSError(EOPNOTSUPP, os.strerror(EOPNOTSUPP))

    def fdatasync(self, fd: int) -> None:
        """``FileCalls.fdatasync``."""
        self._call("fdatasync", fd, lambda: self.inner.fdatasync(fd))

    def write_out(self, fd: int, offset: int, length: int) -> None:
        """``FileCalls.write_out``."""
        self._call("write_out", fd, lambda: self.inner.write_out(fd, offset, length))

    def free_memory(self, fd: int, offset: int, length: int) -> None:
        """``FileCalls.free_memory``."""
        self._call("free_memory", fd, lambda: self.inner.free_memory(fd, offset, length))

    def fsync(self, fd: int) -> None:
        """``FileCalls.fsync``."""
        self._call("fsync", fd, lambda: self.inner.fsync(fd))

    def fstatvfs(self, fd: int) -> os.statvfs_result:
        """``FileCalls.fstatvfs``."""
        return self._call("fstatvfs", fd, lambda: self.inner.fstatvfs(fd))

    def fstat(self, fd: int) -> os.stat_result:
        """``FileCalls.fstat``."""
        return self._call("fstat", fd, lambda: self.inner.fstat(fd))

    def links(self, fd: int) -> int:
        """``FileCalls.links``."""
        return self._call("links", fd, lambda: self.inner.links(fd))

    def identity(self, fd: int) -> tuple[int, ...] | None:
        """``FileCalls.identity``."""
        return self._call("identity", fd, lambda: self.inner.identity(fd))

    def stat(self, path: PathName, *, dir_fd: int | None = None) -> os.stat_result:
        """``FileCalls.stat``."""
        return self._call("stat", path, lambda: self.inner.stat(path, dir_fd=dir_fd), dir_fd)

    def ftruncate(self, fd: int, length: int) -> None:
        """``FileCalls.ftruncate``."""
        self._call("ftruncate", fd, lambda: self.inner.ftruncate(fd, length))

    def posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        """``FileCalls.posix_fallocate``."""
        self._call("posix_fallocate", fd, lambda: self.inner.posix_fallocate(fd, offset, length))

    def fchmod(self, fd: int, mode: int) -> None:
        """``FileCalls.fchmod``."""
        self._call("fchmod", fd, lambda: self.inner.fchmod(fd, mode))

    def flock(self, fd: int, operation: int) -> None:
        """``FileCalls.flock``."""
        self._call("flock", fd, lambda: self.inner.flock(fd, operation))

    def scandir(self, fd: int) -> Iterator[os.DirEntry[str]]:
        """``FileCalls.scandir``, all of it at once."""
        return iter(self._call("scandir", fd, lambda: list(self.inner.scandir(fd))))

    def mkdir(self, path: PathName, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """``FileCalls.mkdir``."""
        self._call("mkdir", path, lambda: self.inner.mkdir(path, mode, dir_fd=dir_fd), dir_fd)

    def rmdir(self, path: PathName, *, dir_fd: int | None = None) -> None:
        """``FileCalls.rmdir``."""
        self._call("rmdir", path, lambda: self.inner.rmdir(path, dir_fd=dir_fd), dir_fd)

    def unlink(self, path: PathName, *, dir_fd: int | None = None) -> None:
        """``FileCalls.unlink``."""
        self._call("unlink", path, lambda: self.inner.unlink(path, dir_fd=dir_fd), dir_fd)

    def link(
        self,
        source: PathName,
        target: PathName,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """``FileCalls.link``."""
        self._call(
            "link",
            target,
            lambda: self.inner.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd),
            src_dir_fd,
            dst_dir_fd,
        )

    def rename(
        self,
        source: PathName,
        target: PathName,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """``FileCalls.rename``."""
        self._call(
            "rename",
            target,
            lambda: self.inner.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd),
            src_dir_fd,
            dst_dir_fd,
        )


class FullDisk(FileLayer):
    """A disk with room for ``room`` more bytes: then ``ENOSPC``, after a short write if some fit.

    Overwriting takes no room; removing a file gives none back unless the test says so by ``room``.

    Attributes:
        room: bytes that still fit. With none left, new files and folders are refused as well.
    """

    def __init__(
        self, inner: FileCalls | None = None, *, room: int, error: int = errno.ENOSPC
    ) -> None:
        super().__init__(inner)
        self.room = room
        self._error = error

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Write as much as fits."""
        with self._guard:
            length = sum(len(buffer) for buffer in buffers)
            end = self.inner.fstat(fd).st_size
            fits = min(length, max(0, end - offset) + self.room)
            if length and not fits:
                self._refuse()
            if fits < length:
                joined = b"".join(buffers)
                buffers = [joined[:fits]]
            count = super().pwritev(fd, buffers, offset)
            self.room -= max(0, offset + count - max(end, offset))
            return count

    def posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        """Reserve all of it or nothing."""
        with self._guard:
            more = max(0, offset + length - self.inner.fstat(fd).st_size)
            if more > self.room:
                self._refuse()
            super().posix_fallocate(fd, offset, length)
            self.room -= more

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        """Refuse a new file when there is no room at all."""
        with self._guard:
            if flags & os.O_CREAT and self.room <= 0:
                self._refuse()
            return super().open(path, flags, mode, dir_fd=dir_fd)

    def mkdir(self, path: PathName, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """Refuse when there is no room at all."""
        with self._guard:
            if self.room <= 0:
                self._refuse()
            super().mkdir(path, mode, dir_fd=dir_fd)

    def _refuse(self) -> None:
        raise OSError(self._error, os.strerror(self._error))
