"""The footer of a value segment: the headers of its records once more, after the last of them.

So what a segment holds is known without its values. Layout, little-endian::

    piece[pieces]:        headers as in the records, one after the other, whole ones
        crc: u32          CRC32C of the headers of the piece
    directory:
        entry[pieces]:
            first_sqn: u64
            record: u64       offset of the record of its first header, in the segment
            offset: u64       where the piece begins, in the segment
            length: u32       bytes of its headers
            count: u32        how many
            hashes: u64[count]    ``key_hash`` of each
        crc: u32          CRC32C of the entries
    trailer:
        magic: bytes[4] = b"SLVF"
        version: u8 = 1
        reserved: u8[3] = 0
        directory: u64    where the directory begins, in the segment
        length: u32       bytes of the directory with its sum
        records: u32
        first_sqn: u64
        last_sqn: u64
        as_of: u64        newest SQN that was looked at when the segment was compacted; else 0
        crc: u32          CRC32C of the trailer before it

All of it follows from the records and ``as_of``, so a footer of which a part was written is known
to the last byte. The hashes tell which objects a damaged piece is about.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from siltstone.core.checksums import crc32c
from siltstone.core.constants import KIB, Buffer
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.records.keys import ObjectKey, suffix
from siltstone.objects.records.value_record import RecordHeader, decode_header, header_length

PIECE_BYTES: Final = 64 * KIB
"""A piece takes no more headers once it is so long."""

MAGIC: Final = b"SLVF"
VERSION: Final = 1
_ENTRY: Final = struct.Struct("<QQQII")
_TRAILER: Final = struct.Struct("<4sB3sQIIQQQ")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_RESERVED: Final = b"\0\0\0"

TRAILER_BYTES: Final = _TRAILER.size + _U32.size


def key_hash(key: ObjectKey) -> int:
    """What an object's key hashes to: BLAKE2b of 8 bytes of the key as rows have it."""
    return int.from_bytes(blake2b(suffix(key), digest_size=_U64.size).digest(), "little")


PlainNote = tuple[bytes, int, int, int]
"""A ``HeaderNote``, or the plain tuple of the same.

Plain tuples of bytes and numbers are nothing that Python looks at twice when it looks for garbage,
and as many are kept as the active value segment has records.
"""


class HeaderNote(NamedTuple):
    """What a footer takes of one record.

    Attributes:
        raw: the header, as it is in the record.
        sqn: of the change.
        hash: ``key_hash`` of the object.
        record_length: bytes of the record.
    """

    raw: bytes
    sqn: int
    hash: int
    record_length: int


def note_of(raw: bytes, header: RecordHeader) -> HeaderNote:
    """What a footer takes of a record that was decoded from ``raw``."""
    return HeaderNote(raw, header.sqn, key_hash(header.key), header.record_length)


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterPiece:
    """A part of the headers.

    Attributes:
        first_sqn: of its first header.
        record: offset of the record of that header, in the segment.
        offset: where the piece begins, in the segment.
        length: bytes of its headers, without their sum.
        hashes: ``key_hash`` of each header.
    """

    first_sqn: int
    record: int
    offset: int
    length: int
    hashes: tuple[int, ...]

    @property
    def end(self) -> int:
        """Where it ends, with its sum."""
        return self.offset + self.length + _U32.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """The end of a footer.

    Attributes:
        directory: where the directory begins, in the segment.
        length: its bytes.
        records: how many the segment has.
        first_sqn: of the first.
        last_sqn: of the last.
        as_of: newest SQN that was looked at when the segment was compacted; else 0.
    """

    directory: int
    length: int
    records: int
    first_sqn: int
    last_sqn: int
    as_of: int


def encode_footer(notes: Sequence[HeaderNote], *, start: int, as_of: int, where: str) -> bytes:
    """Make the footer of a segment whose records end at ``start``.

    Args:
        notes: of all records, in order, at least one.
        start: bytes of the records, where the footer begins.
        as_of: newest SQN that was looked at when the segment was compacted; else 0.
        where: the segment, for messages.

    Raises:
        CorruptDataError: these records do not end at ``start``.
    """
    if sum(note.record_length for note in notes) != start or not notes:
        raise CorruptDataError("records do not end where they should", where=where, end=start)
    body = bytearray()
    entries = bytearray()
    record = 0
    for part in _pieces(notes):
        piece = b"".join([note.raw for note in part])
        hashes = [note.hash for note in part]
        offset = start + len(body)
        entries += _ENTRY.pack(part[0].sqn, record, offset, len(piece), len(part))
        entries += struct.pack(f"<{len(part)}Q", *hashes)
        body += piece + _U32.pack(crc32c(piece))
        record += sum(note.record_length for note in part)
    directory = start + len(body)
    entries += _U32.pack(crc32c(entries))
    numbers = (directory, len(entries), len(notes), notes[0].sqn, notes[-1].sqn, as_of)
    trailer = _TRAILER.pack(MAGIC, VERSION, _RESERVED, *numbers)
    return bytes(body + entries + trailer + _U32.pack(crc32c(trailer)))


def _pieces(notes: Sequence[HeaderNote]) -> Iterator[list[HeaderNote]]:
    part: list[HeaderNote] = []
    size = 0
    for note in notes:
        part.append(note)
        size += len(note.raw)
        if size >= PIECE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def decode_trailer(data: Buffer, *, where: str) -> Trailer:
    """Decode the last ``TRAILER_BYTES`` of a segment.

    Raises:
        CorruptDataError: damaged.
        FormatError: of another version.
    """
    view = memoryview(data)
    if len(view) != TRAILER_BYTES:
        raise CorruptDataError("footer is cut", where=where)
    if crc32c(view[: _TRAILER.size]) != _U32.unpack_from(view, _TRAILER.size)[0]:
        raise CorruptDataError("end of a footer does not match its sum", where=where)
    magic, version, reserved, *numbers = _TRAILER.unpack_from(view)
    if magic != MAGIC:
        raise CorruptDataError("not the end of a footer", where=where)
    if version != VERSION:
        raise FormatError.of_version("footer", version, VERSION, where=where)
    if reserved != _RESERVED:
        raise FormatError("footer has unknown flags", where=where, reserved=reserved.hex())
    directory, length, records, first_sqn, last_sqn, as_of = numbers
    return Trailer(
        directory=directory,
        length=length,
        records=records,
        first_sqn=first_sqn,
        last_sqn=last_sqn,
        as_of=as_of,
    )


def decode_directory(data: Buffer, *, where: str) -> tuple[FooterPiece, ...]:
    """Decode the bytes that the trailer says are the directory.

    Raises:
        CorruptDataError: damaged.
    """
    view = memoryview(data)
    end = len(view) - _U32.size
    if end < 0 or crc32c(view[:end]) != _U32.unpack_from(view, end)[0]:
        raise CorruptDataError("directory of a footer does not match its sum", where=where)
    found = []
    position = 0
    while position < end:
        if position + _ENTRY.size > end:
            raise CorruptDataError("directory of a footer is cut", where=where)
        first_sqn, record, offset, length, count = _ENTRY.unpack_from(view, position)
        position += _ENTRY.size
        if position + _U64.size * count > end:
            raise CorruptDataError("directory of a footer is cut", where=where)
        hashes = struct.unpack_from(f"<{count}Q", view, position)
        position += _U64.size * count
        piece = FooterPiece(
            first_sqn=first_sqn, record=record, offset=offset, length=length, hashes=hashes
        )
        found.append(piece)
    return tuple(found)


def decode_piece(
    piece: FooterPiece, data: Buffer, *, where: str
) -> list[tuple[int, bytes, RecordHeader]]:
    """Return the headers of a piece.

    Each comes with the offset of its record, and as the bytes that it was decoded from.

    Args:
        piece: from the directory.
        data: its bytes, with their sum.
        where: the segment, for messages.

    Raises:
        CorruptDataError: damaged.
        FormatError: a header is of another kind or version.
    """
    view = memoryview(data)
    if len(view) != piece.length + _U32.size:
        raise CorruptDataError("piece of a footer is cut", where=where, at=piece.offset)
    if crc32c(view[: piece.length]) != _U32.unpack_from(view, piece.length)[0]:
        raise CorruptDataError(
            "piece of a footer does not match its sum", where=where, at=piece.offset
        )
    found = []
    position, record = 0, piece.record
    while position < piece.length:
        header = decode_header(view, position, where=where)
        length = header_length(view, position, where=where)
        found.append((record, bytes(view[position : position + length]), header))
        position += length
        record += header.length_after(length)
    if not found or len(found) != len(piece.hashes) or found[0][2].sqn != piece.first_sqn:
        raise CorruptDataError(
            "piece of a footer has other records than its entry", where=where, at=piece.offset
        )
    return found
