"""The writer row: how far an exactly-once writer of a segment has come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterRow:
    """One writer of one segment.

    Attributes:
        segment_id: the segment.
        number: the writer's number, never used again within the container.
        name: the name that the application chose; 1 to 256 bytes of UTF-8.
        sequence: its last sequence, -1 before the first.
        offset: where its last append begins, in bytes.
        length: bytes of its last append.
        used_ms: when it last appended or registered, milliseconds since 1970.
    """

    segment_id: int
    number: int
    name: str
    sequence: int = -1
    offset: int = 0
    length: int = 0
    used_ms: int = 0
