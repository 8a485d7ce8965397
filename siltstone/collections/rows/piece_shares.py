"""Parts that are read as they lie, cut into shares for several workers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from siltstone.collections.rows.open_part import OpenPart
from siltstone.collections.rows.stored_run import Piece
from siltstone.core.constants import KIB, MIB

SPLIT_BYTES: Final = 32 * MIB
"""Of encoded rows in one split, about: enough for a task, and small enough to share out."""

OBJECT_BYTES: Final = 256 * KIB
"""What a request counts at least, when splits are cut: one of thousands of tiny objects is long."""

PieceShare = tuple[Piece, int, int]
"""Some row groups of a part: those whose first row is in a range, by its index among all."""


def shares_by_rows(pieces: Iterable[Piece], share_bytes: int) -> list[list[PieceShare]]:
    """Cut large parts into row groups, and put small ones together, to about ``share_bytes``."""
    shares: list[list[PieceShare]] = []
    taken: list[PieceShare] = []
    size = 0
    for piece in pieces:
        part = piece.part
        count = max(1, -(-part.length // share_bytes))
        for share in range(count):
            start, stop = part.rows * share // count, part.rows * (share + 1) // count
            taken.append((piece, start, stop))
            size += max(part.length // count, OBJECT_BYTES if part.inline is None else 0)
            if size >= share_bytes:
                shares.append(taken)
                taken, size = [], 0
    if taken:
        shares.append(taken)
    return shares


def groups_between(opened: OpenPart, start: int, stop: int) -> list[int]:
    """Return the row groups whose first row is in ``[start, stop)``."""
    firsts = accumulate(opened.group_rows, initial=0)
    numbered = zip(range(len(opened.group_rows)), firsts, strict=False)
    return [group for group, first in numbered if start <= first < stop]
