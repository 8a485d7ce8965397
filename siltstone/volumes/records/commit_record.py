"""The commit record: one object of a place for each remote LSN of a volume's log.

The object is the record, in an envelope of kind ``VOLUME_COMMIT``, and after it the *trail*: the
records before it back to the last multiple of 32, newest first, each in its own envelope, as long
as the trail has at most 64 KiB. So a reader that is far back reads one object for 32 records.

The digest of a record is BLAKE2b-256 of its envelope, without the trail. It names client and
bundle, of which the latter is random, so an equal digest is the very same push.

Body, integers little-endian::

    log: bytes[16]
    lsn: u64
    pages: u32                of the volume
    kept: u32                 pages of the volume before that stayed throughout; those above began
                              again as zeros
    previous: bytes[32]       digest of the record before; zeros for LSN 1
    client: bytes[16]
    time_ms: u64              of the client's clock, for people
    content: bytes[32]        BLAKE2b-256 of index (u32) and bytes of each page in the bundle
    bundle: bytes[16]         zeros if it has no page
    stored: u32, bytes        set of the pages in the bundle
    zeros: u32, bytes         set of the pages up to ``kept`` that are zeros now
    slabs: u32, then of each  length: u32, codec: u8 (0 as it is, 1 zstd), CRC32C: u32
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pyroaring import BitMap

from siltstone.core.constants import KIB
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.envelope import RecordKind, check_known, open_envelope, seal
from siltstone.core.records.fields import FieldReader, FieldWriter
from siltstone.volumes.records.keys import ID_BYTES
from siltstone.volumes.records.page_set import decode_pages, encode_pages

VERSION = 1
DIGEST_BYTES = 32
NO_DIGEST = bytes(DIGEST_BYTES)
NO_BUNDLE = bytes(ID_BYTES)

TRAIL_RECORDS: Final = 32
"""Every record whose LSN is a multiple of this has the others since the last such record."""

TRAIL_BYTES_MAX: Final = 64 * KIB
"""More would make each commit of large sets of pages expensive."""

SLAB_PAGES: Final = 64
"""Pages that are compressed together, and fetched together: 256 KiB."""

_BEGIN = struct.Struct("<QII")
_TIME = struct.Struct("<Q")
_U32 = struct.Struct("<I")
_SLAB = struct.Struct("<IBI")


class Codec(IntEnum):
    """How a slab is stored. Numbers are persisted and never change."""

    RAW = 0
    ZSTD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Slab:
    """Pages of a bundle that are stored together.

    Attributes:
        length: bytes in the bundle.
        codec: how they are stored.
        crc: CRC32C of the bytes in the bundle.
    """

    length: int
    codec: Codec
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """A commit of a volume's log; see the module for the fields."""

    log: bytes
    lsn: int
    previous: bytes
    pages: int
    kept: int
    client: bytes
    time_ms: int
    content: bytes
    bundle: bytes
    stored: BitMap
    zeros: BitMap
    slabs: tuple[Slab, ...]


def encode_record(record: CommitRecord) -> bytes:
    """Encode a record without its trail."""
    out = FieldWriter()
    out.put_bytes(record.log)
    out.put(_BEGIN, record.lsn, record.pages, record.kept)
    out.put_bytes(record.previous + record.client)
    out.put(_TIME, record.time_ms)
    out.put_bytes(record.content + record.bundle)
    for pages in (record.stored, record.zeros):
        data = encode_pages(pages)
        out.put(_U32, len(data))
        out.put_bytes(data)
    out.put(_U32, len(record.slabs))
    for slab in record.slabs:
        out.put(_SLAB, slab.length, slab.codec, slab.crc)
    return seal(RecordKind.VOLUME_COMMIT, VERSION, out.to_bytes())


def decode_record(data: bytes, *, where: str) -> CommitRecord:
    """Decode a record without a trail. Raises ``CorruptDataError`` and ``FormatError``."""
    envelope = open_envelope(data, where=where)
    check_known(envelope, RecordKind.VOLUME_COMMIT, VERSION, where=where)
    if envelope.size != len(data):
        raise CorruptDataError("bytes follow the record", where=where, offset=envelope.size)
    reader = FieldReader(envelope.body, where=where)
    log = reader.take_bytes(ID_BYTES)
    lsn, pages, kept = reader.take(_BEGIN)
    previous, client = reader.take_bytes(DIGEST_BYTES), reader.take_bytes(ID_BYTES)
    (time_ms,) = reader.take(_TIME)
    content, bundle = reader.take_bytes(DIGEST_BYTES), reader.take_bytes(ID_BYTES)
    stored = decode_pages(reader.take_bytes(*reader.take(_U32)), where=where)
    zeros = decode_pages(reader.take_bytes(*reader.take(_U32)), where=where)
    slabs = tuple(_slab(reader) for _ in range(*reader.take(_U32)))
    reader.finish()
    record = CommitRecord(
        log=log,
        lsn=lsn,
        previous=previous,
        pages=pages,
        kept=kept,
        client=client,
        time_ms=time_ms,
        content=content,
        bundle=bundle,
        stored=stored,
        zeros=zeros,
        slabs=slabs,
    )
    _check(record, reader)
    return record


def _slab(reader: FieldReader) -> Slab:
    length, codec, crc = reader.take(_SLAB)
    if codec not in Codec.__members__.values():
        raise reader.damage("slab of an unknown codec")
    return Slab(length=length, codec=Codec(codec), crc=crc)


def _check(record: CommitRecord, reader: FieldReader) -> None:
    """What a reader relies on: indexes are pages of the volume, and slabs hold all of them."""
    for pages in (record.stored, record.zeros):
        if pages and not 1 <= pages.min() <= pages.max() <= record.pages:
            raise reader.damage("page beyond the volume")
    if record.stored & record.zeros:
        raise reader.damage("page that is stored and zeros")
    if len(record.slabs) != -(-len(record.stored) // SLAB_PAGES):
        raise reader.damage("slabs do not hold the pages")


def digest_of(encoded: bytes) -> bytes:
    """Digest of a record that was encoded."""
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).digest()


def with_trail(encoded: bytes, lsn: int, before: Sequence[bytes]) -> bytes:
    """Return the object: a record, and those before it that its trail has.

    Args:
        encoded: the record.
        lsn: its LSN.
        before: encoded records before it, newest first, without a gap.
    """
    parts = [encoded]
    size = 0
    for other in before[: trail_length(lsn)]:
        size += len(other)
        if size > TRAIL_BYTES_MAX:
            break
        parts.append(other)
    return b"".join(parts)


def trail_length(lsn: int) -> int:
    """How many records before it a record's trail has at most."""
    return (lsn - 1) % TRAIL_RECORDS


def split_object(data: bytes, *, where: str) -> list[bytes]:
    """Return the encoded records of an object: its own, then its trail, newest first.

    Raises:
        CorruptDataError: a record of it is cut or damaged.
    """
    found = []
    offset = 0
    while offset < len(data):
        size = open_envelope(data, offset, where=where).size
        found.append(data[offset : offset + size])
        offset += size
    if not found:
        raise CorruptDataError("record is empty", where=where)
    return found
