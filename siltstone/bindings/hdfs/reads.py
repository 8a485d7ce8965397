"""Reading a range, all of what was acknowledged, also while a writer adds to the chunk.

The SDK's reader sees nothing of a block that is being written, not even what was synced long ago;
the NameNode tells the length of the last sync. Where the two differ, the range comes by WebHDFS,
which asks the DataNode, or the reader waits until the file is closed, which takes a moment only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from siltstone.bindings.hdfs.calls import Turn
from siltstone.bindings.hdfs.errors import translated
from siltstone.bindings.hdfs.service import Service
from siltstone.bindings.hdfs.web import read_open_file
from siltstone.bindings.hdfs.writes import PAUSE_MAX_S, PAUSE_S, take_over
from siltstone.core.constants import KIB
from siltstone.core.errors import ChunkError, ChunkOffsetError, ChunkUnavailableError
from siltstone.core.remote.deadline import Deadline, DeadlineError

if TYPE_CHECKING:
    from hdfs_native._internal import RawFileReader

WHOLE_BYTES_MAX: Final = 128 * KIB
"""This much comes by one call of the SDK: packet by packet it would be one for each and one for the
end, which for two packets takes longer than to copy them."""


@dataclass(frozen=True, slots=True)
class FileLook:
    """What one look at a file came to.

    Attributes:
        count: bytes of the range that exist, as far as the NameNode knows.
        is_read: whether they have come.
        part: all of them, for the caller to put into its buffer; empty if they are there already.
    """

    count: int
    is_read: bool
    part: bytes = b""

    def put(self, buffer: memoryview) -> int:
        """Put what came into the buffer of the caller, who waits no longer; return the count."""
        if self.part:
            buffer[: self.count] = self.part
        return self.count


def read_range(service: Service, name: str, path: str, offset: int, buffer: memoryview) -> int:
    """Fill ``buffer`` from ``offset`` on; return how many bytes, fewer only at the end.

    Raises:
        ChunkOffsetError: the chunk ends before ``offset``.
        ChunkUnavailableError: no whole answer in time.
    """
    deadline = service.deadline(len(buffer))
    found = service.run(
        lambda turn: _looked(turn, service, name, path, offset, buffer), deadline, name, "read_into"
    )
    if found.is_read:
        return found.put(buffer)
    # Java's URLs unite spellings of one letter, which are different chunks here.
    if service.settings.webhdfs and path.isascii():
        try:
            if _by_web(service, name, path, offset, buffer[: found.count], deadline):
                return found.count
        except DeadlineError as error:
            raise service.late(name, "read_into", changes=False) from error
    return service.run(
        lambda turn: _waited(turn, service, name, path, offset, buffer), deadline, name, "read_into"
    ).put(buffer)


def _by_web(
    service: Service, name: str, path: str, offset: int, buffer: memoryview, deadline: Deadline
) -> bool:
    """Read what is being written; ``False`` where it has to be waited for."""
    try:
        read_open_file(service.settings, name, path, offset, buffer, deadline)
    except ChunkError:
        deadline.check()
        return False
    return True


def _waited(
    turn: Turn, service: Service, name: str, path: str, offset: int, buffer: memoryview
) -> FileLook:
    """Read when the file is closed. A writer that has it open for too long is taken for dead."""
    until = time.monotonic() + service.settings.lease_wait_s
    pause_s = PAUSE_S
    while True:
        found = _looked(turn, service, name, path, offset, buffer)
        if found.is_read:
            return found
        if time.monotonic() > until:
            with translated(name, "read_into"):
                take_over(turn, service, path)
            continue
        turn.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


def _looked(
    turn: Turn, service: Service, name: str, path: str, offset: int, buffer: memoryview
) -> FileLook:
    """Read the range if the SDK's reader sees all of it."""
    with translated(name, "read_into"):
        reader = service.client.read(path)
        seen = reader.file_length()
        wanted = len(buffer)
        length = seen if wanted and offset + wanted <= seen else service.info(path).length
        if offset > length:
            raise ChunkOffsetError(
                chunk=name, operation="read_into", expected=length, actual=offset
            )
        count = min(wanted, length - offset)
        if offset + count > seen and count:
            return FileLook(count, is_read=False)
        if 0 < count <= WHOLE_BYTES_MAX:
            part = reader.read_range(offset, count)
            if len(part) != count:
                raise _broken(name, count, len(part))
            return FileLook(count, is_read=True, part=part)
    if count:
        _fill(turn, reader, name, offset, buffer[:count])
    return FileLook(count, is_read=True)


def _fill(turn: Turn, reader: RawFileReader, name: str, offset: int, buffer: memoryview) -> None:
    """Put packets of the DataNode where they are wanted as they come, so that little more is held.

    All of them are asked for, the end too: only then is the connection used again.
    """
    done = 0
    with translated(name, "read_into"):
        parts = reader.read_range_stream(offset, len(buffer))
    while True:
        with translated(name, "read_into"):
            part = next(parts, None)
        if part is None and done == len(buffer):
            return
        if not part or done + len(part) > len(buffer):
            raise _broken(name, len(buffer), done + len(part or b""))
        with turn.awaited():
            buffer[done : done + len(part)] = part
        done += len(part)


def _broken(name: str, expected: int, actual: int) -> ChunkUnavailableError:
    """The error of an answer that is not what was asked for."""
    return ChunkUnavailableError(
        "the answer broke off" if actual <= expected else "more came than was asked for",
        chunk=name,
        operation="read_into",
        expected=expected,
        actual=actual,
    )
