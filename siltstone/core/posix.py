"""The few file calls that Siltstone makes, in one seam, and the loops that every caller needs.

The NFS binding and the file log reach the operating system only through ``FileCalls``, so that a
test can inject a power cut, a full disk or a failing call (``siltstone.testing``). Methods are the
functions of ``os`` of the same name and raise ``OSError`` as they do. Nothing else may live here.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from errno import EINVAL, EIO, ENOSYS, EOPNOTSUPP, ESPIPE
from typing import Protocol

from siltstone.core.chunk_storage import Buffer
from siltstone.core.open_files import with_descriptor

_WAIT_BEFORE_AND_WRITE = 3
"""Flags of ``sync_file_range``."""

_NOT_THERE = frozenset({EINVAL, ENOSYS, EOPNOTSUPP, ESPIPE})
"""What is answered where there is no such call: then the sync does it all."""

_libc = ctypes.CDLL(None, use_errno=True)
_sync_file_range = _libc.sync_file_range
_sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


_statx = _libc.statx
_statx.argtypes = (
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.c_void_p,
)

_GET_GENERATION = 0x80087601
"""``FS_IOC_GETVERSION``."""

_AT_EMPTY_PATH = 0x1000
_STATX_NLINK = 0x04


class _StatxAnswer(threading.local):
    """Where a thread gets the answers of ``statx``; ``words[4]`` is the count of links."""

    def __init__(self) -> None:
        self.words = (ctypes.c_uint32 * 64)()
        self.place = ctypes.addressof(self.words)


_statx_answer = _StatxAnswer()


class _OpenHow(ctypes.Structure):
    """What ``openat2`` is asked for."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_OPENAT2 = 437
"""The number of the call, on every architecture that Linux has it on."""

_RESOLVE_NO_SYMLINKS = 0x04
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.POINTER(_OpenHow),
    ctypes.c_size_t,
)

PathName = str | bytes
"""A path, or one name below ``dir_fd``."""

IOV_MAX = min(os.sysconf("SC_IOV_MAX"), 1024)
"""Most buffers of one vectored call; the kernel refuses more."""


class FileCalls(Protocol):
    """What is asked of a file system. Every method is thread-safe."""

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        """Open a file or folder; the descriptor is not inherited by child processes."""
        ...

    def open_below(self, path: PathName, flags: int, *, dir_fd: int) -> int:
        """Open a path of several parts below a folder, in one call and through no symbolic link.

        ``OSError`` with ``ENOSYS`` where there is no such call.
        """
        ...

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        ...

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Write at ``offset``, at most ``IOV_MAX`` buffers; may write less than it was given."""
        ...

    def preadv(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        """Read from ``offset``; may read less; 0 only at the end."""
        ...

    def preadv_now(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        """Read what is in memory; ``BlockingIOError`` if nothing of it is.

        Any other ``OSError`` where that cannot be told.
        """
        ...

    def fdatasync(self, fd: int) -> None:
        """Make content and length of a file durable."""
        ...

    def write_out(self, fd: int, offset: int, length: int) -> None:
        """Wait for those of these bytes that are on their way to the disk, then send the rest.

        Nothing is durable by it.
        """
        ...

    def free_memory(self, fd: int, offset: int, length: int) -> None:
        """Free the memory that holds these bytes, as far as they are no longer on their way.

        What was not written yet stays. A hint: a failure means nothing.
        """
        ...

    def fsync(self, fd: int) -> None:
        """Make a file with its attributes, or the entries of a folder, durable."""
        ...

    def fstatvfs(self, fd: int) -> os.statvfs_result:
        """Sizes of the file system of an open file."""
        ...

    def fstat(self, fd: int) -> os.stat_result:
        """Attributes of an open file."""
        ...

    def links(self, fd: int) -> int:
        """How many names an open file has; 0 if it was removed or replaced.

        Not by ``fstat``: once times were asked for, the next write notes the time in the journal of
        the file system (multigrain timestamps, from Linux 6.13 on), and takes a third longer.
        """
        ...

    def identity(self, fd: int) -> tuple[int, ...] | None:
        """What tells an open file or folder from every other that is or was there.

        Device, number, and generation: a number is used again when its file is gone, a generation
        is not. ``None`` where the file system tells no generation, such as NFS.
        """
        ...

    def stat(self, path: PathName, *, dir_fd: int | None = None) -> os.stat_result:
        """Attributes of a path; a symbolic link in its last part is not followed."""
        ...

    def ftruncate(self, fd: int, length: int) -> None:
        """Set the length of a file."""
        ...

    def posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        """Reserve room, and make the file long enough to hold it."""
        ...

    def fchmod(self, fd: int, mode: int) -> None:
        """Set the mode bits of an open file."""
        ...

    def flock(self, fd: int, operation: int) -> None:
        """Take or free an advisory lock (``fcntl.LOCK_*``)."""
        ...

    def scandir(self, fd: int) -> Iterator[os.DirEntry[str]]:
        """Yield the entries of an open folder, in no order. The descriptor stays open."""
        ...

    def mkdir(self, path: PathName, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """Make a folder."""
        ...

    def rmdir(self, path: PathName, *, dir_fd: int | None = None) -> None:
        """Remove an empty folder."""
        ...

    def unlink(self, path: PathName, *, dir_fd: int | None = None) -> None:
        """Remove a name."""
        ...

    def link(
        self,
        source: PathName,
        target: PathName,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """Give a file a second name, which must be free."""
        ...

    def rename(
        self,
        source: PathName,
        target: PathName,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """Move a name, replacing what ``target`` named."""
        ...


class SystemFileCalls:
    """The operating system's own calls.

    A call that opens something is repeated if the process had no descriptor left for it, and what
    was kept open to save time has been given back (``open_files``).
    """

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        """``os.open``."""
        return with_descriptor(lambda: os.open(path, flags, mode, dir_fd=dir_fd))

    def open_below(self, path: PathName, flags: int, *, dir_fd: int) -> int:
        """``openat2`` of Linux, which ``os`` lacks; it says EINTR itself."""
        return with_descriptor(lambda: self._open_below(path, flags, dir_fd))

    def _open_below(self, path: PathName, flags: int, dir_fd: int) -> int:
        how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS)
        fd = _syscall(_OPENAT2, dir_fd, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return int(fd)

    def close(self, fd: int) -> None:
        """``os.close``."""
        os.close(fd)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """``os.pwritev``."""
        return os.pwritev(fd, buffers, offset)

    def preadv(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        """``os.preadv``."""
        return os.preadv(fd, buffers, offset)

    def preadv_now(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        """``os.preadv`` with ``RWF_NOWAIT``."""
        return os.preadv(fd, buffers, offset, os.RWF_NOWAIT)

    def fdatasync(self, fd: int) -> None:
        """``os.fdatasync``."""
        os.fdatasync(fd)

    def write_out(self, fd: int, offset: int, length: int) -> None:
        """``sync_file_range``."""
        if _sync_file_range(fd, offset, length, _WAIT_BEFORE_AND_WRITE) != 0:
            number = ctypes.get_errno()
            if number not in _NOT_THERE:
                raise OSError(number, os.strerror(number))

    def free_memory(self, fd: int, offset: int, length: int) -> None:
        """``os.posix_fadvise``."""
        os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)

    def fsync(self, fd: int) -> None:
        """``os.fsync``."""
        os.fsync(fd)

    def fstatvfs(self, fd: int) -> os.statvfs_result:
        """``os.fstatvfs``."""
        return os.fstatvfs(fd)

    def fstat(self, fd: int) -> os.stat_result:
        """``os.fstat``."""
        return os.fstat(fd)

    def links(self, fd: int) -> int:
        """``statx`` of this alone."""
        if _statx(fd, b"", _AT_EMPTY_PATH, _STATX_NLINK, _statx_answer.place) != 0:
            number = ctypes.get_errno()
            if number not in _NOT_THERE:
                raise OSError(number, os.strerror(number))
            return os.fstat(fd).st_nlink
        return _statx_answer.words[4]

    def identity(self, fd: int) -> tuple[int, ...] | None:
        """``fstat`` and ``FS_IOC_GETVERSION``."""
        answer = bytearray(8)
        try:
            fcntl.ioctl(fd, _GET_GENERATION, answer)
        except OSError:
            return None
        generation = int.from_bytes(answer, "little")
        status = os.fstat(fd)
        return (status.st_dev, status.st_ino, generation) if generation else None

    def stat(self, path: PathName, *, dir_fd: int | None = None) -> os.stat_result:
        """``os.stat`` that does not follow a symbolic link."""
        return os.stat(path, dir_fd=dir_fd, follow_symlinks=False)

    def ftruncate(self, fd: int, length: int) -> None:
        """``os.ftruncate``."""
        os.ftruncate(fd, length)

    def posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        """``os.posix_fallocate``."""
        os.posix_fallocate(fd, offset, length)

    def fchmod(self, fd: int, mode: int) -> None:
        """``os.fchmod``."""
        os.fchmod(fd, mode)

    def flock(self, fd: int, operation: int) -> None:
        """``fcntl.flock``."""
        fcntl.flock(fd, operation)

    def scandir(self, fd: int) -> Iterator[os.DirEntry[str]]:
        """``os.scandir``."""
        with with_descriptor(lambda: os.scandir(fd)) as entries:  # It has a descriptor of its own.
            yield from entries

    def mkdir(self, path: PathName, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """``os.mkdir``."""
        os.mkdir(path, mode, dir_fd=dir_fd)

    def rmdir(self, path: PathName, *, dir_fd: int | None = None) -> None:
        """``os.rmdir``."""
        os.rmdir(path, dir_fd=dir_fd)

    def unlink(self, path: PathName, *, dir_fd: int | None = None) -> None:
        """``os.unlink``."""
        os.unlink(path, dir_fd=dir_fd)

    def link(
        self,
        source: PathName,
        target: PathName,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """``os.link``."""
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=False)

    def rename(
        self,
        source: PathName,
        target: PathName,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """``os.rename``."""
        os.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


def write_fully(calls: FileCalls, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
    """Write all of ``buffers`` at ``offset``, however many they are; return the count of bytes.

    Short writes are continued. A write that makes no progress is ``OSError(EIO)``: without this
    limit a faulty file system could hold the thread for ever.
    """
    views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
    written = 0
    index = 0
    while index < len(views):
        count = calls.pwritev(fd, views[index : index + IOV_MAX], offset + written)
        if count <= 0:
            raise OSError(EIO, "a write made no progress")
        written += count
        while index < len(views) and count >= len(views[index]):
            count -= len(views[index])
            index += 1
        if count:
            views[index] = views[index][count:]
    return written


def read_fully(calls: FileCalls, fd: int, buffer: memoryview | bytearray, offset: int) -> int:
    """Fill ``buffer`` from ``offset``; return the count of bytes, fewer only at the file's end."""
    view = memoryview(buffer).cast("B")
    filled = 0
    while filled < len(view):
        count = calls.preadv(fd, [view[filled:]], offset + filled)
        if count == 0:
            break
        filled += count
    return filled


def make_folder(calls: FileCalls, path: str) -> None:
    """Make a folder and those above it that are missing, durably."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    make_folder(calls, above)
    try:
        calls.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    sync_folder(calls, above)


def sync_folder(calls: FileCalls, path: PathName, *, dir_fd: int | None = None) -> None:
    """Make the entries of a folder durable: what was created, renamed or removed in it."""
    fd = calls.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=dir_fd)
    try:
        calls.fsync(fd)
    finally:
        calls.close(fd)
