"""The time row: until when the bytes below an append border of a segment were appended.

Value, under the key of segment and offset::

    kind: u8 = 14
    version: u8 = 1
    time_ms: uvarint
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, uvarint

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRow:
    """An append border of a segment.

    Attributes:
        segment_id: the segment.
        offset: the border, in bytes.
        time_ms: no byte below ``offset`` was appended later, milliseconds since 1970. It never
            falls from one border to the next, whatever the clock did.
    """

    segment_id: int
    offset: int
    time_ms: int


def encode_time_row(row: TimeRow) -> bytes:
    """Encode the value of the row; segment and offset are in its key."""
    return head(RowKind.TIME, VERSION) + uvarint(row.time_ms)


def decode_time_row(segment_id: int, offset: int, value: bytes) -> TimeRow:
    """Decode the value of the row of this segment and offset.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"append time of segment {segment_id} at {offset}"
    reader = Reader(value, kind=RowKind.TIME, version=VERSION, where=where)
    row = TimeRow(segment_id=segment_id, offset=offset, time_ms=reader.uvarint())
    reader.end()
    return row
