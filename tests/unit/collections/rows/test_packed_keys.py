"""The order of many rows: packed keys, and what is made in that order, against plain sorts."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from siltstone.collections.rows.encode_parts import encode_updates
from siltstone.collections.rows.key_order import key_at, key_columns, sorted_by_key
from siltstone.collections.rows.packed_keys import ROWS_MIN, packed_order
from siltstone.collections.rows.row_schema import RowSchema, row_schema
from tests.support.collections.row_cases import WIDE, Update, rows_of, schemas, table_of

MANY = ROWS_MIN + 1_000

KEYS: dict[str, Callable[[random.Random], Any]] = {
    "numbers of 64 bits": lambda chance: chance.getrandbits(64) - 2**63,
    "numbers that come again": lambda chance: chance.randrange(9),
    "texts that begin alike": lambda chance: f"customer-{chance.getrandbits(48):x}",
    "texts that are the beginning of others": lambda chance: "a" * chance.randrange(300),
    "numbers of a few texts": lambda chance: (f"{chance.randrange(7)} m", chance.getrandbits(62)),
}


@given(st.data(), schemas(), st.sampled_from([1, 5, 20]))
def test_packed_keys_order_rows_as_whole_keys_do(
    data: Any, schema: RowSchema, repeats: int
) -> None:
    rows = data.draw(st.lists(rows_of(schema), min_size=2, max_size=12)) * repeats
    columns = key_columns(table_of(schema, [Update(row, 0, 1) for row in rows]), schema)
    keys = [key_at(columns, index) for index in range(len(rows))]

    def sort(some: pyarrow.Array) -> pyarrow.Array:
        given = some.to_pylist()
        return pyarrow.array(sorted(range(len(given)), key=lambda place: keys[given[place]]))

    found = packed_order(columns, sort)
    if found is None:
        assert schema.arrow.field(0).type in WIDE
    else:
        assert found.to_pylist() == sorted(range(len(rows)), key=keys.__getitem__)


def many_rows(name: str) -> pyarrow.Table:
    """Rows with a key of one or two columns, and their number."""
    chance = random.Random(name)
    keys = [KEYS[name](chance) for _ in range(MANY)]
    columns = list(zip(*keys, strict=True)) if isinstance(keys[0], tuple) else [keys]
    named = {f"key {place}": pyarrow.array(column) for place, column in enumerate(columns)}
    return pyarrow.table({**named, "number": pyarrow.array(range(MANY))})


def keys_of(table: pyarrow.Table) -> list[tuple[Any, ...]]:
    """Keys of all rows; text orders in Python as its UTF-8 does."""
    return list(zip(*(column.to_pylist() for column in table.columns[:-1]), strict=True))


def check_order(table: pyarrow.Table) -> None:
    """Compare with a stable sort in Python."""
    schema = row_schema(table.schema, table.column_names[:-1])
    keys = keys_of(table)
    found = sorted_by_key(table.cast(schema.arrow), schema)
    assert found["number"].to_pylist() == sorted(range(MANY), key=keys.__getitem__)


@pytest.mark.parametrize("name", KEYS)
def test_many_rows_are_sorted_by_key_and_else_keep_their_order(name: str) -> None:
    check_order(many_rows(name))


def test_many_rows_are_sorted_where_numpy_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    table = many_rows("numbers of a few texts")
    monkeypatch.setitem(sys.modules, "numpy", None)
    check_order(table)


def test_a_part_of_many_rows_has_each_row_as_it_was_given() -> None:
    chance = random.Random(30)
    keys = [chance.getrandbits(40) for _ in range(MANY)]
    few = [chance.choice(["calm", "", "storm", None]) for _ in range(MANY)]
    # The first rows have few values, the others many.
    more = [b"%d" % (place if place > MANY // 2 else place % 5) for place in range(MANY)]
    schema = row_schema(
        pyarrow.schema({"key": pyarrow.int64(), "few": pyarrow.string(), "more": pyarrow.binary()}),
        ["key"],
    )
    table = pyarrow.table([keys, few, more], schema=schema.arrow)
    pieces = [table.slice(start, 10_000) for start in range(0, MANY, 10_000)]
    (made,) = encode_updates(pyarrow.concat_tables(pieces), schema, 1, inline=False)
    found = parquet.read_table(pyarrow.BufferReader(b"".join(map(bytes, made.buffers))))
    assert found.to_pylist() == sorted(table.to_pylist(), key=lambda row: row["key"])
    assert found.schema.equals(schema.arrow)
