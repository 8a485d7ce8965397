"""The state row: what the container decides about a segment, acknowledged without waiting for I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentState:
    """State of one segment.

    Attributes:
        segment_id: never used again.
        name: the segment's name.
        start_offset: first readable offset in bytes.
        sealed_length: the final length once sealed, else ``None``.
        deleted: no reader may use it any more; its rows and chunks go in slices.
        created_ms: time of creation, milliseconds since 1970, set by the owner.
    """

    segment_id: int
    name: str
    start_offset: int = 0
    sealed_length: int | None = None
    deleted: bool = False
    created_ms: int = 0
