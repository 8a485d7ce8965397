"""The time row: until when the bytes below an append border of a segment were appended.

Value, under the key of segment and offset::

    kind: u8 = 14
    version: u8 = 1 | 2
    time_ms: uvarint
    fall: uvarint         only in version 2: offset of the last row before the clock went back
    falls: uvarint        only in version 2: how often it did

A row before which no clock went back is written in version 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, uvarint

VERSION = 1
FALLEN_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRow:
    """An append border of a segment.

    Attributes:
        segment_id: the segment.
        offset: the border, in bytes.
        time_ms: no byte since the row before was appended later, milliseconds since 1970. It is
            not below that of the row before, unless ``fall`` names that row.
        fall: offset of the last row before the clock went back; 0 if it never did, as far as the
            segment is readable.
        falls: how many such rows there are, 0 with ``fall`` alone.
    """

    segment_id: int
    offset: int
    time_ms: int
    fall: int = 0
    falls: int = 0


def encode_time_row(row: TimeRow) -> bytes:
    """Encode the value of the row; segment and offset are in its key."""
    assert bool(row.fall) == bool(row.falls), "a count goes with the last of them"
    if not row.fall:
        return head(RowKind.TIME, VERSION) + uvarint(row.time_ms)
    value = head(RowKind.TIME, FALLEN_VERSION) + uvarint(row.time_ms)
    return value + uvarint(row.fall) + uvarint(row.falls)


def decode_time_row(segment_id: int, offset: int, value: bytes) -> TimeRow:
    """Decode the value of the row of this segment and offset.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"append time of segment {segment_id} at {offset}"
    fallen = len(value) > 1 and value[1] == FALLEN_VERSION
    version = FALLEN_VERSION if fallen else VERSION
    reader = Reader(value, kind=RowKind.TIME, version=version, known=FALLEN_VERSION, where=where)
    time_ms = reader.uvarint()
    fall = reader.uvarint() if fallen else 0
    falls = reader.uvarint() if fallen else 0
    if fallen and not (0 < fall < offset and falls):
        raise reader.damaged("row has an impossible fall")
    reader.end()
    return TimeRow(segment_id=segment_id, offset=offset, time_ms=time_ms, fall=fall, falls=falls)
