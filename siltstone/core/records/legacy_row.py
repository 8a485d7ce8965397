"""The legacy row: a segment whose bytes are written into files of a legacy layout.

Value, under the key of the segment's id; under 0 stands what new segments of the container get::

    kind: u8 = 22
    version: u8 = 1, or 2 with what may lie ahead
    flags: u8             1 = sealed | 2 = bare
    session_id: uvarint
    rolling_bytes: uvarint
    header_length: uvarint
    header_crc: uvarint
    prefix: text
    source: text
    suffix: text
    listed: text
    ahead_start: uvarint  in version 2 alone
    ahead_end: uvarint    in version 2 alone
"""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, text, uvarint

VERSION = 1
VERSION_AHEAD = 2
_SEALED = 1
_BARE = 2

NEW_SEGMENTS = 0
"""In place of a segment's id: what new segments of the container get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRow:
    """Where and how the bytes of a segment are written.

    Attributes:
        segment_id: the segment, or ``NEW_SEGMENTS``.
        session_id: the session whose adoption its files belong to.
        rolling_bytes: a file gets no more from this many bytes on; at least 1.
        header_length: bytes of the header that are written; 0 while there is none.
        header_crc: CRC32C of these bytes.
        prefix: of the keys of all files; empty, or with ``/`` at its end.
        source: the segment's name in the layout; of ``NEW_SEGMENTS`` what names in the store begin
            with.
        suffix: what the names of files end with; empty where they tell no epoch.
        listed: key, below the prefix, of an empty file that the header lists already, for the next
            bytes; empty when there is none.
        bare: no header lists the bytes that came first: they lie in a file of the segment's name.
        sealed: the files say that the segment is sealed.
        ahead_start: where the first file begins that no chunk names and a flush may have begun.
        ahead_end: where the last of these files ends at most; 0 when there are none.
    """

    segment_id: int
    session_id: int
    rolling_bytes: int
    prefix: str
    source: str
    suffix: str = ""
    header_length: int = 0
    header_crc: int = 0
    listed: str = ""
    bare: bool = False
    sealed: bool = False
    ahead_start: int = 0
    ahead_end: int = 0


def encode_legacy_row(row: LegacyRow) -> bytes:
    """Encode the value of the row; the segment's id is in its key."""
    flags = bytes(((_SEALED if row.sealed else 0) | (_BARE if row.bare else 0),))
    numbers = (row.session_id, row.rolling_bytes, row.header_length, row.header_crc)
    texts = (row.prefix, row.source, row.suffix, row.listed)
    begin = head(RowKind.LEGACY, VERSION_AHEAD if row.ahead_end else VERSION) + flags
    ahead = (row.ahead_start, row.ahead_end) if row.ahead_end else ()
    parts = (map(uvarint, numbers), map(text, texts), map(uvarint, ahead))
    return begin + b"".join(part for each in parts for part in each)


def decode_legacy_row(segment_id: int, value: bytes) -> LegacyRow:
    """Decode the value of the row of this segment.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"legacy row of segment {segment_id}"
    version = VERSION_AHEAD if value[1:2] == bytes((VERSION_AHEAD,)) else VERSION
    reader = Reader(value, kind=RowKind.LEGACY, version=version, where=where, known=VERSION_AHEAD)
    flags = reader.flags(_SEALED | _BARE)
    row = LegacyRow(
        segment_id=segment_id,
        session_id=reader.uvarint(),
        rolling_bytes=reader.uvarint(),
        header_length=reader.uvarint(),
        header_crc=reader.uvarint(),
        prefix=reader.text(),
        source=reader.text(),
        suffix=reader.text(),
        listed=reader.text(),
        bare=bool(flags & _BARE),
        sealed=bool(flags & _SEALED),
        ahead_start=reader.uvarint() if version == VERSION_AHEAD else 0,
        ahead_end=reader.uvarint() if version == VERSION_AHEAD else 0,
    )
    reader.end()
    if not row.rolling_bytes:
        raise reader.damaged("no file could hold a byte")
    if version == VERSION_AHEAD and row.ahead_start >= row.ahead_end:
        raise reader.damaged("nothing lies ahead")
    return row
