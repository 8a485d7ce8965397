"""The envelope of records that stand alone: journal files and the objects under ``system/``.

Layout, little-endian::

    magic: bytes[4] = b"SLTR"
    kind: u8              what the body is, see ``RecordKind``
    version: u8           of the body's layout
    reserved: u16 = 0
    length: u32           bytes of the body
    body: bytes[length]
    crc: u32              CRC32C of everything before

The envelope itself has no version: a reader can always tell a whole record of a newer version from
a damaged one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from siltstone.core.checksums import crc32c
from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError, FormatError

MAGIC = b"SLTR"

_HEADER = struct.Struct("<4sBBHI")
_TRAILER = struct.Struct("<I")
HEADER_BYTES = _HEADER.size
TRAILER_BYTES = _TRAILER.size
OVERHEAD_BYTES = HEADER_BYTES + TRAILER_BYTES


class RecordKind(IntEnum):
    """What a record is. Numbers are persisted and never change."""

    JOURNAL_BATCH = 1
    CHECKPOINT = 2
    STORE_MANIFEST = 3
    CLAIM = 4
    PIN = 5
    RECOVERY = 6
    BACKUP = 7
    IMPORT_NOTE = 8
    KEYSPACE_BACKUP = 9
    ENTRY = 20
    ROLLUP = 21
    COLLECTION_STATE = 22
    COLLECTION_CONSENSUS = 24
    VOLUME_COMMIT = 30
    VOLUME_PLACE = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A whole record whose sum is right.

    Attributes:
        kind: number of the kind, known or not.
        version: of the body's layout, known or not.
        body: the record itself, undecoded.
        size: bytes of the record, header and trailer included.
    """

    kind: int
    version: int
    body: bytes
    size: int


def seal(kind: RecordKind, version: int, body: bytes) -> bytes:
    """Wrap ``body`` into an envelope."""
    head = _HEADER.pack(MAGIC, kind, version, 0, len(body)) + body
    return head + _TRAILER.pack(crc32c(head))


def claimed_kind(data: Buffer, offset: int = 0) -> int | None:
    """Kind that the bytes at ``offset`` claim, unverified; ``None`` when they claim nothing."""
    view = memoryview(data)[offset:]
    if len(view) < HEADER_BYTES or bytes(view[: len(MAGIC)]) != MAGIC:
        return None
    return view[len(MAGIC)]


def is_cut(data: Buffer, offset: int = 0) -> bool:
    """Whether the bytes from ``offset`` on are a record's beginning whose end is missing."""
    view = memoryview(data)[offset:]
    if len(view) < HEADER_BYTES:
        return MAGIC.startswith(bytes(view[: len(MAGIC)]))
    magic, _, _, _, length = _HEADER.unpack_from(view)
    return bool(magic == MAGIC) and len(view) < OVERHEAD_BYTES + length


def open_envelope(data: Buffer, offset: int = 0, *, where: str) -> Envelope:
    """Open the record that starts at ``offset`` of ``data``; what follows it is ignored.

    Raises:
        CorruptDataError: the bytes are not one whole valid record; ``where`` is named.
    """
    view = memoryview(data)[offset:]
    if len(view) < OVERHEAD_BYTES:
        raise CorruptDataError("record is cut", where=where, offset=offset)
    magic, kind, version, reserved, length = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise CorruptDataError("not a record", where=where, offset=offset)
    end = HEADER_BYTES + length
    if len(view) < end + TRAILER_BYTES:
        raise CorruptDataError("record is cut", where=where, offset=offset, length=length)
    (crc,) = _TRAILER.unpack_from(view, end)
    if crc32c(view[:end]) != crc:
        raise CorruptDataError("record does not match its sum", where=where, offset=offset)
    if reserved:
        raise FormatError("record of an unknown version", kind=kind, reserved=reserved)
    return Envelope(
        kind=kind,
        version=version,
        body=bytes(view[HEADER_BYTES:end]),
        size=end + TRAILER_BYTES,
    )


def open_only(data: Buffer, kind: RecordKind, version: int, *, where: str) -> bytes:
    """Return the body of the one record, of this kind and version, that ``data`` is.

    Raises:
        CorruptDataError: damaged, or bytes follow the record; ``where`` is named.
        FormatError: a whole record of another kind or version.
    """
    envelope = open_envelope(data, where=where)
    check_known(envelope, kind, version, where=where)
    if envelope.size != len(data):
        raise CorruptDataError("bytes follow the record", where=where, offset=envelope.size)
    return envelope.body


def check_known(envelope: Envelope, kind: RecordKind, version: int, *, where: str) -> None:
    """Check that a record is of this kind and version. Raises ``FormatError``."""
    if envelope.kind != kind:
        raise FormatError(
            "record of an unknown kind", where=where, kind=envelope.kind, expected=int(kind)
        )
    if envelope.version != version:
        record = kind.name.lower().replace("_", " ")
        raise FormatError.of_version(record, envelope.version, version, where=where)
