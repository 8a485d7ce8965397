"""Where what is read ahead is cut, and the memory it is read into."""

from __future__ import annotations

from collections.abc import Callable

from siltstone.core.records.extent import Extent
from siltstone.core.words import BLOCK_BYTES, MIB

PIECE_BYTES = 12 * MIB
"""What is read ahead at a time; the last piece of a chunk takes up to twice as much with it.

A request costs the processor of either side as much as some 2 MiB, so larger pieces cost less; and
five of these are ahead where the budget is 64 MiB, which keeps the connections busy.
"""

_SPARE_MAX = 4
_EXTENTS_MAX = 64
"""A piece of so many short chunks ends, whatever its length."""


def piece_end(floor: Callable[[int], Extent | None], start: int, end: int) -> int:
    """Where a piece that begins at ``start`` ends, so that chunks are read by few calls.

    It ends at a border of blocks of its chunk, or where the chunk ends: a block that belonged to
    two pieces would be read twice. A chunk of n pieces takes n calls, never one more for its rest.

    Args:
        floor: gives the extent with the greatest start that is not above an offset.
        start: offset in the segment.
        end: the piece ends there at the latest; above ``start``.
    """
    goal, position = start + PIECE_BYTES, start
    for _ in range(_EXTENTS_MAX):
        extent = floor(position)
        if position >= end or extent is None or extent.end <= position:
            break
        if extent.end >= goal + PIECE_BYTES:
            if position > start:
                break  # a long chunk has pieces of its own
            shift = extent.chunk_offset - extent.start
            position = (goal + shift) // BLOCK_BYTES * BLOCK_BYTES - shift
            break
        position = extent.end
        if position >= goal:
            break
    return min(end, position) if position > start else min(end, goal)


class Room:
    """Memory of pieces that were taken: fresh memory costs as much as reading into it."""

    def __init__(self) -> None:
        self._spare: list[memoryview] = []

    @property
    def spare_bytes(self) -> int:
        """Bytes that are kept for nobody yet."""
        return sum(map(len, self._spare))

    def spare(self, length: int) -> memoryview | None:
        """Memory with anything in it, the least that has so many bytes, if it is not twice as much.

        The last piece of a chunk is longer than others, and its memory is good for them as well.
        """
        sizes = [
            (len(view), index)
            for index, view in enumerate(self._spare)
            if length <= len(view) <= 2 * length
        ]
        return self._spare.pop(min(sizes)[1]) if sizes else None

    def give_back(self, view: memoryview) -> None:
        """Keep memory that nobody looks at any more, rather than what was given back before."""
        self._spare.append(view)
        del self._spare[:-_SPARE_MAX]

    def shrink(self, length: int) -> None:
        """Keep at most so many bytes, of what was given back last."""
        while self.spare_bytes > length:
            del self._spare[0]

    def clear(self) -> None:
        """Keep nothing."""
        self._spare.clear()
