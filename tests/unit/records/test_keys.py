"""Keys of the metadata table order as what they stand for does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import CorruptDataError
from siltstone.core.records import keys
from tests.unit.records.rows import NAMES, U64


@given(st.tuples(U64, U64), st.tuples(U64, U64))
def test_extents_order_by_segment_and_start(one: tuple[int, int], two: tuple[int, int]) -> None:
    assert (keys.extent_key(*one) < keys.extent_key(*two)) == (one < two)
    assert keys.extent_of(keys.extent_key(*one)) == one


@given(st.tuples(U64, U64), st.tuples(U64, U64))
def test_writers_order_by_segment_and_number(one: tuple[int, int], two: tuple[int, int]) -> None:
    assert (keys.writer_key(*one) < keys.writer_key(*two)) == (one < two)
    assert keys.writer_of(keys.writer_key(*one)) == one


TASK = st.tuples(U64, st.integers(0, 255), U64)


@pytest.mark.slow
@given(TASK, TASK)
def test_tasks_order_by_due_time(one: tuple[int, int, int], two: tuple[int, int, int]) -> None:
    assert (keys.task_key(*one) < keys.task_key(*two)) == (one < two)
    assert keys.task_of(keys.task_key(*one)) == one


@given(NAMES, NAMES)
def test_names_order_as_bytes(one: str, two: str) -> None:
    assert (keys.name_key(one) < keys.name_key(two)) == (one.encode() < two.encode())
    assert keys.name_of(keys.table_name_key(one)) == one


def test_kinds_do_not_mix() -> None:
    made = [
        keys.name_key("a"),
        keys.state_key(1),
        keys.layout_key(1),
        keys.extent_key(1, 1),
        keys.chunk_key(1),
        keys.block_sums_key(1, 1),
        keys.writer_key(1, 1),
        keys.writer_name_key(1, "a"),
        keys.task_key(1, 1, 1),
        keys.table_name_key("a"),
        keys.tombstone_key("a"),
        keys.counter_key(keys.CounterKind.CHUNK_ID),
        keys.attributes_key(1),
        keys.time_key(1, 1),
        keys.retention_key(1, "a"),
        keys.import_key("a"),
        keys.epoch_key(1),
        keys.import_batch_key("a"),
        keys.adoption_key(1),
        keys.legacy_key(1),
    ]
    assert [key[0] for key in made] == list(keys.RowKind) == sorted(key[0] for key in made)


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_after_prefix_ends_a_prefix(prefix: bytes, key: bytes) -> None:
    end = keys.after_prefix(prefix)
    inside = prefix <= key and (end is None or key < end)
    assert inside == key.startswith(prefix)


@pytest.mark.parametrize("key", [b"", b"\x04", b"\x04" + bytes(17), b"\x05" + bytes(16)])
def test_impossible_keys_are_damage(key: bytes) -> None:
    with pytest.raises(CorruptDataError):
        keys.extent_of(key)


def test_a_name_that_is_not_utf8_is_damage() -> None:
    with pytest.raises(CorruptDataError):
        keys.name_of(b"\x01\xff")
