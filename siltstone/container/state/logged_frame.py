"""A frame of the log with its pieces decoded, once for all that a boot asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from siltstone.core.records.frame import Frame
from siltstone.core.records.piece import AppendHead, Outline, TablePiece, decode_outlines


@dataclass(frozen=True, slots=True)
class LoggedFrame:
    """One frame.

    Attributes:
        index: its place in the log.
        crc: of the whole frame.
        body: what the heads of appends speak of; empty where all appends were left out.
        pieces: what it holds, in order; table records are still encoded.
    """

    index: int
    crc: int
    body: bytes
    pieces: tuple[Outline, ...]

    @property
    def where(self) -> str:
        """What messages call it."""
        return f"frame {self.index}"

    def data(self, head: AppendHead) -> memoryview:
        """The bytes of one of its appends, not copied."""
        return memoryview(self.body)[head.start : head.start + head.length]


def decode_logged_frame(frame: Frame) -> LoggedFrame:
    """Decode the pieces of a frame.

    Raises:
        FormatError: a piece of an unknown kind or version.
        CorruptDataError: the body does not hold the pieces that the frame counts.
    """
    where = f"frame {frame.index}"
    pieces = tuple(decode_outlines(frame.body, frame.count, where=where))
    return LoggedFrame(frame.index, frame.crc, frame.body, pieces)


def table_records(frames: Iterable[LoggedFrame]) -> Iterator[tuple[bytes, str]]:
    """Yield every table record, encoded, and where it is."""
    for frame in frames:
        for piece in frame.pieces:
            if isinstance(piece, TablePiece):
                yield piece.record, frame.where
