"""Rows as callers have them: all forms give one table, and what does not fit is named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow
import pytest

from siltstone.collections.rows.input_rows import (
    table_of_changes,
    table_of_rows,
    table_of_updates,
)
from siltstone.collections.rows.row_schema import DIFF, RowSchema, row_schema
from siltstone.core.errors import CollectionSchemaError, UpdateTimeError

SCHEMA = row_schema(
    pyarrow.schema(
        [
            ("id", pyarrow.int32()),
            ("name", pyarrow.string()),
            ("size", pyarrow.float64()),
            pyarrow.field("ok", pyarrow.bool_(), nullable=False),
        ]
    ),
    ["id"],
)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a", "size": 1.5, "ok": True},
    {"id": 2, "name": None, "size": None, "ok": False},
]


def as_table(rows: list[dict[str, Any]]) -> pyarrow.Table:
    return pyarrow.Table.from_pylist(rows)


def as_batch(rows: list[dict[str, Any]]) -> pyarrow.RecordBatch:
    return pyarrow.RecordBatch.from_pylist(rows)


def as_frame(rows: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows)


def as_mappings(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


@pytest.mark.parametrize("form", [as_table, as_batch, as_frame, as_mappings])
def test_every_form_gives_a_table_of_the_schema(
    form: Callable[[list[dict[str, Any]]], Any],
) -> None:
    table = table_of_rows(SCHEMA, form(ROWS))
    assert table.schema == SCHEMA.arrow
    assert table.to_pylist() == ROWS
    backwards = [dict(reversed(row.items())) for row in ROWS]
    assert table_of_rows(SCHEMA, form(backwards)) == table


@pytest.mark.parametrize("form", [as_table, as_batch, as_frame, as_mappings])
def test_no_rows_are_a_table_without_rows(form: Callable[[list[dict[str, Any]]], Any]) -> None:
    rows = form(ROWS)[:0]
    table = table_of_rows(SCHEMA, rows)
    assert (len(table), table.schema) == (0, SCHEMA.arrow)


@pytest.mark.parametrize("form", [as_table, as_batch, as_frame, as_mappings])
def test_only_nullable_columns_may_be_missing(form: Callable[[list[dict[str, Any]]], Any]) -> None:
    few = form([{"id": 1, "ok": True}])
    wanted = {"id": 1, "name": None, "size": None, "ok": True}
    assert table_of_rows(SCHEMA, few).to_pylist() == [wanted]
    with pytest.raises(CollectionSchemaError, match=r"no nulls.*column='ok'"):
        table_of_rows(SCHEMA, form([{"id": 1}]))


@pytest.mark.parametrize("form", [as_table, as_batch, as_frame, as_mappings])
def test_unknown_columns_are_refused(form: Callable[[list[dict[str, Any]]], Any]) -> None:
    with pytest.raises(CollectionSchemaError, match=r"no such column; .*column='nam'"):
        table_of_rows(SCHEMA, form([{"id": 1, "ok": True, "nam": "a"}]))


@pytest.mark.parametrize("column", ["id", "ok"])
def test_nulls_where_none_may_be_are_refused(column: str) -> None:
    rows: list[dict[str, Any]] = [*ROWS, {**ROWS[0], column: None}]
    for form in (as_table, as_mappings):
        with pytest.raises(CollectionSchemaError, match=f"holds nulls.*column='{column}'"):
            table_of_rows(SCHEMA, form(rows))


def one_column(kind: pyarrow.DataType) -> RowSchema:
    """A schema with a column ``v`` of a type."""
    return row_schema(pyarrow.schema({"k": pyarrow.int8(), "v": kind}), ["k"])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pyarrow.bool_(), True),
        (pyarrow.int8(), -128),
        (pyarrow.uint64(), 2**64 - 1),
        (pyarrow.float32(), 3),
        (pyarrow.float64(), -0.0),
        (pyarrow.decimal128(5, 2), Decimal("1.25")),
        (pyarrow.decimal128(5, 2), 7),
        (pyarrow.date32(), date(2024, 2, 29)),
        (pyarrow.time64("us"), time(1, 2, 3)),
        (pyarrow.timestamp("us"), datetime(2024, 1, 2, 3)),  # noqa: DTZ001
        (pyarrow.timestamp("us", "UTC"), datetime(2024, 1, 2, 3, tzinfo=UTC)),
        (pyarrow.large_string(), "a"),
        (pyarrow.binary(), b"a"),
        (pyarrow.binary(2), b"ab"),
    ],
)
def test_values_that_fit_come_back(kind: pyarrow.DataType, value: Any) -> None:
    table = table_of_rows(one_column(kind), [{"k": 1, "v": value}, {"k": 1, "v": None}])
    assert table["v"].to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pyarrow.bool_(), 1),
        (pyarrow.int8(), True),
        (pyarrow.int8(), 128),
        (pyarrow.int8(), 1.0),
        (pyarrow.int8(), "1"),
        (pyarrow.uint8(), -1),
        (pyarrow.float64(), "1"),
        (pyarrow.float64(), 2**60 + 1),
        (pyarrow.decimal128(5, 2), Decimal("1.234")),
        (pyarrow.decimal128(5, 2), 1.5),
        (pyarrow.date32(), datetime(2024, 1, 2, 3)),  # noqa: DTZ001
        (pyarrow.timestamp("us"), datetime(2024, 1, 2, 3, tzinfo=UTC)),
        (pyarrow.timestamp("us", "UTC"), datetime(2024, 1, 2, 3)),  # noqa: DTZ001
        (pyarrow.timestamp("us"), date(2024, 1, 2)),
        (pyarrow.string(), b"a"),
        (pyarrow.string(), 1),
        (pyarrow.binary(), "a"),
        (pyarrow.binary(2), b"abc"),
    ],
)
def test_values_that_do_not_fit_are_refused(kind: pyarrow.DataType, value: Any) -> None:
    with pytest.raises(CollectionSchemaError, match="column='v'"):
        table_of_rows(one_column(kind), [{"k": 1, "v": value}])


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pyarrow.int64(), pyarrow.array([1.0, None])),
        (pyarrow.int8(), pyarrow.array([127], pyarrow.int64())),
        (pyarrow.float64(), pyarrow.array([1.5], pyarrow.float32())),
        (pyarrow.float64(), pyarrow.array([2], pyarrow.int64())),
        (pyarrow.string(), pyarrow.array(["a"]).dictionary_encode()),
        (pyarrow.string(), pyarrow.array(["a"], pyarrow.large_string())),
        (pyarrow.binary(), pyarrow.array([b"a"], pyarrow.large_binary())),
        (pyarrow.timestamp("us", "UTC"), pyarrow.array([7], pyarrow.timestamp("ms", "CET"))),
        (pyarrow.string(), pyarrow.nulls(1)),
        (pyarrow.date32(), pyarrow.array([86_400_000], pyarrow.int64()).view(pyarrow.date64())),
    ],
)
def test_columns_are_cast_where_that_loses_nothing(
    kind: pyarrow.DataType, column: pyarrow.Array
) -> None:
    keys = pyarrow.repeat(pyarrow.scalar(1, pyarrow.int8()), len(column))
    table = table_of_rows(one_column(kind), pyarrow.table({"k": keys, "v": column}))
    assert table["v"].type == kind
    assert table["v"].null_count == column.null_count


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pyarrow.int64(), pyarrow.array([1.5])),
        (pyarrow.int8(), pyarrow.array([128])),
        (pyarrow.int8(), pyarrow.array(["1"])),
        (pyarrow.bool_(), pyarrow.array([1])),
        (pyarrow.float32(), pyarrow.array([1.5])),
        (pyarrow.string(), pyarrow.array([1])),
        (pyarrow.string(), pyarrow.array([b"a"])),
        (pyarrow.binary(), pyarrow.array(["a"])),
        (pyarrow.timestamp("us"), pyarrow.array([7], pyarrow.timestamp("us", "UTC"))),
        (pyarrow.timestamp("ms"), pyarrow.array([7], pyarrow.timestamp("us"))),
        (pyarrow.timestamp("s"), pyarrow.array([2**62]).view(pyarrow.timestamp("s"))),
        (pyarrow.decimal128(5, 2), pyarrow.array([Decimal("1.234")])),
    ],
)
def test_columns_that_would_lose_something_are_refused(
    kind: pyarrow.DataType, column: pyarrow.Array
) -> None:
    with pytest.raises(CollectionSchemaError, match="column='v'"):
        table_of_rows(one_column(kind), pyarrow.table({"k": pyarrow.array([1]), "v": column}))


@pytest.mark.parametrize(
    "kind", [pyarrow.string(), pyarrow.large_string(), pyarrow.dictionary(pyarrow.int8(), "string")]
)
def test_text_that_is_not_utf_8_is_refused(kind: pyarrow.DataType) -> None:
    latin = pyarrow.array([b"bod", b"bod\xf8"]).view(pyarrow.string())
    column = pyarrow.chunked_array([latin]).cast(kind)
    with pytest.raises(CollectionSchemaError, match=r"not UTF-8.*column='v'"):
        table_of_rows(one_column(pyarrow.string()), pyarrow.table({"k": [1, 2], "v": column}))


def test_a_table_of_exactly_the_schema_is_looked_at_as_any_other() -> None:
    texts, numbers = one_column(pyarrow.string()), one_column(pyarrow.float64())
    keys = pyarrow.array([1, 2], pyarrow.int8())
    latin = pyarrow.array([b"bod", b"bod\xf8"]).view(pyarrow.string())
    with pytest.raises(CollectionSchemaError, match=r"not UTF-8.*column='v'"):
        table_of_rows(texts, pyarrow.table([keys, latin], schema=texts.arrow))
    no_key = pyarrow.array([1, None], pyarrow.int8())
    with pytest.raises(CollectionSchemaError, match=r"holds nulls.*column='k'"):
        table_of_rows(texts, pyarrow.table([no_key, ["a", "b"]], schema=texts.arrow))
    odd = pyarrow.array([0x7FF8000000000001, 0], pyarrow.uint64()).view(pyarrow.float64())
    table = table_of_rows(numbers, pyarrow.table([keys, odd], schema=numbers.arrow))
    assert struct.pack(">2d", *table["v"].to_pylist()).hex() == "7ff8" + "0" * 28
    assert table.schema.equals(numbers.arrow, check_metadata=True)


def test_all_nan_become_one_and_zeros_keep_their_signs() -> None:
    bits = [0x7FF8000000000001, 0xFFF8000000000000, 0x8000000000000000, 0, None]
    column = pyarrow.array(bits, pyarrow.uint64()).view(pyarrow.float64())
    table = table_of_rows(
        one_column(pyarrow.float64()), pyarrow.table({"k": pyarrow.array([1] * 5), "v": column})
    )
    *values, last = table["v"].to_pylist()
    assert last is None
    found = [struct.unpack("<Q", struct.pack("<d", value))[0] for value in values]
    assert found == [0x7FF8000000000000, 0x7FF8000000000000, 0x8000000000000000, 0]


@pytest.mark.parametrize("rows", ["abc", b"bytes", {"id": 1}, 7, [1], None, {1, 2}])
def test_what_is_no_rows_is_a_mistake(rows: Any) -> None:
    with pytest.raises(TypeError, match=r"rows are|a row is"):
        table_of_rows(SCHEMA, rows)


def test_two_columns_of_one_name_are_refused() -> None:
    table = pyarrow.table([pyarrow.array([1])] * 2, names=["id", "id"])
    with pytest.raises(CollectionSchemaError, match="two columns have one name"):
        table_of_rows(SCHEMA, table)


def test_changes_are_rows_that_come_and_rows_that_go() -> None:
    table = table_of_changes(SCHEMA, ROWS, ROWS[:1])
    assert table[DIFF].to_pylist() == [1, 1, -1]
    assert table.drop_columns([DIFF]).to_pylist() == [*ROWS, ROWS[0]]
    assert table_of_changes(SCHEMA, ROWS).column_names == SCHEMA.names


def test_updates_have_times_and_diffs() -> None:
    update = {**ROWS[0], "_time": 2**63 - 2, "_diff": -(2**63)}
    assert table_of_updates(SCHEMA, [update]).to_pylist() == [update]
    for number in (-1, 2**63 - 1):
        with pytest.raises(UpdateTimeError, match="column='_time'"):
            table_of_updates(SCHEMA, [{**update, "_time": number}])
    for wrong in ({"_diff": None}, {"_time": 1.0}):
        with pytest.raises(CollectionSchemaError, match=f"column='{next(iter(wrong))}'"):
            table_of_updates(SCHEMA, [{**update, **wrong}])
    with pytest.raises(CollectionSchemaError, match="missing"):
        table_of_updates(SCHEMA, ROWS)
