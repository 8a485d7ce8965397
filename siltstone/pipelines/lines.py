"""Which lines a range holds. Knows bytes and newlines, nothing of chunks or Arrow.

A line belongs to the range in which it begins, and is read to its end wherever that lies; so the
ranges of a segment give every line once. A newline is one byte, 0x0A; whatever is before it, such
as a carriage return, is content. Bytes after the last newline are a line too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from siltstone.core.constants import GIB
from siltstone.core.errors import CapabilityError
from siltstone.pipelines.byte_source import BufferStretch

LINE_BYTES_MAX: Final = GIB
"""A row of Spark holds less than 2 GiB, and a line is copied a few times."""

NEWLINE: Final = b"\n"


def read_lines(
    read: Callable[[bytes, int], BufferStretch],
    start: int,
    stop: int,
    end: int,
    *,
    at_line_start: bool,
) -> Iterator[tuple[int, memoryview]]:
    """Yield the lines that begin in ``[start, stop)``: some whole lines at a time.

    Each view holds one line or more with newlines between them; the newline of its last line is
    left out. Before each view comes the offset in the segment at which it begins.

    Args:
        read: see ``ByteSource.read``.
        start: first offset.
        stop: end of the range, above ``start`` and at most ``end``.
        end: end of the segment.
        at_line_start: a line begins at ``start``; otherwise the byte before decides.

    Raises:
        CapabilityError: a line is longer than ``LINE_BYTES_MAX``.
    """
    offset = start
    if not at_line_start:
        offset = first_line(read, start, stop, end)
        if offset >= stop:
            return
    kept = b""
    while offset < end:
        stretch = read(kept, offset)
        buffer, begin = stretch.buffer, stretch.begin
        base = offset - len(kept) - begin  # offset in the segment of the buffer's first byte
        offset = base + stretch.end
        if offset < stop:
            last = buffer.rfind(NEWLINE, begin, stretch.end)
        else:
            # The first newline from the range's last byte on ends the last line of the range.
            last = buffer.find(NEWLINE, max(begin, stop - 1 - base), stretch.end)
            if last >= 0:
                yield base + begin, stretch.view(begin, last)
                return
            last = buffer.rfind(NEWLINE, begin, stop - 1 - base)
        if last >= 0:
            yield base + begin, stretch.view(begin, last)
            begin = last + 1
        kept = bytes(stretch.view(begin, stretch.end))
        if len(kept) > LINE_BYTES_MAX:
            raise CapabilityError(
                "line is too long", begins_at=offset - len(kept), limit=LINE_BYTES_MAX
            )
    if kept:
        yield offset - len(kept), memoryview(kept)


def first_line(read: Callable[[bytes, int], BufferStretch], start: int, stop: int, end: int) -> int:
    """Offset of the first line that begins at or beyond ``start``; ``stop`` when none does before.

    The byte before ``start`` exists, and so it can be read.
    """
    offset = start - 1
    while offset < min(stop, end):
        stretch = read(b"", offset)
        newline = stretch.buffer.find(NEWLINE, stretch.begin, stretch.end)
        if newline >= 0:
            return offset + newline + 1 - stretch.begin
        offset += stretch.end - stretch.begin
    return stop
