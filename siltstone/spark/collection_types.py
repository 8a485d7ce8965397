"""Types of columns in a collection, and what they are in Spark: one table for both directions.

Where Spark has no type of the same width, the next wider one holds all values. What it cannot hold
without loss is refused by name: times of a day, nanoseconds, and decimals of more than 38 digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow
from pyarrow import compute, types
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from siltstone.core.errors import CollectionSchemaError

DIGITS_MAX: Final = 38
"""Of a decimal of Spark."""

_Kind = tuple[Callable[[pyarrow.DataType], bool], Callable[[pyarrow.DataType], DataType]]


def _is_instant(kind: pyarrow.DataType) -> bool:
    return bool(types.is_timestamp(kind) and kind.unit != "ns" and kind.tz is not None)


def _is_local_time(kind: pyarrow.DataType) -> bool:
    return bool(types.is_timestamp(kind) and kind.unit != "ns" and kind.tz is None)


def _is_held_decimal(kind: pyarrow.DataType) -> bool:
    return bool(types.is_decimal(kind) and kind.precision <= DIGITS_MAX)


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_bytes(kind: pyarrow.DataType) -> bool:
    takes = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    return any(is_kind(kind) for is_kind in takes)


_KINDS: Final[tuple[_Kind, ...]] = (
    (types.is_boolean, lambda kind: BooleanType()),
    (types.is_int8, lambda kind: ByteType()),
    (types.is_int16, lambda kind: ShortType()),
    (types.is_int32, lambda kind: IntegerType()),
    (types.is_int64, lambda kind: LongType()),
    (types.is_uint8, lambda kind: ShortType()),
    (types.is_uint16, lambda kind: IntegerType()),
    (types.is_uint32, lambda kind: LongType()),
    (types.is_uint64, lambda kind: DecimalType(20, 0)),
    (types.is_float16, lambda kind: FloatType()),
    (types.is_float32, lambda kind: FloatType()),
    (types.is_float64, lambda kind: DoubleType()),
    (_is_held_decimal, lambda kind: DecimalType(kind.precision, kind.scale)),
    (types.is_date32, lambda kind: DateType()),
    (_is_instant, lambda kind: TimestampType()),
    (_is_local_time, lambda kind: TimestampNTZType()),
    (_is_text, lambda kind: StringType()),
    (_is_bytes, lambda kind: BinaryType()),
)
"""Which types of Arrow a row of the table is for, and the type of Spark that holds them."""

_HELD: Final = (
    *(BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType),
    *(DateType, TimestampType, TimestampNTZType, StringType, BinaryType),
)
"""The types of Spark that are in the table."""


def spark_type(kind: pyarrow.DataType) -> DataType | None:
    """Return the type of Spark that holds all values of a type; ``None`` where there is none."""
    return next((spark(kind) for is_kind, spark in _KINDS if is_kind(kind)), None)


def spark_schema(columns: pyarrow.Schema) -> StructType:
    """Return columns of a collection as Spark has them.

    Raises:
        CollectionSchemaError: Spark has no type for a column; the message names it and a way out.
    """
    fields = []
    for field in columns:
        kind = spark_type(field.type)
        if kind is None:
            raise CollectionSchemaError(
                f"Spark has no type {_lack(field.type)}; leave the column out: name the others by "
                "'columns'",
                column=repr(field.name),
                type=field.type,
            )
        fields.append(StructField(field.name, kind, field.nullable))
    return StructType(fields)


def arrow_form(schema: StructType) -> pyarrow.Schema:
    """Return the schema that record batches need on their way to Spark."""
    return to_arrow_schema(schema, timezone="UTC")


def to_spark(batch: pyarrow.RecordBatch, form: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return rows of a collection in the form that Spark takes.

    Args:
        batch: has the columns of ``form``, one at least.
        form: by ``arrow_form``.

    Raises:
        CollectionSchemaError: an instant lies outside of what 64 bits of microseconds hold.
    """
    columns = [_cast(batch.column(field.name), field) for field in form]
    return pyarrow.RecordBatch.from_arrays(columns, schema=form)


def from_spark(rows: pyarrow.RecordBatch | pyarrow.Table, columns: pyarrow.Schema) -> pyarrow.Table:
    """Return rows of Spark in the types of a collection, with the columns that they have.

    Args:
        rows: of a frame that ``check_frame`` took.
        columns: of the collection.

    Raises:
        CollectionSchemaError: a value does not fit its column without loss; the message names it.
    """
    fields = [columns.field(name) for name in rows.schema.names]
    arrays = [_cast(rows.column(field.name), field) for field in fields]
    plain = [field.with_nullable(True) for field in fields]  # Nulls are refused by what takes this.
    return pyarrow.Table.from_arrays(arrays, schema=pyarrow.schema(plain))


def check_frame(frame: StructType, columns: pyarrow.Schema) -> None:
    """Check that a data frame has the columns of a collection, in any order.

    A nullable column whose type Spark does not have may be left out: it gets nulls.

    Raises:
        CollectionSchemaError: a column is missing, there twice, unknown, or of another type; the
            message names it.
    """
    kinds: dict[str, DataType] = {}
    for field in frame:
        if field.name in kinds:
            raise CollectionSchemaError("two columns have one name", column=repr(field.name))
        kinds[field.name] = field.dataType
        if not isinstance(field.dataType, _HELD):
            raise CollectionSchemaError(
                "no column of a collection has this type; write the values as JSON in a string, "
                "by to_json, or cast them",
                column=repr(field.name),
                type=field.dataType.simpleString(),
            )
    for name in kinds:
        if name not in columns.names:
            raise CollectionSchemaError(
                "the collection has no such column; leave it out, or evolve the schema",
                column=repr(name),
            )
    for field in columns:
        _check_column(field, kinds.get(field.name))


def _check_column(field: pyarrow.Field, found: DataType | None) -> None:
    wanted = spark_type(field.type)
    if wanted is None:
        if found is None and field.nullable:
            return
        raise CollectionSchemaError(
            f"Spark has no type {_lack(field.type)}; "
            + ("leave the column out" if field.nullable else "append the rows in Python"),
            column=repr(field.name),
            type=field.type,
        )
    if found is None:
        raise CollectionSchemaError(
            "a column of the collection is missing; give it, with nulls where it has no values",
            column=repr(field.name),
            type=wanted.simpleString(),
        )
    if found != wanted and not (isinstance(found, StringType) and isinstance(wanted, StringType)):
        raise CollectionSchemaError(
            f"a column has another type than in the collection; cast it to {_sql(wanted)}",
            column=repr(field.name),
            type=found.simpleString(),
        )


def _lack(kind: pyarrow.DataType) -> str:
    """What Spark lacks."""
    if types.is_time(kind):
        return "for these times of a day"
    if types.is_timestamp(kind):
        return "for nanoseconds"
    return f"for decimals of more than {DIGITS_MAX} digits"


def _sql(kind: DataType) -> str:
    return kind.simpleString().upper()


def _cast(
    column: pyarrow.Array | pyarrow.ChunkedArray, field: pyarrow.Field
) -> pyarrow.Array | pyarrow.ChunkedArray:
    if column.type == field.type:
        return column
    try:
        made = column.cast(field.type)
    except pyarrow.ArrowException as error:
        raise CollectionSchemaError(
            f"values do not fit the type: {error}", column=repr(field.name), type=field.type
        ) from error
    if types.is_float16(field.type) and not _is_same(column, made.cast(column.type)):
        raise CollectionSchemaError(
            "values do not fit the type: digits would be lost; round them first",
            column=repr(field.name),
            type=field.type,
        )
    return made


def _is_same(
    values: pyarrow.Array | pyarrow.ChunkedArray, rounded: pyarrow.Array | pyarrow.ChunkedArray
) -> bool:
    """Whether numbers are equal; NaN is taken for equal to NaN."""
    equal = compute.or_(compute.equal(values, rounded), compute.is_nan(values))
    return bool(compute.all(equal, min_count=0).as_py())
