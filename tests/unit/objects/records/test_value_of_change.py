"""The quick way to a record's value gives what decoding gives, and nothing of a damaged record."""

from __future__ import annotations

import pytest

from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.objects.records.keys import IndexEntry, ObjectKey
from siltstone.objects.records.value_record import (
    RecordHeader,
    ValueKind,
    encode_header,
    encode_value_sum,
    value_of_change,
)

KEY = ObjectKey(b"o", b"bucket", b"key")
HASH = b"8 bytes."
VALUE = b"the value of the object"


def record(
    kind: ValueKind = ValueKind.STANDARD, value: bytes = VALUE, key: ObjectKey = KEY
) -> bytes:
    header = encode_header(
        RecordHeader(
            kind=kind,
            sqn=7,
            previous=3,
            modified_ms=1_000,
            size=len(VALUE),
            value_hash=HASH,
            expires_s=0,
            key=key,
            entries=(IndexEntry(b"day", b"monday"),),
            metadata=b"note",
            stored=len(value),
        )
    )
    return header + value + encode_value_sum(value) if kind is ValueKind.STANDARD else header


def test_the_value_of_the_change_is_given() -> None:
    for data in (record(), bytearray(record()), memoryview(record())):
        assert value_of_change(data, KEY, 7, len(VALUE), HASH, where="x") == VALUE
    assert value_of_change(record(value=b""), KEY, 7, len(VALUE), HASH, where="x") == b""


@pytest.mark.parametrize(
    ("key", "sqn", "size", "value_hash"),
    [
        (KEY, 8, len(VALUE), HASH),
        (KEY, 7, len(VALUE) + 1, HASH),
        (KEY, 7, len(VALUE), b"another."),
        (KEY._replace(tag=b"i"), 7, len(VALUE), HASH),
        (KEY._replace(tag=b"oo"), 7, len(VALUE), HASH),
        (KEY._replace(bucket=b"bucke", key=b"tkey"), 7, len(VALUE), HASH),
        (KEY._replace(bucket=b"socket"), 7, len(VALUE), HASH),
        (KEY._replace(key=b"keys"), 7, len(VALUE), HASH),
        (KEY._replace(subkey=b"s"), 7, len(VALUE), HASH),
    ],
)
def test_another_change_is_told(key: ObjectKey, sqn: int, size: int, value_hash: bytes) -> None:
    with pytest.raises(CorruptDataError, match="another record is there"):
        value_of_change(record(), key, sqn, size, value_hash, where="x")


def test_a_record_without_a_value_is_another_one() -> None:
    for kind in (ValueKind.KEY_DELTA, ValueKind.TOMBSTONE):
        with pytest.raises(CorruptDataError, match="another record is there"):
            value_of_change(record(kind, b""), KEY, 7, len(VALUE), HASH, where="x")


def test_a_sum_after_a_record_without_a_value_makes_no_value() -> None:
    for kind in (ValueKind.KEY_DELTA, ValueKind.TOMBSTONE):
        data = record(kind, b"") + encode_value_sum(b"")
        with pytest.raises(CorruptDataError):
            value_of_change(data, KEY, 7, len(VALUE), HASH, where="x")


def test_a_longer_tag_is_another_object() -> None:
    data = record(key=ObjectKey(b"oa", b"aa", b"aa"))
    with pytest.raises(CorruptDataError, match="another record is there"):
        value_of_change(data, ObjectKey(b"o", b"aa", b"aa"), 7, len(VALUE), HASH, where="x")


def test_no_flipped_bit_goes_unnoticed() -> None:
    whole = record()
    for position in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[position] ^= 1 << bit
            with pytest.raises((CorruptDataError, FormatError)):
                value_of_change(data, KEY, 7, len(VALUE), HASH, where="x")


def test_no_other_length_is_a_record() -> None:
    whole = record()
    for length in range(len(whole)):
        with pytest.raises(CorruptDataError):
            value_of_change(whole[:length], KEY, 7, len(VALUE), HASH, where="x")
    with pytest.raises(CorruptDataError):
        value_of_change(whole + b"\0", KEY, 7, len(VALUE), HASH, where="x")
