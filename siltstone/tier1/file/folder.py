"""The folder of one container's log, and the file calls that all parts of the log share."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from siltstone.core.constants import KIB
from siltstone.core.errors import CorruptDataError, StorageFullError
from siltstone.core.open_files import LACK, log_lack
from siltstone.core.posix import FileCalls, read_fully, sync_folder
from siltstone.core.records.log_file_header import (
    FRAMES_OFFSET,
    HEADER_BYTES,
    LogFileHeader,
    decode_log_file_header,
)
from siltstone.tier1.file.errors import FULL
from siltstone.tier1.file.names import FileKey, parse_file_name, parse_old_name

BLOCK_BYTES: Final = 4 * KIB
"""What disks take at least; the size of log files is a multiple of it."""


class OpenFile(NamedTuple):
    """A log file that is open for writing.

    Attributes:
        key: which file.
        fd: its descriptor, which the holder of this value closes.
        size: preallocated bytes.
    """

    key: FileKey
    fd: int
    size: int


NOT_THERE = (FileNotFoundError, NotADirectoryError)
"""What a call is answered whose path does not exist; also where a file is above it."""


@contextmanager
def no_folder(path: str) -> Iterator[None]:
    """Around calls that expect a file. Raises ``CorruptDataError`` where a folder is instead."""
    try:
        yield
    except IsADirectoryError as error:
        raise CorruptDataError(
            "a folder is in the place of a file of the log", where=path
        ) from error


class LogFolder:
    """``<path>/c<container>``: every method raises ``OSError``.

    Attributes:
        calls: the seam to the operating system.
        container: the container's number, as headers state it.
        path: the folder.
    """

    def __init__(self, calls: FileCalls, path: str, container: int) -> None:
        self.calls = calls
        self.container = container
        self.path = os.path.join(os.path.abspath(path), f"c{container}")

    def file(self, name: str) -> str:
        """The path of a name in the folder."""
        return f"{self.path}/{name}"

    def exists(self) -> bool:
        """Whether the folder is there."""
        try:
            return stat.S_ISDIR(self.calls.stat(self.path).st_mode)
        except NOT_THERE:
            return False

    def make(self) -> None:
        """Make the folder and those above it, each durable in the one above."""
        missing = []
        path = self.path
        while True:
            try:
                self.calls.stat(path)
                break
            except FileNotFoundError:
                missing.append(path)
                path = os.path.dirname(path)
        for folder in reversed(missing):
            with suppress(FileExistsError):  # another claim was faster
                self.calls.mkdir(folder)
        # Also when all were there: their maker may have died before the sync.
        for folder in missing or [self.path]:
            sync_folder(self.calls, os.path.dirname(folder))

    def log_files(self) -> list[FileKey]:
        """The log files, oldest first; none when there is no folder."""
        return self._keys(parse_file_name)

    def unlink_old(self, below_epoch: int) -> None:
        """Remove truncated files that older owners wanted to use again."""
        for key in self._keys(parse_old_name):
            if key.epoch < below_epoch:
                with suppress(FileNotFoundError):
                    self.calls.unlink(self.file(key.old_name))

    def _keys(self, parse: Callable[[str], FileKey | None]) -> list[FileKey]:
        try:
            fd = self.calls.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except NOT_THERE:
            return []
        try:
            found = [parse(entry.name) for entry in self.calls.scandir(fd)]
        finally:
            self.calls.close(fd)
        return sorted(key for key in found if key is not None)

    @contextmanager
    def reading(self, name: str, flags: int = 0) -> Iterator[int]:
        """A descriptor of a file for reading."""
        fd = self.calls.open(self.file(name), os.O_RDONLY | flags)
        try:
            yield fd
        finally:
            self.calls.close(fd)

    def header(self, key: FileKey) -> LogFileHeader | None:
        """The header of a log file; ``None`` while it has no valid one.

        Raises:
            CorruptDataError: what has its name is a folder.
        """
        with self.reading(key.name) as fd, no_folder(self.file(key.name)):
            return decode_log_file_header(read_at(self.calls, fd, 0, HEADER_BYTES))

    def size(self, key: FileKey) -> int:
        """The size of a log file, in bytes; 0 when it is not there."""
        try:
            return self.calls.stat(self.file(key.name)).st_size
        except NOT_THERE:
            return 0

    def create(self, key: FileKey, size: int) -> OpenFile:
        """Make a log file, preallocated and durable with its name; it is all zeros.

        Extending the file now, and not only reserving room, keeps its length out of every later
        ``fdatasync``: a quarter faster, and no frame lies beyond the end that the disk knows.

        Raises:
            StorageFullError: no room, or no descriptor; the file is not there.
        """
        path = self.file(key.name)
        fd = -1
        try:
            with self.changing():
                fd = self.calls.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                self.calls.posix_fallocate(fd, 0, size)
                self.calls.fsync(fd)
        except OSError as error:
            if fd >= 0:
                self.calls.close(fd)
            if error.errno in LACK:
                raise log_lack("create", path) from error
            if error.errno not in FULL:
                raise
            if fd >= 0:
                self.calls.unlink(path)
            raise StorageFullError("no room for a log file", path=path, bytes=size) from error
        return OpenFile(key, fd, size)

    def enlarge(self, file: OpenFile, size: int) -> OpenFile:
        """Let a file hold ``size`` bytes, durably, before any of its frames lies beyond its end.

        Raises:
            StorageFullError: no room; the file is as it was.
        """
        if size <= file.size:
            return file
        size = -(-size // BLOCK_BYTES) * BLOCK_BYTES
        try:
            self.calls.posix_fallocate(file.fd, file.size, size - file.size)
            self.calls.fsync(file.fd)
        except OSError as error:
            if error.errno not in FULL:
                raise
            self.calls.ftruncate(file.fd, file.size)
            raise StorageFullError("no room for a log file", path=self.path, bytes=size) from error
        return file._replace(size=size)

    def check_room(self, size: int) -> None:
        """Find out whether a file of ``size`` bytes would fit, and leave nothing there.

        Raises:
            StorageFullError: it would not.
        """
        path = self.file("room")
        try:
            fd = self.calls.open(path, os.O_RDWR | os.O_CREAT)
            try:
                with suppress(FileNotFoundError):  # by another claim, which looks as well
                    self.calls.unlink(path)
                self.calls.posix_fallocate(fd, 0, size)
            finally:
                self.calls.close(fd)
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise StorageFullError("no room for a log file", path=self.path, bytes=size) from error

    def unlink(self, key: FileKey) -> None:
        """Remove a log file, durably, so that removals are seen in the order they were made."""
        with self.changing(), suppress(FileNotFoundError):
            self.calls.unlink(self.file(key.name))

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Make the changes of the block durable that concern the folder's entries.

        The folder is opened ahead, so that a lack of descriptors is told before anything changed:
        a change that cannot be synced would be the end of this owner.
        """
        fd = self.calls.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield
            self.calls.fsync(fd)
        finally:
            self.calls.close(fd)


def read_at(calls: FileCalls, fd: int, offset: int, length: int) -> bytearray:
    """Bytes of an open file, fewer than ``length`` only at its end."""
    # A buffer for more than there is would cost more than the read.
    data = bytearray(max(0, min(length, calls.fstat(fd).st_size - offset)))
    count = read_fully(calls, fd, data, offset)
    del data[count:]
    return data


def room_for(file_bytes: int) -> int:
    """The largest frame that fits into a file of ``file_bytes``."""
    return file_bytes - FRAMES_OFFSET
