"""Footers of value segments: what they say, and what is told of each damage."""

from __future__ import annotations

import struct
from hashlib import blake2b
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.records.footer import (
    PIECE_BYTES,
    TRAILER_BYTES,
    FooterPiece,
    Trailer,
    decode_directory,
    decode_piece,
    decode_trailer,
    encode_footer,
    key_hash,
)
from siltstone.objects.records.keys import head_key
from siltstone.objects.records.value_record import RecordHeader
from tests.support.objects.records_to_try import cuts, flipped, notes, records, standard


def footer_of(found: list[RecordHeader], *, as_of: int = 0) -> bytes:
    start = sum(header.record_length for header in found)
    return encode_footer(notes(found), start=start, as_of=as_of, where="x")


def read(footer: bytes, start: int) -> tuple[Trailer, list[tuple[int, RecordHeader]]]:
    """What the footer that begins at ``start`` says, and each header with its place."""
    trailer = decode_trailer(footer[-TRAILER_BYTES:], where="x")
    place = trailer.directory - start
    pieces = decode_directory(footer[place : place + trailer.length], where="x")
    found = [
        (place, header)
        for piece in pieces
        for place, _, header in decode_piece(
            piece, footer[piece.offset - start : piece.end - start], where="x"
        )
    ]
    assert [key_hash(header.key) for _, header in found] == [
        each for piece in pieces for each in piece.hashes
    ]
    return trailer, found


def check(found: list[RecordHeader], as_of: int) -> None:
    start = sum(header.record_length for header in found)
    trailer, headers = read(footer_of(found, as_of=as_of), start)
    places = list(accumulate((each.record_length for each in found[:-1]), initial=0))
    assert headers == list(zip(places, found, strict=True))
    assert trailer.records == len(found)
    assert (trailer.first_sqn, trailer.last_sqn) == (found[0].sqn, found[-1].sqn)
    assert trailer.as_of == as_of


@settings(max_examples=30)
@given(st.lists(records(), min_size=1, max_size=4), st.integers(0, 2**64 - 1))
def test_a_footer_gives_every_header_and_the_place_of_its_record(
    found: list[tuple[RecordHeader, bytes]], as_of: int
) -> None:
    check([header for header, _ in found], as_of)


@settings(max_examples=5)
@given(st.lists(st.integers(0, 40_000), min_size=9, max_size=12))
def test_so_does_one_of_many_pieces(sizes: list[int]) -> None:
    found = [
        standard(number + 1, b"v" * 10, name=b"k%d" % number, metadata=bytes(size))
        for number, size in enumerate([*sizes, PIECE_BYTES, PIECE_BYTES])
    ]
    check(found, 0)
    footer, start = footer_of(found), sum(header.record_length for header in found)
    trailer = decode_trailer(footer[-TRAILER_BYTES:], where="x")
    directory = footer[trailer.directory - start : -TRAILER_BYTES]
    pieces = decode_directory(directory, where="x")
    assert len(pieces) > 1
    assert [piece.offset for piece in pieces] == [start, *(piece.end for piece in pieces[:-1])]
    assert all(piece.length >= PIECE_BYTES for piece in pieces[:-1])
    assert all(piece.length < 2 * PIECE_BYTES + 1_024 for piece in pieces)


def test_many_small_records_are_in_few_pieces() -> None:
    check([standard(number, b"", name=b"k%d" % number) for number in range(1, 801)], 800)


def test_the_hash_of_a_key_is_that_of_the_key_as_rows_have_it() -> None:
    key = standard(1, b"").key._replace(bucket=b"a\0b")
    digest = blake2b(head_key(key)[1:], digest_size=8).digest()
    assert key_hash(key) == int.from_bytes(digest, "little")


def test_records_that_end_elsewhere_get_no_footer() -> None:
    found = notes([standard(1, b"v")])
    for start in (0, found[0].record_length - 1, found[0].record_length + 1):
        with pytest.raises(CorruptDataError, match="should"):
            encode_footer(found, start=start, as_of=0, where="x")
    with pytest.raises(CorruptDataError, match="should"):
        encode_footer([], start=0, as_of=0, where="x")


HEADERS = [standard(1, b"one"), standard(2, b"two", name=b"l")]
START = sum(header.record_length for header in HEADERS)
FOOTER = footer_of(HEADERS, as_of=2)
TRAILER = FOOTER[-TRAILER_BYTES:]
DECODED = decode_trailer(TRAILER, where="x")
DIRECTORY = FOOTER[DECODED.directory - START : -TRAILER_BYTES]
PIECE = FOOTER[: DECODED.directory - START]
(ENTRY,) = decode_directory(DIRECTORY, where="x")


def summed(data: bytes) -> bytes:
    """``data`` with a right sum for its last four bytes."""
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


def test_each_flipped_bit_and_each_cut_of_a_piece_is_damage() -> None:
    for damaged in (*flipped(PIECE), *cuts(PIECE), PIECE + b"x"):
        with pytest.raises(CorruptDataError) as caught:
            decode_piece(ENTRY, damaged, where="a segment")
        assert caught.value.where == "a segment"


def test_each_flipped_bit_and_each_cut_of_a_directory_is_damage() -> None:
    for damaged in (*flipped(DIRECTORY), *cuts(DIRECTORY), DIRECTORY + b"x"):
        with pytest.raises(CorruptDataError) as caught:
            decode_directory(damaged, where="a segment")
        assert caught.value.where == "a segment"


def test_each_flipped_bit_and_each_cut_of_a_trailer_is_damage() -> None:
    for damaged in (*flipped(TRAILER), *cuts(TRAILER), TRAILER + b"x"):
        with pytest.raises(CorruptDataError) as caught:
            decode_trailer(damaged, where="a segment")
        assert caught.value.where == "a segment"


def test_a_directory_that_contradicts_itself_is_damage() -> None:
    """The sum is right: a program made this, and it had a bug."""
    entries = DIRECTORY[:-4]
    count = 8 + 8 + 8 + 4
    more = entries[:count] + struct.pack("<I", 3) + entries[count + 4 :]
    huge = entries[:count] + b"\xff\xff\xff\xff" + entries[count + 4 :]
    for damaged in (more, huge, entries[:-1], entries + b"x", entries[:20]):
        with pytest.raises(CorruptDataError, match="cut"):
            decode_directory(summed(damaged + bytes(4)), where="x")


@pytest.mark.parametrize(
    "entry",
    [
        {"hashes": ENTRY.hashes[:1]},
        {"hashes": (*ENTRY.hashes, 1)},
        {"first_sqn": 2},
    ],
)
def test_a_piece_with_other_records_than_its_entry_says_is_damage(entry: dict[str, object]) -> None:
    fields = {name: getattr(ENTRY, name) for name in FooterPiece.__slots__} | entry
    with pytest.raises(CorruptDataError, match="other records"):
        decode_piece(FooterPiece(**fields), PIECE, where="x")


def test_a_piece_without_headers_is_damage() -> None:
    empty = FooterPiece(first_sqn=1, record=0, offset=0, length=0, hashes=())
    with pytest.raises(CorruptDataError, match="other records"):
        decode_piece(empty, bytes(4), where="x")


def test_what_is_newer_is_told() -> None:
    with pytest.raises(FormatError) as caught:
        decode_trailer(summed(TRAILER[:4] + b"\x09" + TRAILER[5:]), where="x")
    error = caught.value
    assert (error.record, error.found, error.known) == ("footer", 9, 1)
    for place in (5, 6, 7):
        with pytest.raises(FormatError, match="unknown flags"):
            decode_trailer(summed(TRAILER[:place] + b"\1" + TRAILER[place + 1 :]), where="x")


def test_the_end_of_something_else_is_damage() -> None:
    with pytest.raises(CorruptDataError, match="not the end of a footer"):
        decode_trailer(summed(b"SLVG" + TRAILER[4:]), where="x")
