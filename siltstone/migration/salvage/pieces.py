"""Runs of a segment's bytes in chunks, and which one counts where they overlap. Pure functions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPiece:
    """A run of bytes in one chunk.

    Attributes:
        offset: of the first byte in the segment.
        length: how many there are, at least 1.
        chunk: name of the chunk.
        chunk_offset: where they begin in it.
        chunk_length: the chunk's committed length; of a chunk that only its name speaks of, the
            length that it has.
        sums: CRC32C of each block of the chunk; empty when no checkpoint says them.
    """

    offset: int
    length: int
    chunk: str
    chunk_offset: int
    chunk_length: int
    sums: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Offset after the last byte."""
        return self.offset + self.length

    @property
    def proven(self) -> bool:
        """Whether a checkpoint says that these bytes are the segment's."""
        return bool(self.sums)

    def between(self, start: int, end: int) -> ChunkPiece:
        """The part in ``[start, end)``, which overlaps it."""
        begin, stop = max(start, self.offset), min(end, self.end)
        skipped = begin - self.offset
        return replace(
            self, offset=begin, length=stop - begin, chunk_offset=self.chunk_offset + skipped
        )


def painted(pieces: Iterable[ChunkPiece]) -> tuple[list[ChunkPiece], list[str]]:
    """Lay pieces over one another, the later over the earlier; return what is seen, in order.

    A piece counts from its first byte to its last, and hides what came before it there. Where an
    earlier piece reaches beyond the end of a later one, its rest is shown and named: nothing tells
    whether the later one was the end of the segment then.
    """
    seen: list[ChunkPiece] = []
    doubts: list[str] = []
    for piece in pieces:
        first = bisect_right(seen, piece.offset, key=_offset)
        if first and seen[first - 1].end > piece.offset:
            first -= 1
        last = bisect_left(seen, piece.end, key=_offset)
        hidden = seen[first:last]
        kept = [piece]
        if hidden and hidden[0].offset < piece.offset:
            kept.insert(0, hidden[0].between(hidden[0].offset, piece.offset))
        if hidden and hidden[-1].end > piece.end:
            kept.append(hidden[-1].between(piece.end, hidden[-1].end))
            doubts.append(f"{hidden[-1].chunk} reaches beyond the end of {piece.chunk}")
        seen[first:last] = kept
    return seen, doubts


def _offset(piece: ChunkPiece) -> int:
    return piece.offset


def gaps(pieces: Sequence[ChunkPiece], start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges of ``[start, end)`` that no piece covers; pieces are in order."""
    found = []
    position = start
    for piece in pieces:
        if piece.offset > position:
            found.append((position, min(piece.offset, end)))
        position = max(position, piece.end)
    if position < end:
        found.append((position, end))
    return [(begin, stop) for begin, stop in found if begin < stop]


def runs(pieces: Sequence[ChunkPiece]) -> list[list[ChunkPiece]]:
    """Return pieces in groups that have no gap inside."""
    found: list[list[ChunkPiece]] = []
    for piece in pieces:
        if found and found[-1][-1].end == piece.offset:
            found[-1].append(piece)
        else:
            found.append([piece])
    return found
