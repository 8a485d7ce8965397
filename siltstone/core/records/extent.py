"""The extent row: a run of a segment's bytes in a chunk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """``length`` bytes of a segment from ``start`` on, at ``chunk_offset`` in a chunk.

    Attributes:
        segment_id: the segment.
        start: offset in the segment, in bytes.
        chunk_id: the chunk.
        chunk_offset: offset in the chunk, in bytes.
        length: at least 1 byte.
    """

    segment_id: int
    start: int
    chunk_id: int
    chunk_offset: int
    length: int

    @property
    def end(self) -> int:
        """Offset in the segment behind the last byte."""
        return self.start + self.length
