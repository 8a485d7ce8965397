"""Schemas: what they take, what they refuse and say, and how they grow."""

from __future__ import annotations

import pickle

import pyarrow
import pytest
from hypothesis import given

from siltstone.collections.rows.row_schema import RowSchema, evolved, row_schema
from siltstone.core.errors import CollectionSchemaError, CorruptDataError
from tests.support.collections.row_cases import KEY_TYPES, TYPES, schemas

STATION = pyarrow.schema({"gust": pyarrow.float64(), "station": pyarrow.string()})


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_flat_types_are_taken(kind: pyarrow.DataType) -> None:
    schema = row_schema(pyarrow.schema({"k": pyarrow.int64(), "v": kind}), ["k"])
    assert schema.arrow.field("v").type == kind


@pytest.mark.parametrize("kind", KEY_TYPES, ids=str)
def test_all_but_floats_can_be_a_key(kind: pyarrow.DataType) -> None:
    assert row_schema(pyarrow.schema({"k": kind}), ["k"]).key == ["k"]


def test_the_key_comes_first_and_holds_no_nulls() -> None:
    schema = row_schema(STATION.with_metadata({"a": "b"}), ["station"])
    assert schema.names == ["station", "gust"]
    assert [field.nullable for field in schema.arrow] == [False, True]
    assert schema.arrow.metadata is None
    assert pickle.loads(pickle.dumps(schema)) == schema


@pytest.mark.parametrize(
    ("columns", "key", "message"),
    [
        ({"a": pyarrow.int64()}, [], "a key has one column at least"),
        ({"a": pyarrow.int64()}, ["a", "a"], "names each column once"),
        ({"a": pyarrow.int64()}, ["b"], "not there; add it, or choose another column='b'"),
        ({"a": pyarrow.float16()}, ["a"], "no floats; use an integer or a decimal column='a'"),
        ({"": pyarrow.int64()}, [""], "has no name"),
        ({"_time": pyarrow.int64()}, ["_time"], "reserved; rename the column column='_time'"),
        ({"a": pyarrow.int64(), "_diff": pyarrow.int64()}, ["a"], "reserved"),
        ({"a": pyarrow.date64()}, ["a"], r"use pyarrow.date32\(\) column='a' type=date64"),
        ({"a": pyarrow.string_view()}, ["a"], r"use pyarrow.string\(\)"),
        ({"a": pyarrow.dictionary(pyarrow.int8(), pyarrow.string())}, ["a"], "type of their val"),
        ({"a": pyarrow.duration("s")}, ["a"], r"use pyarrow.int64\(\)"),
        ({"a": pyarrow.list_(pyarrow.int8())}, ["a"], "store nested values as JSON"),
        ({"a": pyarrow.struct({"b": pyarrow.int8()})}, ["a"], "store nested values as JSON"),
        ({"a": pyarrow.decimal128(5, -2)}, ["a"], "the scale of a decimal is 0 to its precision"),
        ({"a": pyarrow.decimal256(50, 51)}, ["a"], "the scale of a decimal is 0 to its precision"),
        ({"a": pyarrow.null()}, ["a"], "not stored; use another"),
        ({"a" * 70_000: pyarrow.int8()}, ["a" * 70_000], "too large; use fewer columns"),
    ],
)
def test_what_cannot_be_is_named_with_a_way_out(
    columns: dict[str, pyarrow.DataType], key: list[str], message: str
) -> None:
    with pytest.raises(CollectionSchemaError, match=message):
        row_schema(pyarrow.schema(columns), key)


def test_two_columns_of_one_name_are_refused() -> None:
    columns = pyarrow.schema([("a", pyarrow.int8()), ("a", pyarrow.int8())])
    with pytest.raises(CollectionSchemaError, match="two columns have one name"):
        row_schema(columns, ["a"])


def test_arguments_of_other_types_are_mistakes() -> None:
    with pytest.raises(TypeError, match=r"pyarrow\.Schema, not dict"):
        row_schema({"a": int}, ["a"])
    with pytest.raises(TypeError, match="sequence of names"):
        row_schema(STATION, "station")


@given(schemas())
def test_a_schema_comes_back_from_its_bytes(schema: RowSchema) -> None:
    data = schema.to_bytes()
    assert RowSchema.from_bytes(data, schema.key_columns, where="a schema") == schema


def test_bytes_that_are_no_schema_are_damage() -> None:
    schema = row_schema(STATION, ["station"])
    data = schema.to_bytes()
    foreign = bytes(pyarrow.schema({"a": pyarrow.date64()}).serialize())
    for damaged, key_columns in [(b"", 1), (data[:20], 1), (data, 0), (data, 3), (foreign, 1)]:
        with pytest.raises(CorruptDataError, match="where=a schema"):
            RowSchema.from_bytes(damaged, key_columns, where="a schema")


def test_a_schema_grows_by_nullable_columns_at_its_end() -> None:
    schema = row_schema(STATION, ["station"])
    wider = pyarrow.schema([("rain", pyarrow.int32()), *STATION])
    assert evolved(schema, wider).names == ["station", "gust", "rain"]
    assert evolved(schema, STATION) is schema


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([("station", pyarrow.string())], "cannot be dropped; keep it column='gust'"),
        (
            [("station", pyarrow.string()), ("gust", pyarrow.float32())],
            "cannot change; .* column='gust' now=double wanted=float",
        ),
        (
            [("station", pyarrow.string()), pyarrow.field("gust", pyarrow.float64(), False)],
            "cannot change; .* wanted=double not null",
        ),
        ([*STATION, pyarrow.field("rain", pyarrow.int8(), False)], "make it nullable column='rain"),
        ([("gust", pyarrow.float64())], "the key names a column that is not there"),
    ],
)
def test_a_schema_does_not_change_otherwise(columns: list[pyarrow.Field], message: str) -> None:
    schema = row_schema(STATION, ["station"])
    with pytest.raises(CollectionSchemaError, match=message):
        evolved(schema, pyarrow.schema(columns))
