"""A small file log for tests, the disk below it, and the files as they lie there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from siltstone.core.constants import KIB
from siltstone.core.environment import Environment
from siltstone.core.posix import FileCalls, PathName, SystemFileCalls
from siltstone.core.records.frame import KIND_BATCH, Frame
from siltstone.testing.faults.file_layer import Call, FileLayer
from siltstone.testing.faults.power_cut import PowerCut
from siltstone.tier1.file.fenced_log import FileFencedLog
from siltstone.tier1.file.network import FileSystem

LINEAGE = bytes(range(16))
FILE_BYTES = 16 * KIB
BIG = 5000
"""Bytes of a body of which two fit into a file, and three do not."""

MEMORY = FileSystem(number=0x01021994, name="tmpfs")
EXT4 = FileSystem(number=0xEF53, name="ext4")
"""What a log takes its folder for: on the second it writes files with zeros in advance."""


class DirectDisk(PowerCut):
    """A disk that shows a reader with O_DIRECT what it holds, and not the page cache."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._direct: set[int] = set()

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        with self._guard:
            fd = super().open(path, flags, mode, dir_fd=dir_fd)
            self._direct.discard(fd)
            if flags & os.O_DIRECT:
                self._direct.add(fd)
            return fd

    def preadv(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        with self._guard:
            count = super().preadv(fd, buffers, offset)
            if fd in self._direct and fd in self._inside:
                content = self._record(fd).content[offset : offset + count]
                memoryview(buffers[0])[:count] = content.ljust(count, b"\0")
            return count


class Unsynced(SystemFileCalls):
    """Syncs nothing, for tests of damage that do not cut the power, and want to be fast."""

    def fsync(self, fd: int) -> None:
        pass

    def fdatasync(self, fd: int) -> None:
        pass


class Interrupt(FileLayer):
    """Runs something once, before a call of a given number, or as soon as no marker is locked.

    Attributes:
        count: calls so far.

    Args:
        number: of the call; 0 for none.
        action: what runs.
        inner: the calls underneath; those that sync nothing by default.
    """

    def __init__(
        self, number: int, action: Callable[[], None], inner: FileCalls | None = None
    ) -> None:
        super().__init__(inner or Unsynced())
        self.number = number
        self.action = action
        self.count = 0
        self.is_locked = False
        self.before = self._look

    def _look(self, call: Call) -> None:
        self.count += 1
        if self.count >= self.number and not self.is_locked and self.number:
            self.number = 0
            self.action()

    def flock(self, fd: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX and self._target(fd).endswith("marker"):
            self.is_locked = True
        super().flock(fd, operation)
        if operation == fcntl.LOCK_UN:
            self.is_locked = False


def log_at(
    path: Path,
    calls: FileCalls | None = None,
    *,
    file_bytes: int = FILE_BYTES,
    file_system: FileSystem = MEMORY,
    environment: Environment | None = None,
) -> FileFencedLog:
    return FileFencedLog(
        str(path),
        0,
        file_bytes=file_bytes,
        calls=calls,
        environment=environment,
        file_system=lambda path: file_system,
    )


def create(path: Path, calls: FileCalls | None = None) -> FileFencedLog:
    log = log_at(path, calls)
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="first")
    return log


def claim(path: Path, calls: FileCalls | None = None, *, takeover: bool = True) -> FileFencedLog:
    log = log_at(path, calls)
    try:
        log.claim(lineage=LINEAGE, new=False, above=0, takeover=takeover, owner="next")
    except BaseException:
        log.abandon()
        raise
    return log


def put(log: FileFencedLog, *bodies: bytes) -> None:
    for body in bodies:
        log.append([body], count=1)


def bodies(frames: Iterable[Frame]) -> list[bytes]:
    return [frame.body for frame in frames if frame.kind == KIND_BATCH]


def shown(path: Path, calls: FileCalls | None = None) -> list[bytes]:
    reader = log_at(path, calls).open_read()
    return bodies(reader.read(reader.first()))


def files(path: Path) -> list[Path]:
    """The log files, oldest first."""
    return sorted((path / "c0").glob("e*.log"))
