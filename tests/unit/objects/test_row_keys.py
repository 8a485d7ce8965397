"""Keys of the rows of a ledger: they come back, and their bytes order as their parts do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import CorruptDataError
from siltstone.core.records.table_record import KEY_BYTES_MAX
from siltstone.objects.records.keys import (
    IndexEntry,
    LargeStatus,
    ObjectKey,
    after_prefix,
    check_head_key,
    decode_expiry_key,
    decode_head_key,
    decode_index_key,
    decode_large_key,
    escaped,
    expired_until,
    expiry_key,
    first_sqn_of,
    head_key,
    index_keys,
    large_key,
    large_prefix,
    manifest_key,
    number_of_task,
    task_key,
)
from siltstone.objects.records.limits import (
    FIELD_BYTES_MAX,
    NAME_BYTES_MAX,
    SUBKEY_BYTES_MAX,
    TAG_BYTES_MAX,
)
from tests.support.objects.records_to_try import KEYS, PARTS, U32, U64, cuts, flipped

INDEXED = st.tuples(PARTS, st.builds(IndexEntry, PARTS, PARTS), PARTS, PARTS)
"""Bucket, entry, tag and key: in this order they are in a key."""

EXAMPLE = ObjectKey(b"o", b"a\0b", b"\x01", b"")
ENTRY = IndexEntry(b"field", b"\0term")


def index_key(bucket: bytes, entry: IndexEntry, tag: bytes, key: bytes) -> bytes:
    (found,) = index_keys(ObjectKey(tag, bucket, key), [entry])
    return found


@given(KEYS, KEYS)
def test_heads_are_in_the_order_of_their_parts(one: ObjectKey, other: ObjectKey) -> None:
    assert decode_head_key(head_key(one)) == one
    assert (head_key(one) < head_key(other)) == (one < other)
    assert (head_key(one) == head_key(other)) == (one == other)


@given(INDEXED, INDEXED)
def test_index_entries_are_in_the_order_of_their_parts(
    one: tuple[bytes, IndexEntry, bytes, bytes], other: tuple[bytes, IndexEntry, bytes, bytes]
) -> None:
    bucket, entry, tag, key = one
    assert decode_index_key(index_key(*one)) == (entry, ObjectKey(tag, bucket, key))
    assert (index_key(*one) < index_key(*other)) == (one < other)


@given(U32, KEYS, U32, KEYS)
def test_expiries_are_in_the_order_of_their_times(
    one_s: int, one: ObjectKey, other_s: int, other: ObjectKey
) -> None:
    first, second = expiry_key(one, one_s), expiry_key(other, other_s)
    assert decode_expiry_key(first) == (one_s, one)
    assert (first < second) == ((one_s, one) < (other_s, other))


@given(st.integers(0, 2**32 - 2), st.integers(0, 2**33), KEYS)
def test_a_scan_ends_after_all_that_has_expired(expires_s: int, now_s: int, key: ObjectKey) -> None:
    assert (expiry_key(key, expires_s) < expired_until(now_s)) == (expires_s <= now_s)


@given(U64, U64)
def test_value_segments_are_in_the_order_of_their_sqns(one: int, other: int) -> None:
    assert first_sqn_of(manifest_key(one)) == one
    assert (manifest_key(one) < manifest_key(other)) == (one < other)


@given(PARTS, PARTS, st.binary(max_size=9))
def test_a_prefix_of_parts_ends_before_the_next_part(one: bytes, other: bytes, rest: bytes) -> None:
    prefix, end = escaped(one), after_prefix(escaped(one))
    assert prefix <= prefix + rest < end
    inside = prefix <= escaped(other) + rest < end
    assert inside == (one == other)


def test_the_longest_keys_fit_in_a_table() -> None:
    name = bytes(NAME_BYTES_MAX)
    key = ObjectKey(bytes(TAG_BYTES_MAX), name, name, bytes(SUBKEY_BYTES_MAX))
    entry = IndexEntry(bytes(FIELD_BYTES_MAX), name)
    found = [head_key(key), expiry_key(key, 1), *index_keys(key, [entry])]
    assert max(map(len, found)) <= KEY_BYTES_MAX


@pytest.mark.parametrize("key", [EXAMPLE, ObjectKey(b"o", b"plain", b"name")])
def test_the_key_of_a_head_is_checked_as_it_is_decoded(key: ObjectKey) -> None:
    raw = head_key(key)
    refused = 0
    for tried in (raw, *flipped(raw), *cuts(raw), raw + raw[1:], raw[:1] + raw):
        try:
            decode_head_key(tried)
        except CorruptDataError:
            refused += 1
            with pytest.raises(CorruptDataError):
                check_head_key(tried)
        else:
            check_head_key(tried)
    assert refused > len(raw)


def test_each_flipped_bit_is_damage_or_another_key() -> None:
    """A row has no sum of its own; a key that is accepted is the one key of what it says."""
    for raw in flipped(head_key(EXAMPLE)):
        try:
            found = decode_head_key(raw)
        except CorruptDataError:
            continue
        assert found != EXAMPLE
        assert head_key(found) == raw
    for raw in flipped(expiry_key(EXAMPLE, 77)):
        try:
            expires_s, found = decode_expiry_key(raw)
        except CorruptDataError:
            continue
        assert expiry_key(found, expires_s) == raw
    for raw in flipped(index_key(b"b\0", ENTRY, b"o", b"k")):
        try:
            entry, found = decode_index_key(raw)
        except CorruptDataError:
            continue
        assert index_keys(found, [entry]) == [raw]
    for raw in flipped(manifest_key(2**40 + 1)):
        try:
            sqn = first_sqn_of(raw)
        except CorruptDataError:
            continue
        assert manifest_key(sqn) == raw
    for raw in flipped(task_key(7)):
        try:
            number = number_of_task(raw)
        except CorruptDataError:
            continue
        assert task_key(number) == raw
    for raw in flipped(large_key(LargeStatus.LIVE, 2**40)):
        try:
            status, number = decode_large_key(raw)
        except CorruptDataError:
            continue
        assert large_key(status, number) == raw


def test_each_cut_is_damage() -> None:
    for raw in (*cuts(head_key(EXAMPLE)), head_key(EXAMPLE) + b"x"):
        with pytest.raises(CorruptDataError):
            decode_head_key(raw)
    for raw in (*cuts(expiry_key(EXAMPLE, 77)), expiry_key(EXAMPLE, 77) + b"x"):
        with pytest.raises(CorruptDataError):
            decode_expiry_key(raw)
    whole = index_key(b"b\0", ENTRY, b"o", b"k")
    for raw in (*cuts(whole), whole + b"x"):
        with pytest.raises(CorruptDataError):
            decode_index_key(raw)
    for raw in (*cuts(manifest_key(5)), manifest_key(5) + b"x"):
        with pytest.raises(CorruptDataError):
            first_sqn_of(raw)
    for raw in (*cuts(task_key(7)), task_key(7) + b"x"):
        with pytest.raises(CorruptDataError):
            number_of_task(raw)
    whole = large_key(LargeStatus.DEAD, 7)
    for raw in (*cuts(whole), whole + b"x"):
        with pytest.raises(CorruptDataError):
            decode_large_key(raw)


@given(st.sampled_from(LargeStatus), U64, st.sampled_from(LargeStatus), U64)
def test_large_values_are_in_the_order_of_status_and_number(
    status: LargeStatus, number: int, other_status: LargeStatus, other: int
) -> None:
    key = large_key(status, number)
    assert decode_large_key(key) == (status, number)
    assert (key < large_key(other_status, other)) == ((status, number) < (other_status, other))
    assert large_prefix(status) <= key < after_prefix(large_prefix(status))


@pytest.mark.parametrize("part", [b"\0\x02", b"\0\0", b"a\0b", b"\0\xff\0\x7f"])
def test_a_zero_that_is_not_escaped_is_damage(part: bytes) -> None:
    raw = b"\x10" + part + b"\0\x01" + escaped(b"b") + escaped(b"k") + escaped(b"")
    with pytest.raises(CorruptDataError, match="impossible part"):
        decode_head_key(raw)


def test_a_key_of_another_kind_of_row_is_damage() -> None:
    head = head_key(ObjectKey(b"o", b"b", b"k", b"s"))
    for raw in (b"\x20" + head[1:], b"\x08" + head[1:], b""):
        with pytest.raises(CorruptDataError, match="another kind"):
            decode_head_key(raw)
    with pytest.raises(CorruptDataError, match="not the key"):
        first_sqn_of(b"\x04" + manifest_key(1)[1:])
