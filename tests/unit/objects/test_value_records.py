"""Records of the value log: they come back, and no damage makes other content of them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.records.keys import IndexEntry, ObjectKey
from siltstone.objects.records.large_place import LargePlace
from siltstone.objects.records.limits import (
    FIELD_BYTES_MAX,
    HEADER_BYTES_MAX,
    METADATA_BYTES_MAX,
    NAME_BYTES_MAX,
    SUBKEY_BYTES_MAX,
    TAG_BYTES_MAX,
)
from siltstone.objects.records.value_record import (
    FIXED_BYTES,
    RecordHeader,
    ValueKind,
    decode_header,
    decode_record,
    encode_header,
    header_length,
)
from tests.support.objects.records_to_try import cuts, encoded, flipped, records, standard

VALUE = b"the value"
HEADER = standard(7, VALUE, metadata=b"{}")
RECORD = encoded(HEADER, VALUE)
RAW = encode_header(HEADER)
LARGE = HEADER._replace(stored=0, size=2**33, large=LargePlace(7, 2**20, 2**32 - 1))


def changed(place: int, value: bytes) -> bytes:
    """The header with other bytes in one place, and a right sum."""
    body = RAW[:place] + value + RAW[place + len(value) : -4]
    return body + struct.pack("<I", crc32c(body))


@given(records())
def test_a_record_comes_back(record: tuple[RecordHeader, bytes]) -> None:
    header, value = record
    raw = encoded(header, value)
    assert decode_record(raw, where="x") == (header, value)
    assert len(raw) == header.record_length
    assert header_length(raw, 0, where="x") == header.length == len(encode_header(header))


@given(records(), st.binary(max_size=9), st.binary(max_size=9))
def test_a_header_is_found_between_other_bytes(
    record: tuple[RecordHeader, bytes], before: bytes, after: bytes
) -> None:
    header, _ = record
    data = before + encode_header(header) + after
    assert decode_header(data, len(before), where="x") == header


@pytest.mark.parametrize("kind", ValueKind)
def test_each_flipped_bit_and_each_cut_is_damage(kind: ValueKind) -> None:
    if kind is ValueKind.STANDARD:
        raw = RECORD
    else:
        raw = encode_header(HEADER._replace(kind=kind, stored=0))
    check_damage(raw)


def test_each_flipped_bit_and_each_cut_of_a_large_value_is_damage() -> None:
    check_damage(encode_header(LARGE))


def check_damage(raw: bytes) -> None:
    for damaged in (*flipped(raw), *cuts(raw), raw + b"x"):
        with pytest.raises(CorruptDataError) as caught:
            decode_record(damaged, where="a segment")
        assert caught.value.where == "a segment"


def test_an_offset_outside_the_bytes_is_damage() -> None:
    for offset in (1, len(RAW), len(RAW) + 1, 2**40):
        with pytest.raises(CorruptDataError):
            decode_header(RAW, offset, where="x")


def test_a_newer_version_is_told() -> None:
    with pytest.raises(FormatError) as caught:
        decode_header(changed(1, b"\x09"), where="x")
    error = caught.value
    assert (error.record, error.found, error.known) == ("value record", 9, 1)


@pytest.mark.parametrize(("place", "value"), [(0, b"\0"), (0, b"\4"), (2, b"\2"), (2, b"\x80")])
def test_an_unknown_kind_or_flag_is_told(place: int, value: bytes) -> None:
    with pytest.raises(FormatError, match="unknown kind"):
        decode_header(changed(place, value), where="x")


@pytest.mark.parametrize("kind", [ValueKind.KEY_DELTA, ValueKind.TOMBSTONE])
def test_a_large_value_of_a_record_without_one_is_told(kind: ValueKind) -> None:
    raw = encode_header(LARGE._replace(kind=kind))
    with pytest.raises(FormatError, match="unknown kind"):
        decode_header(raw, where="x")


def test_a_large_value_that_is_in_the_record_is_damage() -> None:
    raw = encode_header(LARGE._replace(stored=9))
    with pytest.raises(CorruptDataError, match="value of another length"):
        decode_header(raw, where="x")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, b"\3"),  # a tombstone with a value
        (3, b"\2"),  # a longer tag
        (8, b"\1\0\0\0"),  # stored_length
        (FIXED_BYTES - 12, b"\xff\xff"),  # bucket_length
        (FIXED_BYTES - 6, b"\0\0"),  # entries, too few
        (FIXED_BYTES - 6, b"\xff\xff"),  # entries, too many
        (FIXED_BYTES - 4, b"\xff\xff\xff\xff"),  # metadata_length
        (FIXED_BYTES + 8, b"\xff"),  # field_length, and so on to the end
    ],
)
def test_a_header_that_contradicts_itself_is_damage(place: int, value: bytes) -> None:
    """The sum is right: a program made this, and it had a bug."""
    with pytest.raises(CorruptDataError, match="length"):
        decode_header(changed(place, value), where="x")


@pytest.mark.parametrize(
    "length", [0, FIXED_BYTES, FIXED_BYTES + 3, HEADER_BYTES_MAX + 1, 2**32 - 1]
)
def test_an_impossible_length_of_a_header_is_damage(length: int) -> None:
    data = RAW[:4] + struct.pack("<I", length) + RAW[8:] + bytes(HEADER_BYTES_MAX)
    for found in (header_length, decode_header):
        with pytest.raises(CorruptDataError, match="impossible"):
            found(data, 0, where="x")


def test_the_largest_object_has_a_header_that_is_read() -> None:
    key = ObjectKey(
        b"t" * TAG_BYTES_MAX,
        b"\0" * NAME_BYTES_MAX,
        b"\0" * NAME_BYTES_MAX,
        b"s" * SUBKEY_BYTES_MAX,
    )
    # The longest index that a key of two bytes and a tag of one may have is longer than this.
    entries = tuple(IndexEntry(b"f" * FIELD_BYTES_MAX, b"%05d" % n) for n in range(245))
    header = HEADER._replace(key=key, entries=entries, metadata=b"m" * METADATA_BYTES_MAX)
    raw = encode_header(header)
    assert len(raw) <= HEADER_BYTES_MAX
    assert decode_header(raw, where="x") == header
