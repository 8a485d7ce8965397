"""The example on the page of a frame's pieces decodes to what the page says."""

from __future__ import annotations

import struct

import pytest

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.keys import METADATA_TABLE, RowKind, name_key
from siltstone.core.records.number import encode_number
from siltstone.core.records.piece import (
    AppendPiece,
    ControlKind,
    ControlPiece,
    TablePiece,
    WriterMark,
    append_header,
    control_piece,
    decode_pieces,
    decode_truncation_record,
    encode_truncation_record,
    table_header,
)
from siltstone.core.records.table_record import TableEntry, encode_table_record
from tests.support.docs.format_page import example

BODY = example("piece.md")
COUNT = 3
MARK = WriterMark(number=3, sequence=9, offset=100, length=5, sum=crc32c(b"hello"))
RECORD, _ = encode_table_record(
    [TableEntry(METADATA_TABLE, name_key("a"), encode_number(RowKind.NAME, 7))],
    start_version=0,
    running_crc=0,
)
INDEX = struct.pack("<Q", 42)


def test_the_page_decodes() -> None:
    assert list(decode_pieces(BODY, COUNT, where="page")) == [
        AppendPiece(segment_id=7, offset=100, data=b"hello", writers=(MARK,)),
        TablePiece(RECORD),
        ControlPiece(ControlKind.TRUNCATION, INDEX),
    ]


def test_the_page_is_what_is_written() -> None:
    parts = [
        append_header(7, 100, 5, [MARK]) + b"hello",
        table_header(len(RECORD)) + RECORD,
        control_piece(ControlKind.TRUNCATION, encode_truncation_record(42)),
    ]
    assert b"".join(parts) == BODY
    assert decode_truncation_record(INDEX, "page") == 42


def test_marks_of_before_there_were_sums_are_read() -> None:
    head = struct.pack("<BBHQQI", 1, 0, 1, 7, 100, 5)
    piece = head + struct.pack("<QQQQ", 3, 9, 100, 5) + b"hello"
    known = WriterMark(number=3, sequence=9, offset=100, length=5, sum=None)
    assert list(decode_pieces(piece, 1, where="old")) == [AppendPiece(7, 100, b"hello", (known,))]


def test_every_cut_is_damage() -> None:
    for length in range(len(BODY)):
        with pytest.raises(CorruptDataError):
            list(decode_pieces(BODY[:length], COUNT, where="page"))


def test_bytes_after_the_pieces_are_damage() -> None:
    with pytest.raises(CorruptDataError, match="longer"):
        list(decode_pieces(BODY + b"\0", COUNT, where="page"))


def test_what_is_newer_is_told() -> None:
    with pytest.raises(FormatError):
        list(decode_pieces(b"\x04", 1, where="page"))
    with pytest.raises(FormatError):
        list(decode_pieces(bytes((1, 2)) + bytes(22), 1, where="page"))
    for control, version in ((99, 1), (ControlKind.TRUNCATION, 2)):
        piece = bytes((3, control, version, 0)) + bytes(4)
        with pytest.raises(FormatError):
            list(decode_pieces(piece, 1, where="page"))
