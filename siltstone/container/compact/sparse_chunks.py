"""Which chunks hold little that is still needed. No I/O.

A shared chunk stays until its last extent goes, so a single segment can keep the bytes of a
thousand. A walk over all extents adds up here how much of each chunk they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from siltstone.core.constants import MIB
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent

WASTE_BYTES_MIN = MIB
"""A chunk with fewer dead bytes stays."""

SEEN_MAX = 100_000
"""Chunks that a walk adds up for; further ones wait for a later walk."""

LEFT_MAX = 10_000
"""Extents that wait to be moved."""

Place = tuple[int, int]
"""A segment, and an offset in it."""


@dataclass(slots=True)
class _Seen:
    length: int
    live: int = 0


class SparseChunks:
    """What one walk after the other finds.

    A chunk is sparse when two walks in a row found it so: extents of one that is made during a walk
    may lie before the place where the walk is, and are not seen by it.

    Args:
        chunk_of: the row of a chunk.
        percent: at least this much of a sparse chunk is dead.
    """

    def __init__(self, chunk_of: Callable[[int], Chunk | None], percent: int) -> None:
        self._chunk_of = chunk_of
        self._percent = percent
        self._at: Place = (0, 0)
        self._seen: dict[int, _Seen] = {}
        self._suspects: frozenset[int] = frozenset()
        self._sparse: frozenset[int] = frozenset()
        self._left: list[Extent] = []

    def passed(self, extents: Iterable[Extent], to: Place) -> None:
        """The walk has come to ``to``; ``extents``, in order, are what may lie before it."""
        for extent in extents:
            if self._at <= (extent.segment_id, extent.start) < to:
                self._add(extent)
        self._at = max(self._at, to)

    def _add(self, extent: Extent) -> None:
        if extent.chunk_id in self._sparse and len(self._left) < LEFT_MAX:
            self._left.append(extent)
        seen = self._seen.get(extent.chunk_id)
        if seen is None and len(self._seen) < SEEN_MAX:
            chunk = self._chunk_of(extent.chunk_id)
            if chunk is not None and chunk.closed and chunk.length - extent.length > 0:
                seen = self._seen[extent.chunk_id] = _Seen(chunk.length)
        if seen is not None:
            seen.live += extent.length

    def ended(self) -> None:
        """The walk is over; the next one begins."""
        suspects = frozenset(
            chunk_id
            for chunk_id, seen in self._seen.items()
            if seen.length - seen.live >= WASTE_BYTES_MIN
            and 100 * (seen.length - seen.live) >= self._percent * seen.length
        )
        self._sparse = suspects & self._suspects
        self._suspects = suspects
        self._seen.clear()
        self._at = (0, 0)

    def batch(self, count_max: int, bytes_max: int, *, whole: bool) -> list[Extent]:
        """The next extents to move: as many as make a full batch, or all with ``whole``.

        They are returned again until ``take`` is called.
        """
        length = 0
        for index, extent in enumerate(self._left):
            length += extent.length
            if index == count_max or length > bytes_max:
                return self._left[:index] or self._left[:1]
        return self._left[:] if whole else []

    def take(self, count: int) -> None:
        """The first ``count`` extents need not be moved any more, or not by this walk."""
        del self._left[:count]
