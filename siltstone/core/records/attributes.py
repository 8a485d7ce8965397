"""The attributes row: what users noted about a segment. A segment without notes has no such row.

Value, under the segment's id::

    kind: u8 = 13
    version: u8 = 1
    count: uvarint
    attribute[count]:     in the order of the keys' bytes, no key twice
        key: text
        value: text
"""

from __future__ import annotations

from collections.abc import Mapping

from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import Reader, head, text, uvarint

VERSION = 1


def encode_attributes(attributes: Mapping[str, str]) -> bytes:
    """Encode the value of the row; the segment's id is in its key."""
    ordered = sorted(attributes.items(), key=lambda item: item[0].encode("utf-8"))
    fields = [text(part) for item in ordered for part in item]
    return b"".join((head(RowKind.ATTRIBUTES, VERSION), uvarint(len(ordered)), *fields))


def decode_attributes(segment_id: int, value: bytes) -> dict[str, str]:
    """Decode the value of the row of this segment.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"attributes of segment {segment_id}"
    reader = Reader(value, kind=RowKind.ATTRIBUTES, version=VERSION, where=where)
    found: dict[str, str] = {}
    last = b""
    for number in range(reader.uvarint()):
        key = reader.text()
        raw = key.encode("utf-8")
        if number and raw <= last:
            raise reader.damaged("attributes are out of order")
        last = raw
        found[key] = reader.text()
    reader.end()
    return found
