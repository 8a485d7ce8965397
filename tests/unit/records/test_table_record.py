"""The record of the table log."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.core.checksums import crc32c
from siltstone.core.errors import CorruptDataError, FormatError
from siltstone.core.records.table_record import (
    KeyChanges,
    TableEntry,
    count_entries,
    decode_table_record,
    encode_entries,
    encode_table_record,
    record_length,
    table_record_place,
)

U32 = st.integers(0, 2**32 - 1)
KEYS = st.binary(max_size=12)
ENTRIES = st.lists(
    st.builds(TableEntry, U32, KEYS, st.none() | st.binary(max_size=30))
    | st.builds(TableEntry, U32, KEYS, st.binary(max_size=30), U32)
    | st.builds(TableEntry, U32, KEYS, st.none(), st.none(), KEYS),
    max_size=6,
)


def with_sum(body: bytes) -> bytes:
    return body + struct.pack("<I", crc32c(body))


@pytest.mark.slow
@given(ENTRIES, st.integers(0, 2**60), U32, st.binary(max_size=5))
def test_round_trip(entries: list[TableEntry], start: int, crc: int, rest: bytes) -> None:
    record, crc_after = encode_table_record(entries, start_version=start, running_crc=crc)
    assert len(record) == record_length(entries)
    decoded = decode_table_record(b"xyz" + record + rest, 3, where="test")
    assert decoded.entries == tuple(entries)
    assert (decoded.table_version, decoded.length) == (start + len(record), len(record))
    assert (decoded.running_crc, decoded.crc_after) == (crc, crc_after)
    assert crc_after == crc32c(record[:-4], crc)


def columns(
    changes: list[tuple[bytes, bytes | None]],
) -> tuple[list[bytes], list[bytes | None]]:
    return [key for key, _ in changes], [value for _, value in changes]


@given(U32, st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=30)), max_size=6), ENTRIES)
def test_changes_of_keys_are_encoded_as_an_entry_for_each(
    table_id: int, changes: list[tuple[bytes, bytes | None]], others: list[TableEntry]
) -> None:
    each = [TableEntry(table_id, key, value) for key, value in changes]
    together: list[TableEntry | KeyChanges]
    together = [*others, KeyChanges(table_id, *columns(changes)), *others]
    apart = [*others, *each, *others]
    assert encode_entries(together) == encode_entries(apart)
    assert count_entries(together) == len(apart)


def test_the_running_sum_depends_on_content_and_not_on_lengths_alone() -> None:
    sums = {
        encode_table_record([TableEntry(1, b"k", value)], start_version=0, running_crc=5)[1]
        for value in (b"1", b"2", b"3")
    }
    assert len(sums) == 3


@pytest.mark.slow
@given(ENTRIES, st.data())
def test_every_changed_bit_is_found(entries: list[TableEntry], data: st.DataObject) -> None:
    record, _ = encode_table_record(entries, start_version=0, running_crc=0)
    damaged = bytearray(record)
    damaged[data.draw(st.integers(0, len(record) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptDataError):
        decode_table_record(damaged, where="test")


@pytest.mark.slow
@settings(max_examples=300)
@given(ENTRIES, st.data())
def test_a_right_sum_over_nonsense_is_a_typed_error(
    entries: list[TableEntry], data: st.DataObject
) -> None:
    record, _ = encode_table_record(entries, start_version=0, running_crc=0)
    body = bytearray(record[:-4])
    for _ in range(3):
        at = data.draw(st.integers(20, len(body) - 1))
        body[at] = data.draw(st.sampled_from((0, 1, 2, 3, 255)))
    with contextlib.suppress(CorruptDataError, FormatError):
        decode_table_record(with_sum(bytes(body)), where="test")


@given(st.binary(max_size=80))
def test_noise(noise: bytes) -> None:
    with pytest.raises(CorruptDataError):
        decode_table_record(noise, where="test")


def test_newer_versions_and_flags_are_refused() -> None:
    record, _ = encode_table_record([TableEntry(1, b"k", b"v")], start_version=0, running_crc=0)
    body = bytearray(record[:-4])
    body[1] = 2
    with pytest.raises(FormatError):
        decode_table_record(with_sum(bytes(body)), where="test")
    body[1], body[28] = 1, 8
    with pytest.raises(FormatError):
        decode_table_record(with_sum(bytes(body)), where="test")


def test_the_place_is_that_of_the_decoded_record() -> None:
    entries = [TableEntry(1, b"k", b"value")]
    record, crc = encode_table_record(entries, start_version=700, running_crc=9)
    assert table_record_place(record, where="test") == (700, 700 + len(record), 9)
    following, _ = encode_table_record(entries, start_version=700 + len(record), running_crc=crc)
    assert table_record_place(following, where="test")[2] == crc
    with pytest.raises(CorruptDataError):
        table_record_place(record[:20], where="test")
    with pytest.raises(FormatError):
        table_record_place(b"\1\2" + record[2:], where="test")
