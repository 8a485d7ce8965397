"""The head: what is known of an object without its value. The value of a ledger row.

Layout, little-endian::

    kind: u8 = 1
    version: u8 = 1
    flags: u8             0 | 1 = a large value, which has a place
    reserved: u8 = 0
    sqn: u64
    previous: u64         SQN of what it replaced; 0 for nothing
    number: u32           value segment of the record
    offset: u64           where the record begins in it
    length: u32           bytes of the record
    size: u64             bytes of the value
    value_hash: bytes[8]
    modified_ms: u64      milliseconds since 1970
    expires_s: u32        seconds since 1970; 0 for never
    entries: u16          index entries, the whole set
    entry[entries]:
        field_length: u8
        term_length: u16
        field, term: bytes
    place: bytes[16]      large value only: ``large_place.py``
    metadata: bytes       the rest
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.records.keys import IndexEntry, Pair, encode_entries
from siltstone.objects.records.large_place import (
    LARGE,
    PLACE_BYTES,
    SUM_BYTES,
    LargePlace,
    decode_place,
    encode_place,
)

KIND: Final = 1
VERSION: Final = 1
_FIXED: Final = struct.Struct("<BBBBQQIQIQ8sQIH")
_ENTRY: Final = struct.Struct("<BH")
_ENTRY_BYTES: Final = _ENTRY.size
_unpack_fields = struct.Struct("<4xQQIQIQ8sQIH").unpack_from
_unpack_entry = _ENTRY.unpack_from
_BEGIN: Final = (KIND, VERSION, 0, 0)
_BEGIN_LARGE: Final = (KIND, VERSION, LARGE, 0)
_BEGIN_BYTES: Final = bytes(_BEGIN)
_HASH: Final = 44
"""Where the hash is, before the time of change."""
_EXPIRES: Final = 60
"""Where the rest is that follows that."""
_ENDS: Final = slice(_EXPIRES, _EXPIRES + 4)
"""Where a row says when the object expires."""
_NEVER: Final = bytes(4)
"""What is there if it never does."""
_new_tuple = tuple.__new__


HeadFields = tuple[int, int, int, int, int, int, bytes, int, int, int]
"""The first nine fields of a ``Head``, which have a fixed length, and the count of its entries."""


class Head(NamedTuple):
    """A head as the ledger has it.

    Attributes:
        sqn: number of the change that made the object what it is.
        previous: SQN of what that replaced; 0 for nothing.
        number: number of the value segment with the record.
        offset: where the record begins in it.
        length: bytes of the record.
        size: bytes of the value.
        value_hash: 8 bytes.
        modified_ms: milliseconds since 1970.
        expires_s: seconds since 1970; 0 for never.
        entries: all its index entries, in order.
        metadata: what the caller noted.
        large: where the value lies if it is a large one; ``None`` means in the record.
    """

    sqn: int
    previous: int
    number: int
    offset: int
    length: int
    size: int
    value_hash: bytes
    modified_ms: int
    expires_s: int
    entries: tuple[Pair, ...]
    metadata: bytes
    large: LargePlace | None = None

    @property
    def header_length(self) -> int:
        """Bytes of the header of the record, whatever index it has: a rebuild may make another."""
        value = self.size + SUM_BYTES if self.large is None else 0
        return max(1, self.length - value)

    def is_visible(self, now_s: float) -> bool:
        """Whether it has not expired at ``now_s``, seconds since 1970."""
        return not self.expires_s or now_s < self.expires_s


def encode_head(head: Head, encoded: bytes | None = None) -> bytes:
    """Encode the value of the row.

    Args:
        head: of an object.
        encoded: what ``encode_entries`` makes of its entries, if that is known.
    """
    if encoded is None:
        encoded = encode_entries(head.entries)
    large = head.large
    flags, place = (0, b"") if large is None else (LARGE, encode_place(large))
    fixed = _FIXED.pack(KIND, VERSION, flags, 0, *head[:9], len(head.entries))
    return fixed + encoded + place + head.metadata


def decode_head(value: bytes, *, where: str) -> Head:
    """Decode the value of the row of the object ``where`` names.

    Raises:
        CorruptDataError: damaged.
        FormatError: of another kind or version.
    """
    if len(value) < _FIXED.size:
        raise CorruptDataError("head is cut", where=where)
    fields = _FIXED.unpack_from(value)
    if fields[:4] != _BEGIN and fields[:4] != _BEGIN_LARGE:
        raise _unknown(fields, where)
    position = _FIXED.size
    index = []
    for _ in range(fields[13]):
        if position + _ENTRY.size > len(value):
            raise CorruptDataError("head is cut", where=where)
        field_length, term_length = _ENTRY.unpack_from(value, position)
        position += _ENTRY.size
        field = value[position : position + field_length]
        position += field_length
        index.append(_new_tuple(IndexEntry, (field, value[position : position + term_length])))
        position += term_length
    if position > len(value):
        raise CorruptDataError("head is cut", where=where)
    large = None
    if fields[2]:
        large = decode_place(value, position, where=where)
        position += PLACE_BYTES
    # The order is that of the row; naming each of them costs more than decoding them.
    return _new_tuple(Head, (*fields[4:13], tuple(index), value[position:], large))


def head_fields(value: bytes, row_key: bytes) -> HeadFields:
    """Return the fields of a fixed length of what ``decode_head`` decodes.

    The others are passed over: that takes a quarter of the time. Raises what it raises.
    """
    try:
        fields: HeadFields = _unpack_fields(value)
        position = _FIXED.size
        for _ in range(fields[9]):
            field_length, term_length = _unpack_entry(value, position)
            position += field_length + term_length + _ENTRY_BYTES
    except struct.error:
        position = len(value) + 1
    if value[:4] != _BEGIN_BYTES or position > len(value):
        decode_head(value, where=row_key.hex())  # of a large value, or it raises
    return fields


def is_large(value: bytes) -> bool:
    """Whether the row is that of a large value."""
    return value[2] != 0


def compared_bytes(value: bytes) -> bytes:
    """All of a row that says what the object is: not when and where it was written.

    They are its hash, when it expires, its index entries and its metadata. Raises like
    ``decode_head`` if the row is of another kind or version.
    """
    if value[:4] == _BEGIN_BYTES:
        return value[_HASH : _HASH + 8] + value[_EXPIRES:]
    head = decode_head(value, where="")  # without the place of a large value
    ends = value[_EXPIRES : _FIXED.size]
    return head.value_hash + ends + encode_entries(head.entries) + head.metadata


def has_expired(value: bytes, now_s: float) -> bool:
    """Whether the object of a row has expired, as ``is_visible``: for who looks at millions."""
    expires = value[_ENDS]
    return expires != _NEVER and int.from_bytes(expires, "little") <= now_s


def _unknown(fields: tuple[int, ...], where: str) -> FormatError:
    kind, version, flags, reserved = fields[:4]
    if kind != KIND:
        return FormatError("head of an unknown kind", where=where, kind=kind)
    if version != VERSION:
        return FormatError.of_version("head", version, VERSION, where=where)
    return FormatError("head has unknown flags", where=where, flags=flags, reserved=reserved)
