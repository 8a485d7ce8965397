"""Rows that reads looked up last, for as long as the table stays at one version.

A sequential reader asks for the same extent, chunk and sums again and again; asking the index costs
more than the rest of planning a read. Used on the event loop only.
"""

from __future__ import annotations

from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.metadata.rows import Rows

_ROWS_MAX = 1_024
"""Of all kinds together."""


class RecentRows:
    """Rows as ``Rows`` returns them, remembered until anything is applied, states until assigned.

    Args:
        rows: asked for what is not remembered.

    Attributes:
        hits: rows that were remembered.
        misses: rows that were looked up.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._version = -1
        self._forget_at = 0
        self.hits = 0
        self.misses = 0
        self._pending_version = (-1, -1)
        self._states: dict[int, SegmentState | None] = {}
        self._layouts: dict[int, Layout] = {}
        self._extents: dict[int, Extent] = {}
        self._chunks: dict[int, Chunk] = {}
        self._sums: dict[tuple[int, int], tuple[int, ...]] = {}

    def pending_state(self, segment_id: int) -> SegmentState | None:
        """State of a segment, as assigned."""
        version = self._rows.pending_version
        if version != self._pending_version or len(self._states) >= _ROWS_MAX:
            self._pending_version = version
            self._states.clear()
        try:
            return self._states[segment_id]
        except KeyError:
            found = self._states[segment_id] = self._rows.pending_state(segment_id)
            return found

    def layout(self, segment_id: int) -> Layout:
        """Layout of a segment."""
        self._refresh()
        found = self._layouts.get(segment_id)
        if found is None:
            self.misses += 1
            found = self._layouts[segment_id] = self._rows.layout(segment_id)
        else:
            self.hits += 1
        return found

    def extents(self, segment_id: int, start: int, end: int, limit: int) -> list[Extent]:
        """Extents that intersect ``[start, end)``, in order, at most ``limit``."""
        self._refresh()
        last = self._extents.get(segment_id)
        if last is not None and last.start <= start < end <= last.end and limit > 0:
            self.hits += 1
            return [last]
        self.misses += 1
        found = self._rows.extents(segment_id, start, end, limit)
        if found:
            self._extents[segment_id] = found[-1]
        return found

    def chunk(self, chunk_id: int) -> Chunk | None:
        """A chunk's row."""
        self._refresh()
        found = self._chunks.get(chunk_id)
        if found is None:
            self.misses += 1
            found = self._rows.chunk(chunk_id)
            if found is not None:
                self._chunks[chunk_id] = found
        else:
            self.hits += 1
        return found

    def sums(self, chunk_id: int, group: int) -> tuple[int, ...]:
        """CRC32C of the blocks of one group; empty when there is no such row."""
        self._refresh()
        found = self._sums.get((chunk_id, group))
        if found is None:
            self.misses += 1
            found = self._sums[chunk_id, group] = self._rows.sums(chunk_id, group)
        else:
            self.hits += 1
        return found

    def _refresh(self) -> None:
        """Forget everything when the table has moved, or when too much is remembered."""
        version = self._rows.version
        if version != self._version or self.misses >= self._forget_at:
            self._version = version
            self._forget_at = self.misses + _ROWS_MAX
            for kind in (self._layouts, self._extents, self._chunks, self._sums):
                kind.clear()
