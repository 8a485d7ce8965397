"""Bytes of segments that frames of a tier-1 log still hold, those that were flushed too.

What a frame holds at an offset of a segment is what the segment has there, for ever: no id is given
twice, and nothing but an append puts bytes beyond the end of a segment that it was acknowledged at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from siltstone.container.state.logged_frame import decode_logged_frame
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.frame import Frame
from siltstone.core.records.piece import AppendHead


@dataclass(frozen=True, slots=True)
class _Kept:
    """Bytes of one segment from ``start`` on."""

    start: int
    data: memoryview

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class LogBytes:
    """What frames hold of segments.

    Args:
        frames: whole ones of one lineage, in the order of the log.
        epoch: that of the journal that says what was flushed. Frames of later epochs are left out:
            an owner that opened the log after them may have had a copy of it.
    """

    def __init__(self, frames: Iterable[Frame] = (), epoch: int = 0) -> None:
        self._pieces: dict[int, list[_Kept]] = {}
        for frame in frames:
            if frame.epoch <= epoch:
                self._take(frame)

    def _take(self, frame: Frame) -> None:
        try:
            whole = decode_logged_frame(frame)
        except CorruptDataError:
            return  # the replay says so
        for piece in whole.pieces:
            if isinstance(piece, AppendHead):
                held = self._pieces.setdefault(piece.segment_id, [])
                begin = max(piece.offset, held[-1].end if held else 0)
                data = whole.data(piece)[begin - piece.offset :]
                if data:
                    held.append(_Kept(begin, data))

    def ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield segment id, begin and end of all that is held."""
        for segment_id, held in self._pieces.items():
            for kept in held:
                yield segment_id, kept.start, kept.end

    def split(self, segment_id: int, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Cut a range of a segment where what is held begins and ends; tell which parts are."""
        position, begin = start, start
        for kept in self._within(segment_id, start, end):
            if kept.start > position:
                if begin < position:
                    yield begin, position, True
                yield position, kept.start, False
                begin = kept.start
            position = min(kept.end, end)
        if begin < position:
            yield begin, position, True
        if position < end:
            yield position, end, False

    def read(self, segment_id: int, start: int, end: int) -> list[memoryview]:
        """The bytes of a part, or of some of one, that ``split`` says is held; never copied."""
        return [
            kept.data[max(0, start - kept.start) : end - kept.start]
            for kept in self._within(segment_id, start, end)
        ]

    def _within(self, segment_id: int, start: int, end: int) -> Iterator[_Kept]:
        held = self._pieces.get(segment_id, [])
        first = max(0, bisect_right(held, start, key=lambda kept: kept.start) - 1)
        for kept in islice(held, first, None):
            if kept.start >= end:
                return
            if kept.end > start:
                yield kept
