"""Ranges of segments that travel to a worker, and what a worker reads them with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from siltstone.container.models.segments import SegmentInfo
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.pipelines.byte_source import READ_BYTES, ByteSource
from siltstone.pipelines.lines import NEWLINE
from siltstone.pipelines.look_up import find_window
from siltstone.pipelines.store_view import StoreView
from siltstone.pipelines.window import Window, cut_window

LOOKAHEAD_BYTES: Final = MIB
"""A range is given this much more than itself, for the end of its last record."""

RANGE_READ_BYTES: Final = 4 * MIB
"""Read at a time of what is only passed on: threads wait less often for the interpreter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """The bytes ``[start, stop)`` of a segment, and where they lie.

    Attributes:
        uuid: of the store.
        segment: its name.
        segment_id: its id, which tells it from a later one of the same name.
        start: first offset.
        stop: the end of the range, above ``start``.
        end: the end of what is read of the segment, where also a record without its end ends.
        first: the segment's first readable offset; a record begins there.
        window: where the bytes lie, with the byte before and some after.
    """

    uuid: str
    segment: str
    segment_id: int
    start: int
    stop: int
    end: int
    first: int
    window: Window

    @property
    def size(self) -> int:
        """Bytes of the range."""
        return self.stop - self.start

    @property
    def subject(self) -> str:
        """The range, for people and as what an outcome is about."""
        return f"{self.segment}[{self.start}:{self.stop}]"


def plan_range(view: StoreView, info: SegmentInfo, start: int, stop: int, end: int) -> SegmentRange:
    """Find where ``[start, stop)`` of a segment lies, which is readable and not empty."""
    low = max(info.start_offset, start - 1)
    high = min(end, stop + LOOKAHEAD_BYTES)
    return SegmentRange(
        uuid=view.uuid,
        segment=info.name,
        segment_id=info.segment_id,
        start=start,
        stop=stop,
        end=end,
        first=info.start_offset,
        window=cut_window(view.map(info, low, high), low, high),
    )


def cut_at_grid(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut ``[start, stop)`` at the multiples of ``size``, which do not depend on the two."""
    while start < stop:
        end = min(stop, (start // size + 1) * size)
        yield start, end
        start = end


def gaps(start: int, stop: int, taken: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of ``[start, stop)`` lies in none of the ranges ``taken``."""
    found = []
    for low, high in sorted(taken):
        if low > start and start < stop:
            found.append((start, min(low, stop)))
        start = max(start, high)
    if start < stop:
        found.append((start, stop))
    return found


def source_of(
    store: str,
    storage: ChunkStorage,
    part: SegmentRange,
    read_bytes: int = READ_BYTES,
    *,
    stop: int | None = None,
    one_buffer: bool = False,
) -> ByteSource:
    """What reads a range, verified; it asks the store when the range's window is not enough."""
    look_up = partial(_window, store, part)
    return ByteSource(
        storage, part.window, look_up, read_bytes=read_bytes, stop=stop, one_buffer=one_buffer
    )


def _window(store: str, part: SegmentRange, offset: int) -> Window:
    return find_window(
        store, part.uuid, part.segment, part.segment_id, part.window.lineage, offset, part.end
    )


def read_range(
    store: str,
    storage: ChunkStorage,
    part: SegmentRange,
    start: int | None = None,
    stop: int | None = None,
) -> Iterator[memoryview]:
    """Yield the bytes of a range, or of ``[start, stop)`` in it, piece by piece, each verified.

    A piece is gone when the next one is asked for.
    """
    end = part.stop if stop is None else stop
    offset = part.start if start is None else start
    source = source_of(store, storage, part, RANGE_READ_BYTES, stop=end, one_buffer=True)
    while offset < end:
        stretch = source.read(b"", offset)
        yield stretch.view(stretch.begin, stretch.end)
        offset += stretch.end - stretch.begin


def last_line_end(view: StoreView, info: SegmentInfo) -> int:
    """The offset after the last newline: what follows may be half a line, unless it is sealed."""
    if info.sealed:
        return info.length
    end = info.length
    while end > info.start_offset:
        begin = max(info.start_offset, end - BLOCK_BYTES)
        found = view.read(info, begin, end - begin).rfind(NEWLINE)
        if found >= 0:
            return begin + found + 1
        end = begin
    return info.start_offset
