"""The layout row: which range of a segment lies in chunks. Written by the storage writer alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layout of one segment; its extents are contiguous from ``storage_start`` to ``storage_length``.

    Attributes:
        segment_id: the segment.
        storage_start: start of the first extent; equals ``storage_length`` when there is none.
        storage_length: end of the last extent, that is, the flushed length.
        last_chunk_id: the chunk that the next flush may append to, 0 when it must make a new one.
    """

    segment_id: int
    storage_start: int = 0
    storage_length: int = 0
    last_chunk_id: int = 0
