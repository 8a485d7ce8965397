"""The table-log record: one atomic update of tables, as it lies in frames and in the table log.

Layout, little-endian::

    kind: u8 = 1
    version: u8 = 1
    reserved: u16 = 0
    length: u32           bytes of the whole record
    table_version: u64    position in the table log after this record
    running_crc: u32      CRC32C of all records before this one, since the lineage began
    count: u32            entries
    entry[count]:
        table_id: u32
        flags: u8         1 = removal (no value) | 2 = splice (value starts with a u32 position)
                          | 4 = range removal (value is the key after the last, empty: no end)
        reserved: u8 = 0
        key_length: u16
        value_length: u32
        key: bytes[key_length]
        value: bytes[value_length]
    crc: u32              CRC32C of everything before

A splice keeps the first ``position`` bytes of the value that was there and puts the rest of its own
value after them. A range removal takes every key from its own up to, not with, the one that its
value is; what a later entry sets stays. The table version of a record is also the version of every
entry that it wrote.

The running CRC32C goes over the records without their own sums: with them it would depend on
nothing but their lengths, since bytes followed by their own CRC always have the same CRC.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from siltstone.core.checksums import crc32c
from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError, FormatError

KIND = 1
VERSION = 1
KEY_BYTES_MAX = 2**16 - 1
REMOVAL = 1
SPLICE = 2
RANGE_REMOVAL = 4

_HEADER = struct.Struct("<BBHIQII")
_ENTRY = struct.Struct("<IBBHI")
_U32 = struct.Struct("<I")
HEADER_BYTES = _HEADER.size
OVERHEAD_BYTES = HEADER_BYTES + _U32.size
ENTRY_BYTES = _ENTRY.size

_pack_header = _HEADER.pack
_pack_entry = _ENTRY.pack
_pack_u32 = _U32.pack


@dataclass(slots=True, unsafe_hash=True)
class TableEntry:
    """One change of one key, or the removal of a range of keys.

    It is never changed. It is not frozen because that takes six times as long to make, and a commit
    may have a thousand of them.

    Attributes:
        table_id: 0 is the container's own metadata.
        key: 0 to 65,535 bytes.
        value: the new value, or what to put after ``splice_at`` bytes of the old one; ``None``
            removes the key.
        splice_at: keep this many bytes of the old value; ``None`` replaces all of it.
        range_end: remove every key from ``key`` up to, not with, this one; empty means to the end
            of the table. ``None`` changes ``key`` alone. With it ``value`` is ``None``.
    """

    table_id: int
    key: bytes
    value: bytes | None
    splice_at: int | None = None
    range_end: bytes | None = None


class KeyChanges(NamedTuple):
    """Entries of one table in columns, without an object of its own for each.

    A commit of a keyspace has a thousand of them, which Python would look at when it looks for
    garbage.

    Attributes:
        table_id: of the table.
        keys: in order, of 0 to 65,535 bytes.
        values: of each its new value; ``None`` removes it.
    """

    table_id: int
    keys: Sequence[bytes]
    values: Sequence[bytes | None]


Entries = Sequence[TableEntry | KeyChanges]
"""Of one record, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """A decoded record.

    Attributes:
        table_version: position in the table log after it.
        length: bytes of the record; it begins at ``table_version - length``.
        running_crc: CRC32C of the records before it, without their sums.
        crc_after: the same up to and with this record.
        entries: in order; a later one of the same key wins.
    """

    table_version: int
    length: int
    running_crc: int
    crc_after: int
    entries: tuple[TableEntry, ...]


def record_length(entries: Sequence[TableEntry]) -> int:
    """Bytes that the record of these entries has."""
    return OVERHEAD_BYTES + sum(map(_entry_length, entries))


def count_entries(entries: Entries) -> int:
    """How many entries a record of these has."""
    return sum([len(each.keys) if isinstance(each, KeyChanges) else 1 for each in entries])


def encode_entries(entries: Entries) -> bytes:
    """Encode the entries of a record: all of it that does not depend on its place."""
    parts: list[bytes] = []
    for entry in entries:
        if isinstance(entry, KeyChanges):
            parts.append(_encoded_changes(*entry))
            continue
        flags, key, value = 0, entry.key, entry.value
        if value is None:
            end = entry.range_end
            flags, value = (REMOVAL, b"") if end is None else (RANGE_REMOVAL, end)
        elif entry.splice_at is not None:
            flags, value = SPLICE, _pack_u32(entry.splice_at) + value
        parts += (_pack_entry(entry.table_id, flags, 0, len(key), len(value)), key, value)
    return b"".join(parts)


def _encoded_changes(table_id: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> bytes:
    parts: list[bytes] = []
    pack, length = _pack_entry, len
    for key, value in zip(keys, values, strict=True):
        if value is None:
            parts += (pack(table_id, REMOVAL, 0, length(key), 0), key)
        else:
            parts += (pack(table_id, 0, 0, length(key), length(value)), key, value)
    return b"".join(parts)


def encode_table_record(
    entries: Sequence[TableEntry], *, start_version: int, running_crc: int
) -> tuple[bytes, int]:
    """Encode one record that begins at ``start_version`` of the table log.

    Returns:
        The record's bytes, and the running CRC32C after it.
    """
    return encode_record(encode_entries(entries), len(entries), start_version, running_crc)


def encode_record(
    encoded: bytes, count: int, start_version: int, running_crc: int
) -> tuple[bytes, int]:
    """Encode a record of ``count`` entries that are encoded; see ``encode_table_record``."""
    length = OVERHEAD_BYTES + len(encoded)
    head = _pack_header(KIND, VERSION, 0, length, start_version + length, running_crc, count)
    body = head + encoded
    return body + _pack_u32(crc32c(body)), crc32c(body, running_crc)


def encoded_length(data: Buffer, offset: int) -> int | None:
    """Bytes of the record that starts at ``offset``; ``None`` if too little is there to tell.

    Not verified: a damaged length is found when the record is decoded. Never 0.
    """
    if len(data) - offset < HEADER_BYTES:
        return None
    return max(OVERHEAD_BYTES, int(_HEADER.unpack_from(data, offset)[3]))


def table_record_place(data: Buffer, *, where: str) -> tuple[int, int, int]:
    """Where the first record of ``data`` is in the table log, as its head says.

    Nothing else of the record is looked at, so its own sum is not verified.

    Returns:
        Where it begins, the table version after it, and the running CRC32C before it.

    Raises:
        CorruptDataError: too little is there.
        FormatError: a record of a newer version.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptDataError("table record is cut", where=where, offset=0)
    kind, version, _, length, table_version, running_crc, _ = _HEADER.unpack_from(data)
    if kind != KIND or version != VERSION:
        raise FormatError.of_version("table record", version, VERSION, kind=kind, where=where)
    return table_version - length, table_version, running_crc


def decode_table_record(data: Buffer, offset: int = 0, *, where: str) -> TableRecord:
    """Decode the record that starts at ``offset`` of ``data``.

    Raises:
        CorruptDataError: the bytes are not one whole valid record; ``where`` is named.
        FormatError: a valid record of a newer version.
    """
    left = len(data) - offset
    if left < OVERHEAD_BYTES:
        raise CorruptDataError("table record is cut", where=where, offset=offset)
    kind, version, _, length, table_version, running_crc, count = _HEADER.unpack_from(data, offset)
    if not OVERHEAD_BYTES <= length <= left:
        raise CorruptDataError("table record is cut", where=where, offset=offset, length=length)
    end = length - _U32.size
    record = bytes(data[offset : offset + end])
    (crc,) = _U32.unpack_from(data, offset + end)
    if crc32c(record) != crc:
        raise CorruptDataError("table record does not match its sum", where=where, offset=offset)
    if kind != KIND or version != VERSION:
        raise FormatError.of_version("table record", version, VERSION, kind=kind, where=where)
    try:
        entries, length_of_all = _entries(record, count)
    except struct.error as error:
        raise CorruptDataError("table record is impossible", where=where, offset=offset) from error
    if length_of_all != end:
        raise CorruptDataError("table record has a wrong count", where=where, offset=offset)
    return TableRecord(
        table_version=table_version,
        length=length,
        running_crc=running_crc,
        crc_after=crc32c(record, running_crc),
        entries=tuple(entries),
    )


def _entries(record: bytes, count: int) -> tuple[list[TableEntry], int]:
    """The entries of a record without its sum, and where in it they end."""
    entries: list[TableEntry] = []
    position = HEADER_BYTES
    for _ in range(count):
        table_id, flags, _, key_length, value_length = _ENTRY.unpack_from(record, position)
        value_at = position + ENTRY_BYTES + key_length
        key = record[position + ENTRY_BYTES : value_at]
        position = value_at + value_length
        value = record[value_at:position]
        if flags == 0:
            entries.append(TableEntry(table_id, key, value))
        elif flags == SPLICE:
            (kept,) = _U32.unpack_from(value)
            entries.append(TableEntry(table_id, key, value[_U32.size :], kept))
        elif flags == REMOVAL:
            entries.append(TableEntry(table_id, key, None))
        elif flags == RANGE_REMOVAL:
            entries.append(TableEntry(table_id, key, None, range_end=value))
        else:
            raise FormatError("table entry with unknown flags", flags=flags)
    return entries, position


def _entry_length(entry: TableEntry) -> int:
    splice = 0 if entry.splice_at is None else _U32.size
    return ENTRY_BYTES + len(entry.key) + len(entry.value or entry.range_end or b"") + splice
