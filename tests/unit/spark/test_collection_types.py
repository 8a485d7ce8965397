"""Types of columns: what each is in Spark, and back, with all values the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from siltstone.collections.rows.row_schema import row_schema
from siltstone.core.errors import CollectionSchemaError
from siltstone.spark.collection_types import (
    arrow_form,
    check_frame,
    from_spark,
    spark_schema,
    to_spark,
)

MANUAL = Path(__file__).parents[3] / "docs" / "spark-collections.md"
TIMES = [-(2**53), -1, 0, 1, 2**53]

CASES: list[tuple[pyarrow.DataType, str, list[Any]]] = [
    (pyarrow.bool_(), "BOOLEAN", [True, False]),
    (pyarrow.int8(), "TINYINT", [-128, 127]),
    (pyarrow.int16(), "SMALLINT", [-(2**15), 2**15 - 1]),
    (pyarrow.int32(), "INT", [-(2**31), 2**31 - 1]),
    (pyarrow.int64(), "BIGINT", [-(2**63), 2**63 - 1]),
    (pyarrow.uint8(), "SMALLINT", [0, 255]),
    (pyarrow.uint16(), "INT", [0, 2**16 - 1]),
    (pyarrow.uint32(), "BIGINT", [0, 2**32 - 1]),
    (pyarrow.uint64(), "DECIMAL(20,0)", [0, 2**64 - 1]),
    (pyarrow.float16(), "FLOAT", [0.5, -0.0, float("inf"), 65504.0, 2.0**-24]),
    (pyarrow.float32(), "FLOAT", [0.5, -0.0, float("-inf")]),
    (pyarrow.float64(), "DOUBLE", [0.1, -0.0, float("inf")]),
    (pyarrow.decimal32(9, 2), "DECIMAL(9,2)", [-(10**6), 10**6]),
    (pyarrow.decimal64(18, 3), "DECIMAL(18,3)", [-(10**14), 10**14]),
    (pyarrow.decimal128(38, 4), "DECIMAL(38,4)", [-(10**33), 10**33]),
    (pyarrow.decimal256(38, 38), "DECIMAL(38,38)", [0]),
    (pyarrow.date32(), "DATE", [-719162, 0, 2932896]),
    (pyarrow.timestamp("s", "UTC"), "TIMESTAMP", [-1, 0, 2**33]),
    (pyarrow.timestamp("ms", "Europe/Oslo"), "TIMESTAMP", [-1, 0, 2**43]),
    (pyarrow.timestamp("us", "UTC"), "TIMESTAMP", TIMES),
    (pyarrow.timestamp("s"), "TIMESTAMP_NTZ", [-1, 0, 2**33]),
    (pyarrow.timestamp("ms"), "TIMESTAMP_NTZ", [-1, 0, 2**43]),
    (pyarrow.timestamp("us"), "TIMESTAMP_NTZ", TIMES),
    (pyarrow.string(), "STRING", ["", "bodø", "a\0b"]),
    (pyarrow.large_string(), "STRING", ["", "bodø"]),
    (pyarrow.binary(), "BINARY", [b"", b"\0\xff"]),
    (pyarrow.large_binary(), "BINARY", [b"", b"\0\xff"]),
    (pyarrow.binary(3), "BINARY", [b"\0\0\0", b"abc"]),
]
REFUSED = [
    (pyarrow.time32("s"), "times of a day"),
    (pyarrow.time32("ms"), "times of a day"),
    (pyarrow.time64("us"), "times of a day"),
    (pyarrow.time64("ns"), "times of a day"),
    (pyarrow.timestamp("ns"), "nanoseconds"),
    (pyarrow.timestamp("ns", "UTC"), "nanoseconds"),
    (pyarrow.decimal256(39, 0), "more than 38 digits"),
]


def column(kind: pyarrow.DataType, values: list[Any]) -> pyarrow.RecordBatch:
    """One column, with a null at its end; times and dates are given as numbers."""
    found = [*values, None]
    whole = all(type(value) is int for value in values)
    if whole and (pyarrow.types.is_timestamp(kind) or pyarrow.types.is_date(kind)):
        number = pyarrow.int32() if pyarrow.types.is_date(kind) else pyarrow.int64()
        array = pyarrow.array(found, number).cast(kind)
    else:
        array = pyarrow.array(found, kind)
    return pyarrow.RecordBatch.from_arrays([array], names=["c"])


def bits(table: pyarrow.Table | pyarrow.RecordBatch) -> list[str]:
    return [repr(value) for value in table["c"].to_pylist()]


@pytest.mark.parametrize(("kind", "sql", "values"), CASES, ids=lambda one: str(one)[:24])
def test_a_column_goes_to_spark_and_back_without_loss(
    kind: pyarrow.DataType, sql: str, values: list[Any]
) -> None:
    batch = column(kind, values)
    schema = spark_schema(batch.schema)
    assert schema["c"].dataType.simpleString().upper() == sql
    check_frame(schema, batch.schema)
    there = to_spark(batch, arrow_form(schema))
    assert there.schema == arrow_form(schema)
    back = from_spark(there, batch.schema)
    assert back.schema.types == [kind]
    assert bits(back) == bits(batch)


def test_the_manual_has_this_table() -> None:
    rows = re.findall(
        r"^\| (`.*?`(?:, `.*?`)*) \| `([A-Z_(), a-z0-9]+)` \|", MANUAL.read_text(), re.M
    )
    told = {arrow: sql for kinds, sql in rows for arrow in re.findall("`(.*?)`", kinds)}
    found = {
        family(kind): re.sub(r"DECIMAL\((?!20,0).*", "DECIMAL(p,s)", sql) for kind, sql, _ in CASES
    }
    assert told == found


def family(kind: pyarrow.DataType) -> str:
    """How the manual calls a type."""
    if pyarrow.types.is_timestamp(kind):
        return "timestamp with a zone" if kind.tz else "timestamp without a zone"
    if pyarrow.types.is_fixed_size_binary(kind) and not pyarrow.types.is_decimal(kind):
        return "fixed_size_binary"
    return re.sub(r"\(.*|\[day\]", "", str(kind))


@pytest.mark.parametrize(("kind", "reason"), REFUSED, ids=str)
def test_what_spark_cannot_hold_is_refused_by_name(kind: pyarrow.DataType, reason: str) -> None:
    schema = pyarrow.schema([("k", pyarrow.int64()), ("odd", kind)])
    with pytest.raises(CollectionSchemaError, match=f"{reason}.*'columns'.*column='odd'"):
        spark_schema(schema)
    check_frame(StructType([StructField("k", LongType())]), schema)
    strict = pyarrow.schema([pyarrow.field("odd", kind, nullable=False)])
    with pytest.raises(CollectionSchemaError, match=f"{reason}.*in Python.*column='odd'"):
        check_frame(StructType([]), strict)


def test_each_type_of_a_collection_is_held_or_refused() -> None:
    for kind in [kind for kind, *_ in (*CASES, *REFUSED)]:
        row_schema(pyarrow.schema([("k", pyarrow.int64()), ("c", kind)]), ["k"])


def test_columns_keep_their_order_and_whether_they_hold_nulls() -> None:
    schema = pyarrow.schema([pyarrow.field("b", pyarrow.string(), nullable=False), ("a", "int8")])
    found = spark_schema(schema)
    assert [(field.name, field.nullable) for field in found] == [("b", False), ("a", True)]
    assert arrow_form(found).field("b").nullable is False


ARRAY = ArrayType(IntegerType())


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ARRAY, "to_json.*column='c' type=array<int>"),
        (MapType(StringType(), IntegerType()), "to_json.*column='c' type=map"),
        (StructType([StructField("x", IntegerType())]), "to_json.*column='c' type=struct"),
        (DayTimeIntervalType(), "cast them.*column='c' type=interval"),
        (LongType(), "cast it to INT column='c' type=bigint"),
        (DecimalType(10, 0), "cast it to INT column='c' type=decimal"),
    ],
    ids=lambda one: str(one)[:20],
)
def test_a_frame_of_other_types_is_refused_by_name(kind: DataType, message: str) -> None:
    with pytest.raises(CollectionSchemaError, match=message):
        check_frame(StructType([StructField("c", kind)]), pyarrow.schema([("c", "int32")]))


def test_a_frame_with_other_columns_is_refused_by_name() -> None:
    schema = pyarrow.schema([("c", pyarrow.int32()), ("d", pyarrow.string())])
    c, d = StructField("c", IntegerType()), StructField("d", StringType())
    check_frame(StructType([d, c]), schema)
    for fields, message in [
        ([c], "is missing.*column='d'"),
        ([c, d, StructField("e", StringType())], "no such column.*column='e'"),
        ([c, d, c], "two columns have one name.*column='c'"),
        ([c, d, StructField("e", ARRAY)], "to_json.*column='e'"),
        ([c, d, StructField("_diff", LongType())], "no such column.*column='_diff'"),
    ]:
        with pytest.raises(CollectionSchemaError, match=message):
            check_frame(StructType(fields), schema)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pyarrow.uint8(), pyarrow.array([256], pyarrow.int16())),
        (pyarrow.uint64(), pyarrow.array([-1], pyarrow.decimal128(20, 0))),
        (pyarrow.float16(), pyarrow.array([0.1], pyarrow.float32())),
        (pyarrow.float16(), pyarrow.array([1e6], pyarrow.float32())),
        (pyarrow.timestamp("ms", "UTC"), pyarrow.array([1], pyarrow.timestamp("us", "Asia/Tokyo"))),
        (pyarrow.binary(3), pyarrow.array([b"abcd"])),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_refused_and_its_column_named(
    kind: pyarrow.DataType, given: pyarrow.Array
) -> None:
    batch = pyarrow.RecordBatch.from_arrays([given], names=["c"])
    with pytest.raises(CollectionSchemaError, match=r"do not fit.*column='c'"):
        from_spark(batch, pyarrow.schema([("c", kind)]))


def test_an_instant_beyond_microseconds_is_refused_and_its_column_named() -> None:
    batch = column(pyarrow.timestamp("s"), [2**60])
    with pytest.raises(CollectionSchemaError, match=r"do not fit.*column='c'"):
        to_spark(batch, arrow_form(spark_schema(batch.schema)))


def test_nan_of_halves_stays() -> None:
    floats = pyarrow.RecordBatch.from_arrays([pyarrow.array([float("nan")], "float32")], ["c"])
    assert bits(from_spark(floats, pyarrow.schema([("c", pyarrow.float16())]))) == ["nan"]
