"""The pieces of a frame's body: what one commit consists of.

Layout, little-endian::

    append:   kind: u8 = 1, flags: u8 (1 = marks have sums), writers: u16, segment_id: u64,
              offset: u64, length: u32, (number: u64, sequence: u64, offset: u64, length: u64,
              sum: u32 if they have sums)[writers], bytes[length]
    table:    kind: u8 = 2, reserved: u8[3], length: u32, record: bytes[length]
    control:  kind: u8 = 3, control: u8, version: u8 = 1, reserved: u8, length: u32, payload:
        bytes[length]

A writer mark states the newest append of an exactly-once writer in this piece. Pieces without sums
are read, but no longer written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError, FormatError

APPEND = 1
TABLE = 2
CONTROL = 3
CONTROL_VERSION = 1

APPEND_HEADER = struct.Struct("<BBHQQI")
WRITER_MARK = struct.Struct("<QQQQI")
MARK_WITHOUT_SUM = struct.Struct("<QQQQ")
MARKS_HAVE_SUMS = 1
"""The one flag of an append piece."""
TABLE_HEADER = struct.Struct("<BBHI")
_pack_table_header = TABLE_HEADER.pack
CONTROL_HEADER = struct.Struct("<BBBBI")
_U64 = struct.Struct("<Q")


class ControlKind(IntEnum):
    """Records of the container itself. Numbers are persisted and never change."""

    CHECKPOINT = 1
    """A checkpoint is durable; payload: its journal file name, UTF-8."""
    TRUNCATION = 2
    """The log may be truncated; payload: u64, the index below which."""
    JOURNAL_DELETION = 3
    """System files may be deleted; payload: their names, UTF-8, joined by newlines."""
    TIME = 4
    """When the owner made the frame; payload: u64, milliseconds since 1970."""
    RECOVERY = 5
    """The log begins with a recovery; payload: the name of its file, UTF-8."""
    IMPORT_DELETION = 6
    """Chunks that import sessions left may be deleted; payload: their names, UTF-8, joined by
    newlines."""
    PIN_DELETION = 7
    """Pins and file manifests that expired may be deleted; payload: their names, UTF-8, joined by
    newlines."""


def encode_checkpoint_record(file_name: str) -> bytes:
    """Encode the payload of a ``CHECKPOINT`` record."""
    return file_name.encode()


def decode_checkpoint_record(payload: bytes, where: str) -> str:
    """Return the name of the journal file in a ``CHECKPOINT`` record.

    Raises:
        CorruptDataError: it is no UTF-8.
    """
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise CorruptDataError("checkpoint record is damaged", where=where) from error


def encode_truncation_record(index: int) -> bytes:
    """Encode the payload of a ``TRUNCATION`` record."""
    return _U64.pack(index)


def decode_truncation_record(payload: bytes, where: str) -> int:
    """Return the index below which the log may be truncated, as a ``TRUNCATION`` record says.

    Raises:
        CorruptDataError: it is not 8 bytes long.
    """
    return _decode_u64(payload, "truncation", where)


def encode_time_record(made_ms: int) -> bytes:
    """Encode the payload of a ``TIME`` record, from milliseconds since 1970."""
    return _U64.pack(made_ms)


def decode_time_record(payload: bytes, where: str) -> int:
    """Return when the owner made the frame of a ``TIME`` record, in milliseconds since 1970.

    Raises:
        CorruptDataError: it is not 8 bytes long.
    """
    return _decode_u64(payload, "time", where)


def _decode_u64(payload: bytes, name: str, where: str) -> int:
    try:
        value: int
        (value,) = _U64.unpack(payload)
    except struct.error as error:
        raise CorruptDataError(f"{name} record is damaged", where=where) from error
    return value


@dataclass(frozen=True, slots=True)
class WriterMark:
    """An exactly-once append inside an append piece.

    Attributes:
        number: the writer's number.
        sequence: the sequence of the append.
        offset: where it begins in the segment, in bytes.
        length: its bytes.
        sum: CRC32C of its bytes; ``None`` in a piece without sums.
    """

    number: int
    sequence: int
    offset: int
    length: int
    sum: int | None


@dataclass(frozen=True, slots=True)
class AppendPiece:
    """Bytes of one segment, contiguous from ``offset`` on."""

    segment_id: int
    offset: int
    data: bytes
    writers: tuple[WriterMark, ...]


@dataclass(frozen=True, slots=True)
class AppendHead:
    """An append piece without its bytes, which are ``[start, start + length)`` of the body."""

    segment_id: int
    offset: int
    length: int
    start: int
    writers: tuple[WriterMark, ...]


@dataclass(frozen=True, slots=True)
class TablePiece:
    """One table-log record, still encoded."""

    record: bytes


@dataclass(frozen=True, slots=True)
class ControlPiece:
    """A record of the container itself."""

    control: ControlKind
    payload: bytes


Piece = AppendPiece | TablePiece | ControlPiece
Outline = AppendHead | TablePiece | ControlPiece


def append_header(segment_id: int, offset: int, length: int, writers: list[WriterMark]) -> bytes:
    """Encode the fields before the bytes of an append piece. Every mark has a sum."""
    flags = MARKS_HAVE_SUMS if writers else 0
    header = APPEND_HEADER.pack(APPEND, flags, len(writers), segment_id, offset, length)
    if not writers:
        return header
    marks = [WRITER_MARK.pack(m.number, m.sequence, m.offset, m.length, m.sum) for m in writers]
    return header + b"".join(marks)


def table_header(length: int) -> bytes:
    """Encode the fields before the record of a table piece."""
    return _pack_table_header(TABLE, 0, 0, length)


def control_piece(control: ControlKind, payload: bytes) -> bytes:
    """Encode a whole control piece."""
    header = CONTROL_HEADER.pack(CONTROL, control, CONTROL_VERSION, 0, len(payload))
    return header + payload


def decode_pieces(body: Buffer, count: int, *, where: str) -> Iterator[Piece]:
    """Yield the ``count`` pieces of a frame's body. Raises as ``decode_outlines``."""
    view = memoryview(body)
    for piece in decode_outlines(body, count, where=where):
        if isinstance(piece, AppendHead):
            data = bytes(view[piece.start : piece.start + piece.length])
            yield AppendPiece(piece.segment_id, piece.offset, data, piece.writers)
        else:
            yield piece


def decode_outlines(body: Buffer, count: int, *, where: str) -> Iterator[Outline]:
    """Yield the ``count`` pieces of a frame's body; of appends without a copy of their bytes.

    Raises:
        FormatError: a piece of an unknown kind or version.
        CorruptDataError: the body does not hold exactly ``count`` pieces.
    """
    view = memoryview(body)
    position = 0
    try:
        for _ in range(count):
            kind = view[position]
            piece: Outline
            if kind == APPEND:
                piece, position = _append_head(view, position)
            elif kind == TABLE:
                _, *reserved, length = TABLE_HEADER.unpack_from(view, position)
                _check_reserved(any(reserved))
                position += TABLE_HEADER.size
                piece = TablePiece(_cut(view, position, length))
                position += length
            elif kind == CONTROL:
                piece, position = _control_piece(view, position)
            else:
                raise FormatError("piece of an unknown kind", kind=kind, where=where)
            yield piece
    except (struct.error, IndexError, ValueError) as error:
        raise CorruptDataError("frame body is damaged", where=where, at=position) from error
    if position != len(view):
        raise CorruptDataError("frame body is longer than its pieces", where=where, at=position)


def _cut(view: memoryview, start: int, length: int) -> bytes:
    if start + length > len(view):
        raise IndexError("piece exceeds its frame")
    return bytes(view[start : start + length])


def _check_reserved(used: int) -> None:
    if used:
        raise FormatError("piece of a newer version: it uses reserved bytes")


def _append_head(view: memoryview, position: int) -> tuple[AppendHead, int]:
    _, flags, writers, segment_id, offset, length = APPEND_HEADER.unpack_from(view, position)
    _check_reserved(flags & ~MARKS_HAVE_SUMS)
    position += APPEND_HEADER.size
    form = WRITER_MARK if flags else MARK_WITHOUT_SUM
    marks = []
    for _ in range(writers):
        number, sequence, begin, size, *sums = form.unpack_from(view, position)
        marks.append(WriterMark(number, sequence, begin, size, sums[0] if sums else None))
        position += form.size
    if position + length > len(view):
        raise IndexError("piece exceeds its frame")
    return AppendHead(segment_id, offset, length, position, tuple(marks)), position + length


def _control_piece(view: memoryview, position: int) -> tuple[ControlPiece, int]:
    _, control, version, reserved, length = CONTROL_HEADER.unpack_from(view, position)
    _check_reserved(reserved)
    if version != CONTROL_VERSION or control not in set(ControlKind):
        raise FormatError.of_version("control piece", version, CONTROL_VERSION, control=control)
    position += CONTROL_HEADER.size
    return ControlPiece(ControlKind(control), _cut(view, position, length)), position + length
