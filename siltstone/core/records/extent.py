"""The extent row: a run of a segment's bytes in a chunk.

Value, under the key of the segment's id and the start::

    kind: u8 = 4
    version: u8 = 1
    chunk_id: uvarint
    chunk_offset: uvarint
    length: uvarint       at least 1
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, uvarint

VERSION = 1


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
        """Offset in the segment after the last byte."""
        return self.start + self.length


def encode_extent(extent: Extent) -> bytes:
    """Encode the value of the row; segment id and start are in its key."""
    return b"".join(
        (
            head(RowKind.EXTENT, VERSION),
            uvarint(extent.chunk_id),
            uvarint(extent.chunk_offset),
            uvarint(extent.length),
        )
    )


def decode_extent(segment_id: int, start: int, value: bytes) -> Extent:
    """Decode the value of the row of this segment and start.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"extent {start} of segment {segment_id}"
    reader = Reader(value, kind=RowKind.EXTENT, version=VERSION, where=where)
    extent = Extent(
        segment_id=segment_id,
        start=start,
        chunk_id=reader.uvarint(),
        chunk_offset=reader.uvarint(),
        length=reader.uvarint(),
    )
    reader.end()
    if extent.length == 0:
        raise reader.damaged("extent is empty")
    return extent
