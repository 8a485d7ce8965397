"""Sorting by key, searching, and bounds, against the order of plain values."""

from __future__ import annotations

from typing import Any

import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from siltstone.collections.rows.key_order import (
    few_sorted,
    key_at,
    key_bound,
    key_columns,
    rows_below,
    rows_below_bound,
    rows_through,
    sorted_by_key,
)
from siltstone.collections.rows.row_schema import RowSchema
from tests.support.collections.row_cases import (
    Plain,
    Update,
    rows_of,
    schemas,
    table_of,
    updates_of,
)


def order(schema: RowSchema, row: tuple[Plain, ...]) -> tuple[Plain, ...]:
    """Plain values of the key, as they are ordered: text by its bytes."""
    return tuple(
        value.encode() if isinstance(value, str) else value for value in row[: schema.key_columns]
    )


@given(st.data(), schemas(), st.sampled_from([1, 5, 20]))
def test_rows_are_sorted_by_key_and_else_keep_their_order(
    data: Any, schema: RowSchema, repeats: int
) -> None:
    rows = data.draw(st.lists(rows_of(schema), max_size=12)) * repeats
    table = table_of(schema, [Update(row, index, 1) for index, row in enumerate(rows)])
    found = updates_of(schema, sorted_by_key(table, schema))
    wanted = sorted(range(len(rows)), key=lambda index: order(schema, rows[index]))
    assert [update.time for update in found] == wanted


@given(st.data(), schemas())
def test_rows_in_several_chunks_are_sorted_together_and_their_ends_told(
    data: Any, schema: RowSchema
) -> None:
    rows = data.draw(st.lists(rows_of(schema), min_size=1, max_size=30))
    table = table_of(schema, [Update(row, index, 1) for index, row in enumerate(rows)])
    chunks = [table.slice(start, 7) for start in range(0, len(table), 7)]
    found, first, last = few_sorted(pyarrow.concat_tables(chunks), schema)
    wanted = sorted(range(len(rows)), key=lambda index: order(schema, rows[index]))
    assert [update.time for update in updates_of(schema, found)] == wanted
    columns = key_columns(found, schema)
    assert [first, last] == [key_at(columns, 0), key_at(columns, len(rows) - 1)]


@given(st.data(), schemas())
def test_searches_find_where_a_key_would_stand(data: Any, schema: RowSchema) -> None:
    rows = data.draw(st.lists(rows_of(schema), min_size=1, max_size=12))
    table = sorted_by_key(table_of(schema, [Update(row, 0, 1) for row in rows]), schema)
    columns = key_columns(table, schema)
    one = data.draw(st.integers(0, len(rows) - 1))
    key = key_at(columns, one)
    keys = [key_at(columns, index) for index in range(len(rows))]
    assert rows_below(columns, key) == sum(other < key for other in keys)
    assert rows_through(columns, key) == sum(other <= key for other in keys)
    bound = key_bound(schema, key)
    assert rows_below_bound(columns, schema, bound) == sum(
        key_bound(schema, other) < bound for other in keys
    )


@given(st.data(), schemas())
def test_bounds_order_as_keys_do(data: Any, schema: RowSchema) -> None:
    rows = data.draw(st.lists(rows_of(schema), min_size=2, max_size=2))
    table = sorted_by_key(table_of(schema, [Update(row, 0, 1) for row in rows]), schema)
    columns = key_columns(table, schema)
    low, high = (key_bound(schema, key_at(columns, index)) for index in range(2))
    assert low <= high
    assert max(len(low), len(high)) <= 32
    if len(low) < 32 or len(high) < 32:  # uncut
        assert (low == high) == (key_at(columns, 0) == key_at(columns, 1))


def test_a_bound_of_two_columns_is_not_confused_by_where_the_first_ends() -> None:
    schema = RowSchema(
        pyarrow.schema([pyarrow.field(name, pyarrow.binary(), nullable=False) for name in "ab"]), 2
    )
    keys = [
        (b"", b"\xff"),
        (b"\0", b""),
        (b"\0\0", b""),
        (b"\0\xff", b""),
        (b"a", b"b"),
        (b"ab", b""),
    ]
    assert keys == sorted(keys)
    bounds = [key_bound(schema, key) for key in keys]
    assert bounds == sorted(set(bounds))
