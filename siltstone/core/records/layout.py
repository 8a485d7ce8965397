"""The layout row: which range of a segment lies in chunks. Written by the segment flusher alone.

Value, under the key of the segment's id::

    kind: u8 = 3
    version: u8 = 1
    storage_start: uvarint
    storage_length: uvarint
    last_chunk_id: uvarint
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, uvarint

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layout of one segment; its extents run from ``storage_start`` to ``storage_length``, no gaps.

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

    def grown(self, start: int, end: int, last_chunk_id: int = 0) -> Layout:
        """The layout when ``[start, end)`` lies in chunks too; only an empty one begins there."""
        emptied = self.storage_start == self.storage_length
        return Layout(
            segment_id=self.segment_id,
            storage_start=start if emptied else self.storage_start,
            storage_length=end,
            last_chunk_id=last_chunk_id,
        )


def encode_layout(layout: Layout) -> bytes:
    """Encode the value of the row; the segment's id is in its key."""
    return b"".join(
        (
            head(RowKind.LAYOUT, VERSION),
            uvarint(layout.storage_start),
            uvarint(layout.storage_length),
            uvarint(layout.last_chunk_id),
        )
    )


def decode_layout(segment_id: int, value: bytes) -> Layout:
    """Decode the value of the row of this segment.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"layout of segment {segment_id}"
    reader = Reader(value, kind=RowKind.LAYOUT, version=VERSION, where=where)
    layout = Layout(
        segment_id=segment_id,
        storage_start=reader.uvarint(),
        storage_length=reader.uvarint(),
        last_chunk_id=reader.uvarint(),
    )
    reader.end()
    return layout
