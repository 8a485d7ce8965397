"""Where a stream may be cut: after a record of it, and nowhere else."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final, Protocol

from siltstone.store.handles.streams import has_more, read_some

PREFIX_BYTES: Final = 4
"""The length before a record, big-endian: the bytes of the record that follow it."""


class RecordCutter(Protocol):
    """Gives the records of a stream, of which it is told the bytes as they come."""

    def take(self, data: bytes) -> list[bytes]:
        """Return the records that are whole with ``data``. Raises ``ValueError``."""
        ...

    def end(self) -> list[bytes]:
        """Return what is left at the end of the stream. Raises ``ValueError``."""
        ...


class Pieces:
    """Cuts every ``size`` bytes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rest = b""

    def take(self, data: bytes) -> list[bytes]:
        """Return pieces that are full."""
        found = self._rest + data
        end = len(found) - len(found) % self._size
        self._rest = found[end:]
        return [found[start : start + self._size] for start in range(0, end, self._size)]

    def end(self) -> list[bytes]:
        """Return the last piece, which is a smaller one."""
        return [self._rest] if self._rest else []


class Lines:
    """Cuts after each newline; the last line needs none.

    Args:
        size_max: bytes of the longest line, with its newline.
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._parts: list[bytes] = []
        self._rest_size = 0
        self._count = 0

    def take(self, data: bytes) -> list[bytes]:
        """Return whole lines, with their newlines."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return []
        whole = b"".join([*self._parts, data[:end]])
        self._parts, self._rest_size = [], 0
        found = [line + b"\n" for line in whole[:-1].split(b"\n")]
        self._count += len(found)
        self._keep(data[end:])
        return found

    def end(self) -> list[bytes]:
        """Return the last line, if it has no newline."""
        rest = b"".join(self._parts)
        return [rest] if rest else []

    def _keep(self, data: bytes) -> None:
        self._parts.append(data)
        self._rest_size += len(data)
        if self._rest_size > self._size_max:
            raise ValueError(
                f"a line is longer than an append may be record={self._count}"
                f" limit={self._size_max}"
            )


class Prefixed:
    """Cuts after records that begin with their length, which stays with them.

    Args:
        size_max: bytes of the longest record, with its length.
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._rest = bytearray()
        self._count = 0

    def take(self, data: bytes) -> list[bytes]:
        """Return whole records, with their lengths."""
        self._rest += data
        found: list[bytes] = []
        begin = 0
        while (size := self._size_at(begin)) is not None and begin + size <= len(self._rest):
            found.append(bytes(self._rest[begin : begin + size]))
            begin += size
            self._count += 1
        del self._rest[:begin]
        return found

    def end(self) -> list[bytes]:
        """Nothing may be left."""
        if self._rest:
            raise ValueError(
                f"the input ends within a record record={self._count} has={len(self._rest)}"
                f" needs={self._size_at(0) or PREFIX_BYTES}"
            )
        return []

    def _size_at(self, begin: int) -> int | None:
        prefix = self._rest[begin : begin + PREFIX_BYTES]
        if len(prefix) < PREFIX_BYTES:
            return None
        size = PREFIX_BYTES + int.from_bytes(prefix, "big")
        if size > self._size_max:
            raise ValueError(
                f"a record is larger than an append may be, or this is no length"
                f" record={self._count} length={size - PREFIX_BYTES} limit={self._size_max}"
            )
        return size


def record_groups(stream: io.RawIOBase, cutter: RecordCutter, size: int) -> Iterator[list[bytes]]:
    """Yield the records of a stream in groups of up to ``size`` bytes, or of one that has more.

    What has arrived on a pipe is not kept back for what may follow. Raises ``OSError``, and what
    the cutter raises.
    """
    is_whole = False
    while not is_whole:
        data, is_whole = _arrived(stream, size)
        records = cutter.take(data)
        if is_whole:
            try:
                records += cutter.end()
            except ValueError:  # whole records are appended anyway
                yield from _grouped(records, size)
                raise
        yield from _grouped(records, size)


def _arrived(stream: io.RawIOBase, size: int) -> tuple[bytes, bool]:
    """Read what is there; tell whether that was all."""
    parts = [read_some(stream, size)]
    length = len(parts[0])
    while parts[-1] and length < size and has_more(stream, 0):
        parts.append(read_some(stream, size - length))
        length += len(parts[-1])
    return b"".join(parts), not parts[-1]


def _grouped(records: list[bytes], size: int) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    length = 0
    for record in records:
        if group and length + len(record) > size:
            yield group
            group, length = [], 0
        group.append(record)
        length += len(record)
    if group:
        yield group
