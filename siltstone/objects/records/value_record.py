"""A record of the value log: one change of one object, with the value if it has one.

Layout, little-endian::

    kind: u8              1 = standard | 2 = key-delta (no value) | 3 = tombstone (no value)
    version: u8 = 1
    flags: u8             0 = the value as it was given | 1 = a large value, which lies elsewhere
    tag_length: u8
    header_length: u32    bytes from the beginning to the end of header_crc
    stored_length: u32    bytes of the value as they are here; 0 without one
    sqn: u64
    previous: u64         SQN of what this change replaced; 0 for nothing
    modified_ms: u64      milliseconds since 1970
    size: u64             bytes of the value
    value_hash: bytes[8]
    expires_s: u32        seconds since 1970; 0 for never
    bucket_length: u16
    key_length: u16
    subkey_length: u16
    entries: u16          index entries, the whole set
    metadata_length: u32
    tag, bucket, key, subkey: bytes
    entry[entries]:
        field_length: u8
        term_length: u16
        field, term: bytes
    place: bytes[16]      large value only: ``large_place.py``
    metadata: bytes
    header_crc: u32       CRC32C of everything before
    value: bytes[stored_length]        standard only, and no large value
    value_crc: u32                     the same: CRC32C of these bytes
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from siltstone.core.checksums import crc32c
from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.records.keys import IndexEntry, ObjectKey, Pair, encode_entries
from siltstone.objects.records.large_place import (
    LARGE,
    PLACE_BYTES,
    LargePlace,
    decode_place,
    encode_place,
)
from siltstone.objects.records.limits import HEADER_BYTES_MAX

VERSION: Final = 1
_FIXED: Final = struct.Struct("<BBBBIIQQQQ8sIHHHHI")
_IDENTITY: Final = struct.Struct("<3sBIIQ16xQ8s4xHHH")
"""Of the fixed part of a header, what tells a record with a value from others."""
_ENTRY: Final = struct.Struct("<BH")
_U32: Final = struct.Struct("<I")

FIXED_BYTES: Final = _FIXED.size
"""Bytes of a header that say how long it is."""

_HEADER_MIN: Final = FIXED_BYTES + _U32.size


class ValueKind(IntEnum):
    """What a record is. Numbers are persisted and never change."""

    STANDARD = 1
    KEY_DELTA = 2
    TOMBSTONE = 3


_STANDARD_BEGIN: Final = bytes((ValueKind.STANDARD, VERSION, 0))


class RecordHeader(NamedTuple):
    """A record without its value.

    Attributes:
        kind: what it is.
        sqn: number of the change.
        previous: SQN of what it replaced; 0 for nothing.
        modified_ms: when it was made, milliseconds since 1970.
        size: bytes of the value.
        value_hash: 8 bytes, of value and metadata or as the caller gave it.
        expires_s: seconds since 1970; 0 for never.
        key: the object.
        entries: all its index entries, in order.
        metadata: what the caller noted.
        stored: bytes of the value as they are in the record.
        large: where a large value lies; ``None`` for any other, and without a value.
    """

    kind: ValueKind
    sqn: int
    previous: int
    modified_ms: int
    size: int
    value_hash: bytes
    expires_s: int
    key: ObjectKey
    entries: tuple[Pair, ...]
    metadata: bytes
    stored: int
    large: LargePlace | None = None

    @property
    def length(self) -> int:
        """Bytes of the header with its sum."""
        return length_of_header(self.key, self.entries, self.metadata, self.large)

    @property
    def has_value(self) -> bool:
        """Whether the value is in the record."""
        return self.kind is ValueKind.STANDARD and self.large is None

    @property
    def record_length(self) -> int:
        """Bytes of the record."""
        return self.length_after(self.length)

    def length_after(self, length: int) -> int:
        """Bytes of the record, whose header has so many: to add those up takes long."""
        return length + self.stored + _U32.size if self.has_value else length


def length_of_header(
    key: ObjectKey, entries: tuple[Pair, ...], metadata: bytes, large: LargePlace | None
) -> int:
    """Bytes of the header of such a record, with its sum."""
    index = sum(_ENTRY.size + len(field) + len(term) for field, term in entries)
    place = 0 if large is None else PLACE_BYTES
    return _HEADER_MIN + sum(map(len, key)) + index + place + len(metadata)


def encode_header(header: RecordHeader, encoded: bytes | None = None) -> bytes:
    """Encode a header with its sum.

    Args:
        header: of a record.
        encoded: what ``encode_entries`` makes of its entries, if that is known.
    """
    key = header.key
    if encoded is None:
        encoded = encode_entries(header.entries)
    place = b"" if header.large is None else encode_place(header.large)
    body = b"".join((*key, encoded, place, header.metadata))
    fixed = _FIXED.pack(
        header.kind,
        VERSION,
        0 if header.large is None else LARGE,
        len(key.tag),
        _HEADER_MIN + len(body),
        header.stored,
        header.sqn,
        header.previous,
        header.modified_ms,
        header.size,
        header.value_hash,
        header.expires_s,
        len(key.bucket),
        len(key.key),
        len(key.subkey),
        len(header.entries),
        len(header.metadata),
    )
    head = fixed + body
    return head + _U32.pack(crc32c(head))


def encode_value_sum(value: Buffer) -> bytes:
    """What follows the value of a standard record: its sum."""
    return _U32.pack(crc32c(value))


def header_length(data: Buffer, offset: int, *, where: str) -> int:
    """Bytes of the header that begins at ``offset``, of which ``FIXED_BYTES`` are there.

    They are not verified: ``decode_header`` does that.

    Raises:
        CorruptDataError: no header has this length.
    """
    length: int = _U32.unpack_from(data, offset + 4)[0]
    if not _HEADER_MIN <= length <= HEADER_BYTES_MAX:
        raise CorruptDataError("record has an impossible header", where=where, at=offset)
    return length


def decode_header(data: Buffer, offset: int = 0, *, where: str) -> RecordHeader:
    """Decode and verify the header that begins at ``offset``; what follows it is ignored.

    Raises:
        CorruptDataError: there is no whole header, or it does not match its sum.
        FormatError: a whole header of an unknown kind or version.
    """
    view = memoryview(data)[offset:]
    if len(view) < _HEADER_MIN:
        raise CorruptDataError("record is cut", where=where, at=offset)
    length = header_length(view, 0, where=where)
    if len(view) < length:
        raise CorruptDataError("record is cut", where=where, at=offset)
    end = length - _U32.size
    if crc32c(view[:end]) != _U32.unpack_from(view, end)[0]:
        raise CorruptDataError("record does not match its sum", where=where, at=offset)
    fields = _FIXED.unpack_from(view)
    kind, version, flags, tag_length = fields[:4]
    if version != VERSION:
        raise FormatError.of_version("value record", version, VERSION, where=where)
    known = (0, LARGE) if kind == ValueKind.STANDARD else (0,)
    if flags not in known or kind not in ValueKind.__members__.values():
        raise FormatError("value record of an unknown kind", where=where, kind=kind, flags=flags)
    stored, size = fields[5], fields[9]
    if stored != (size if kind == ValueKind.STANDARD and not flags else 0):
        raise CorruptDataError("record has a value of another length", where=where, at=offset)
    body = bytes(view[FIXED_BYTES:end])
    return _header(ValueKind(kind), fields, tag_length, body, where)


def _header(
    kind: ValueKind,
    fields: tuple[int, ...],
    tag_length: int,
    body: bytes,
    where: str,
) -> RecordHeader:
    _, _, flags, _, _, stored, sqn, previous, modified_ms, size, value_hash, expires_s = fields[:12]
    bucket_length, key_length, subkey_length, count, metadata_length = fields[12:]
    position = 0
    names = []
    for part in (tag_length, bucket_length, key_length, subkey_length):
        names.append(body[position : position + part])
        position += part
    index = []
    for _ in range(count):
        if position + _ENTRY.size > len(body):
            raise CorruptDataError("record has another length than its parts", where=where)
        field_length, term_length = _ENTRY.unpack_from(body, position)
        position += _ENTRY.size
        field = body[position : position + field_length]
        position += field_length
        index.append(IndexEntry(field, body[position : position + term_length]))
        position += term_length
    large = None
    if flags:
        large = decode_place(body, position, where=where)
        position += PLACE_BYTES
    if position + metadata_length != len(body):
        raise CorruptDataError("record has another length than its parts", where=where)
    return RecordHeader(
        kind=kind,
        sqn=sqn,
        previous=previous,
        modified_ms=modified_ms,
        size=size,
        value_hash=value_hash,  # type: ignore[arg-type]
        expires_s=expires_s,
        key=ObjectKey(*names),
        entries=tuple(index),
        metadata=body[position:],
        stored=stored,
        large=large,
    )


def decode_record(data: Buffer, *, where: str) -> tuple[RecordHeader, bytes]:
    """Decode and verify the one record that ``data`` is; without a value in it that is empty.

    Raises:
        CorruptDataError: it is not one whole record, or does not match its sums.
        FormatError: a record of an unknown kind or version.
    """
    header = decode_header(data, where=where)
    if len(memoryview(data)) != header.record_length:
        raise CorruptDataError("record has another length", where=where)
    if not header.has_value:
        return header, b""
    view = memoryview(data)[header.length :]
    value = bytes(view[: header.stored])
    if crc32c(value) != _U32.unpack_from(view, header.stored)[0]:
        raise CorruptDataError("value does not match its sum", where=where)
    return header, value


def check_change(key: ObjectKey, sqn: int, value_hash: bytes, data: Buffer, *, where: str) -> None:
    """Look whether ``data`` begins with the header of this change.

    Raises:
        CorruptDataError: it does not, or the header does not match its sum.
        FormatError: a header of an unknown kind or version.
    """
    header = decode_header(data, where=where)
    if (header.key, header.sqn, header.value_hash) != (key, sqn, value_hash):
        raise CorruptDataError("another record is there", where=where)


def value_of_change(
    data: Buffer, key: ObjectKey, sqn: int, size: int, value_hash: bytes, *, where: str
) -> bytes:
    """Return the value in the one record that ``data`` is, verified, and of this change.

    The rest of the header is compared with its sum and not decoded.

    Raises:
        CorruptDataError: it is not one whole record, does not match its sums, or is of another
            change.
        FormatError: a record of an unknown kind or version.
    """
    view = memoryview(data)
    if len(view) >= _HEADER_MIN:
        tag, bucket, name, subkey = key
        found = _IDENTITY.unpack_from(view)
        length, stored = found[2:4]
        identity = (sqn, size, value_hash, len(bucket), len(name), len(subkey))
        expected = (_STANDARD_BEGIN, len(tag), length, stored, *identity)
        names, end = b"".join(key), length - _U32.size
        if (
            found == expected
            and FIXED_BYTES + len(names) <= end
            and len(view) == length + stored + _U32.size
            and view[FIXED_BYTES : FIXED_BYTES + len(names)] == names
            and crc32c(view[:end]) == _U32.unpack_from(view, end)[0]
        ):
            value = bytes(view[length : length + stored])
            if crc32c(value) == _U32.unpack_from(view, length + stored)[0]:
                return value
    decode_record(data, where=where)
    raise CorruptDataError("another record is there", where=where)
