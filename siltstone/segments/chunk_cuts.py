"""Where a write is cut into chunks, and its buffers into slices. Pure functions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from siltstone.core.chunk_storage import Buffer


@dataclass(frozen=True, slots=True)
class Step:
    """Bytes ``[start, end)`` of a segment: appended to its open chunk, or a new chunk."""

    start: int
    end: int
    append: bool


def plan_steps(
    start: int, end: int, *, cuts: Sequence[int], room: int, chunk_bytes: int
) -> list[Step]:
    """Cut ``[start, end)`` into chunks at the borders of appends.

    Args:
        start: first offset.
        end: after the last one; a border as well.
        cuts: borders of appends, ascending; those outside the range do not matter.
        room: bytes that the open chunk still takes; 0 when there is none.
        chunk_bytes: bytes that a new chunk takes.

    Returns:
        At most one append, first; then new chunks. An append that does not fit in the rest of the
        open chunk begins a new one; only one that is larger than a chunk is cut elsewhere.
    """
    borders = [*cuts[bisect_right(cuts, start) : bisect_left(cuts, end)], end]
    steps: list[Step] = []
    append = room > 0
    position = start
    while position < end:
        limit = position + (room if append else chunk_bytes)
        border = end if limit >= end else _last_border(borders, limit)
        if border <= position and append:
            append = False
            continue
        stop = border if border > position else limit
        steps.append(Step(position, stop, append))
        append = False
        position = stop
    return steps


def _last_border(borders: Sequence[int], limit: int) -> int:
    index = bisect_right(borders, limit)
    return borders[index - 1] if index else -1


class BufferCutter:
    """Slices of a sequence of buffers as if it were one, without copying.

    Args:
        buffers: what is cut.
        start: the offset of the first byte.
    """

    def __init__(self, buffers: Sequence[Buffer], start: int) -> None:
        self._views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        self._ends = list(accumulate((len(view) for view in self._views), initial=start))[1:]
        self._start = start

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self._ends[-1] if self._ends else self._start

    def cut(self, start: int, end: int) -> list[Buffer]:
        """Return the bytes ``[start, end)``, which must lie within."""
        pieces: list[Buffer] = []
        index = bisect_right(self._ends, start)
        while start < end:
            view = self._views[index]
            begin = self._ends[index] - len(view)
            stop = min(end, self._ends[index])
            pieces.append(view[start - begin : stop - begin])
            start, index = stop, index + 1
        return pieces
