"""The writer row: how far an exactly-once writer of a segment has come.

Value, under the key of the segment's id and the writer's number. What never changes comes first::

    kind: u8 = 7
    version: u8 = 1
    name: text
    -- tail --
    flags: u8             1 = has appended, 2 = has the sum of its last append
    sequence: uvarint     only if it has appended
    offset: uvarint
    length: uvarint
    used_ms: uvarint
    sum: u32              only if it has one; little-endian
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, text, uvarint

VERSION = 1
_APPENDED = 1
_SUMMED = 2


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
        sum: CRC32C of the bytes of its last append; ``None`` before the first, and in a row of a
            version that kept none.
    """

    segment_id: int
    number: int
    name: str
    sequence: int = -1
    offset: int = 0
    length: int = 0
    used_ms: int = 0
    sum: int | None = None


def encode_writer_head(row: WriterRow) -> bytes:
    """Encode the part of the value that never changes."""
    return head(RowKind.WRITER, VERSION) + text(row.name)


def encode_writer_tail(row: WriterRow) -> bytes:
    """Encode the part of the value that changes."""
    appended = row.sequence >= 0
    summed = row.sum is not None
    mark = bytes((_APPENDED * appended | _SUMMED * summed,))
    if appended:
        mark += uvarint(row.sequence)
    tail = mark + uvarint(row.offset) + uvarint(row.length) + uvarint(row.used_ms)
    return tail if row.sum is None else tail + row.sum.to_bytes(4, "little")


def encode_writer_row(row: WriterRow) -> bytes:
    """Encode the value of the row; segment id and number are in its key."""
    return encode_writer_head(row) + encode_writer_tail(row)


def decode_writer_row(segment_id: int, number: int, value: bytes) -> WriterRow:
    """Decode the value of the row of this segment and writer.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"writer {number} of segment {segment_id}"
    reader = Reader(value, kind=RowKind.WRITER, version=VERSION, where=where)
    name = reader.text()
    flags = reader.flags(_APPENDED | _SUMMED)
    row = WriterRow(
        segment_id=segment_id,
        number=number,
        name=name,
        sequence=reader.uvarint() if flags & _APPENDED else -1,
        offset=reader.uvarint(),
        length=reader.uvarint(),
        used_ms=reader.uvarint(),
        sum=int.from_bytes(reader.raw(4), "little") if flags & _SUMMED else None,
    )
    reader.end()
    return row
