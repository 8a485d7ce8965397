"""Sums of diffs, against an oracle in plain Python that compares rows by their bits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.collections.rows.consolidate import consolidate, may_wrap, sum_of_diffs
from siltstone.collections.rows.row_schema import DIFF, TIME, RowSchema
from siltstone.core.errors import CollectionError
from tests.support.collections.row_cases import (
    FLOATS,
    TYPES,
    Update,
    schema_of,
    schemas,
    sums_from,
    table_of,
    updates,
    updates_of,
)

I64 = st.integers(-(2**63), 2**63 - 1)


@given(st.data(), schemas(), st.integers(0, 4))
def test_a_consolidation_is_the_sums_by_row_and_time(
    data: Any, schema: RowSchema, since: int
) -> None:
    given_updates = data.draw(updates(schema))
    table = consolidate(table_of(schema, given_updates), since)
    found = updates_of(schema, table)
    assert sums_from(found, since) == sums_from(given_updates, since)
    assert len(found) == len(sums_from(given_updates, since)), "a row and time comes once"


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_rows_of_every_type_cancel(kind: pyarrow.DataType) -> None:
    schema = schema_of([pyarrow.int64()], [kind])
    column = pyarrow.nulls(2, kind)
    table = pyarrow.table(
        [pyarrow.array([1, 1]), column, pyarrow.array([1, -1])], names=["k0", "v0", DIFF]
    )
    assert len(consolidate(table)) == 0
    assert schema.names == ["k0", "v0"]


@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_zeros_of_two_signs_are_two_rows(kind: pyarrow.DataType) -> None:
    values = pyarrow.array([0.0, -0.0, 0.0], pyarrow.float32()).cast(kind)
    table = consolidate(pyarrow.table([values], names=["x"]))
    assert sorted(table[DIFF].to_pylist()) == [1, 2]


def test_what_lies_under_a_null_does_not_count() -> None:
    bits = pyarrow.py_buffer(b"\x01")  # of two values, the first is there
    values = [
        pyarrow.Array.from_buffers(
            pyarrow.int64(), 2, [bits, pyarrow.py_buffer(bytes(8) + bytes([number] * 8))]
        )
        for number in (1, 2)
    ]
    table = consolidate(pyarrow.table([pyarrow.chunked_array(values)], names=["x"]))
    assert table.to_pydict() == {"x": [0, None], DIFF: [2, 2]}


def test_columns_may_have_names_that_sums_have_elsewhere() -> None:
    names = [f"{DIFF}_sum", "diff", "diff_sum", "0"]
    table = pyarrow.table([pyarrow.array([1, 1])] * 4, names=names)
    assert consolidate(table).to_pydict() == {**{name: [1] for name in names}, DIFF: [2]}


@given(st.lists(st.tuples(st.integers(0, 2), I64), max_size=12))
def test_sums_are_exact_or_refused(rows: list[tuple[int, int]]) -> None:
    schema = schema_of([pyarrow.int64()])
    sums: Counter[int] = Counter()
    for row, diff in rows:
        sums[row] += diff
    table = table_of(schema, [Update((row,), 0, diff) for row, diff in rows])
    assert sum_of_diffs(table) == sum(diff for _, diff in rows)
    if all(-(2**63) <= total < 2**63 for total in sums.values()):
        found = updates_of(schema, consolidate(table))
        assert {update.row[0]: update.diff for update in found} == {
            row: total for row, total in sums.items() if total
        }
    else:
        with pytest.raises(CollectionError, match="more than 64 bits"):
            consolidate(table)


@pytest.mark.parametrize(
    ("rows", "diff", "wraps"),
    [(2, 2**62 - 1, False), (2, 2**62, True), (1, 2**63 - 1, False), (1, -(2**63), True)],
)
def test_what_may_wrap_is_known_beforehand(rows: int, diff: int, wraps: bool) -> None:
    assert may_wrap(pyarrow.chunked_array([[diff] * rows])) is wraps


def test_times_are_raised_to_since_and_then_compared() -> None:
    schema = schema_of([pyarrow.int64()])
    table = table_of(schema, [Update((1,), 2, 1), Update((1,), 5, -1), Update((1,), 7, 1)])
    assert consolidate(table, 5)[TIME].to_pylist() == [7]
    assert consolidate(table, 4)[TIME].to_pylist() == [4, 5, 7]
