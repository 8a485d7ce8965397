"""Rows as callers have them, made into tables of exactly one schema."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Final

import pyarrow
from pyarrow import compute, types

from siltstone.collections.rows.row_schema import DIFF, TIME, RowSchema
from siltstone.core.constants import KIB
from siltstone.core.errors import CollectionSchemaError, UpdateTimeError
from siltstone.core.records.collection_frontier import TIME_MAX

Rows = Any
"""A table or record batch of Arrow, a data frame of pandas, or a sequence of mappings."""

FEW_ROWS: Final = 32
FEW_BYTES: Final = 4 * KIB

_UPDATE_FIELDS: Final = (
    pyarrow.field(TIME, pyarrow.int64(), nullable=False),
    pyarrow.field(DIFF, pyarrow.int64(), nullable=False),
)

_Family = tuple[Callable[[Any], bool], Callable[[Any], bool], tuple[type, ...]]

_FAMILIES: Final[tuple[_Family, ...]] = (
    (types.is_boolean, types.is_boolean, (bool,)),
    (types.is_integer, lambda kind: types.is_integer(kind) or types.is_floating(kind), (Integral,)),
    (types.is_floating, lambda kind: types.is_integer(kind) or types.is_floating(kind), (Real,)),
    (
        types.is_decimal,
        lambda kind: types.is_integer(kind) or types.is_decimal(kind),
        (Decimal, Integral),
    ),
    (types.is_date, types.is_date, (date,)),
    (types.is_time, types.is_time, (time,)),
    (types.is_timestamp, types.is_timestamp, (datetime,)),
    (
        lambda kind: types.is_string(kind) or types.is_large_string(kind),
        lambda kind: types.is_string(kind) or types.is_large_string(kind) or _is_string_view(kind),
        (str,),
    ),
    (
        lambda kind: True,
        lambda kind: types.is_binary(kind) or types.is_large_binary(kind) or _is_fixed(kind),
        (bytes, bytearray, memoryview),
    ),
)
"""Which types a column takes, by its own type: those of Arrow columns, and classes of values."""


def table_of_rows(schema: RowSchema, rows: Rows) -> pyarrow.Table:
    """Return ``rows`` as a table of exactly ``schema``.

    Columns may come in any order. A nullable column that is missing holds nulls. In pandas NaN
    means null; elsewhere all NaN of floats become one, so that rows with NaN can be equal.

    Raises:
        TypeError: rows are nothing that can be read.
        CollectionSchemaError: a column is missing or unknown, holds values that do not fit its
            type without loss, or holds nulls where it must not; the message names it.
    """
    return _table(schema, schema.arrow, rows)


def table_of_updates(schema: RowSchema, rows: Rows) -> pyarrow.Table:
    """Return ``rows``, which have ``_time`` and ``_diff``, as a table of ``schema`` and these two.

    Raises:
        TypeError, CollectionSchemaError: as for ``table_of_rows``.
        UpdateTimeError: a time is below 0 or above 2^63-2.
    """
    table = _table(schema, pyarrow.schema([*schema.arrow, *_UPDATE_FIELDS]), rows)
    if len(table):
        bounds = compute.min_max(table[TIME]).as_py()
        if bounds["min"] < 0 or bounds["max"] > TIME_MAX:
            raise UpdateTimeError("times are from 0 to 2^63-2", column=repr(TIME), **bounds)
    return table


def table_of_changes(schema: RowSchema, rows: Rows, remove: Rows | None = None) -> pyarrow.Table:
    """Return rows that come, and rows that go, as updates without a time.

    Args:
        schema: of both.
        rows: each comes once.
        remove: each goes once; ``None`` means none, and then there is no ``_diff``.

    Raises:
        TypeError, CollectionSchemaError: as for ``table_of_rows``.
    """
    added = table_of_rows(schema, rows)
    if remove is None:
        return added
    gone = table_of_rows(schema, remove)
    return pyarrow.concat_tables(
        [with_diff(added, 1), with_diff(gone, -1)],
    )


def are_few(rows: Rows | None) -> bool:
    """Whether to make a table of ``rows`` takes no longer than to let a thread do it."""
    if rows is None:
        return True
    if isinstance(rows, pyarrow.Table | pyarrow.RecordBatch):
        # Of a slice this counts all that it keeps in memory, but it takes a fiftieth of `nbytes`.
        return bool(rows.get_total_buffer_size() <= FEW_BYTES)
    return isinstance(rows, Sequence) and len(rows) <= FEW_ROWS


def with_diff(table: pyarrow.Table, diff: int) -> pyarrow.Table:
    """Return ``table`` with the column ``_diff``, which is ``diff`` everywhere."""
    column = pyarrow.repeat(pyarrow.scalar(diff, pyarrow.int64()), len(table))
    return table.append_column(_UPDATE_FIELDS[1], column)


def _table(schema: RowSchema, wanted: pyarrow.Schema, rows: Rows) -> pyarrow.Table:
    """The rows as a table of ``wanted``: the columns of ``schema``, and those of updates or not."""
    given = _arrow_table(rows)
    if given is None:
        columns = _columns_of_mappings(wanted, rows)
        return _storable(schema, pyarrow.table(columns, schema=wanted))
    if not given.schema.equals(wanted, check_metadata=True):
        return _storable(schema, pyarrow.table(_fitting_columns(wanted, given), schema=wanted))
    for index in schema.texts:
        _check_text(wanted.field(index), given.column(index))
    return _storable(schema, given)


def _fitting_columns(wanted: pyarrow.Schema, given: pyarrow.Table) -> list[pyarrow.ChunkedArray]:
    names = given.column_names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CollectionSchemaError("two columns have one name", column=repr(twice))
    _check_names(wanted, names)
    return [
        _fitting(field, given[field.name])
        if field.name in names
        else pyarrow.chunked_array([pyarrow.nulls(len(given), field.type)])
        for field in wanted
    ]


def _arrow_table(rows: Rows) -> pyarrow.Table | None:
    """The rows as a table, where they are columns; ``None`` where they are mappings."""
    if isinstance(rows, pyarrow.Table):
        return rows
    if isinstance(rows, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([rows])
    pandas = sys.modules.get("pandas")  # who has a data frame has imported it
    if pandas is not None and isinstance(rows, pandas.DataFrame):
        try:
            return pyarrow.Table.from_pandas(rows, preserve_index=False)
        except (pyarrow.ArrowException, TypeError, ValueError) as error:
            raise CollectionSchemaError(f"the data frame has no Arrow form: {error}") from error
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Sequence):
        raise TypeError(
            "rows are a pyarrow.Table, a RecordBatch, a pandas DataFrame or a sequence of "
            f"mappings, not {type(rows).__name__}"
        )
    return None


def _check_names(fields: Iterable[pyarrow.Field], given: Iterable[str]) -> None:
    known = {field.name for field in fields}
    there = set(given)
    for name in sorted(there - known, key=str):
        raise CollectionSchemaError(
            "the collection has no such column; leave it out, or evolve the schema",
            column=repr(name),
        )
    for field in fields:
        if field.name not in there and not field.nullable:
            raise CollectionSchemaError(
                "a column that holds no nulls is missing; give it", column=repr(field.name)
            )


def _columns_of_mappings(
    fields: Iterable[pyarrow.Field], rows: Sequence[Any]
) -> list[pyarrow.ChunkedArray]:
    names: set[str] = set() if rows else {field.name for field in fields}
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"a row is a mapping of columns, not {type(row).__name__}")
        names.update(row)
    _check_names(fields, names)
    return [_column_of_values(field, [row.get(field.name) for row in rows]) for field in fields]


def _column_of_values(field: pyarrow.Field, values: list[Any]) -> pyarrow.ChunkedArray:
    _, _, classes = _family(field.type)
    for kind in {type(value) for value in values} - {type(None)}:
        if not _takes(field.type, kind, classes):
            raise _misfit(field, f"values of class {kind.__name__} do not fit it")
    if types.is_timestamp(field.type):
        aware = {value.tzinfo is not None for value in values if value is not None}
        if aware - {field.type.tz is not None}:
            raise _misfit(field, "either it or its values have a time zone, not both")
    try:
        return pyarrow.chunked_array([pyarrow.array(values, field.type)])
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _misfit(field, f"values do not fit it: {error}") from error


def _takes(kind: pyarrow.DataType, found: type, classes: tuple[type, ...]) -> bool:
    if types.is_boolean(kind):
        return issubclass(found, bool) or found.__name__ in ("bool", "bool_")  # numpy
    if issubclass(found, bool):
        return False
    if types.is_date(kind):
        return issubclass(found, date) and not issubclass(found, datetime)
    return issubclass(found, classes)


def _fitting(field: pyarrow.Field, column: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """The column in the type of the field, where that loses nothing."""
    _check_text(field, column)
    kind = column.type
    if types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if kind == field.type:
        return column
    _, takes, _ = _family(field.type)
    fits = types.is_null(kind) or takes(kind)
    if types.is_timestamp(field.type) and types.is_timestamp(kind):
        fits = (kind.tz is None) == (field.type.tz is None)
    if types.is_floating(field.type) and types.is_floating(kind):
        fits = kind.bit_width <= field.type.bit_width
    if not fits:
        raise _misfit(field, f"a column of type {kind} does not fit it; cast it")
    try:
        return column.cast(field.type)
    except pyarrow.ArrowException as error:
        raise _misfit(field, f"values do not fit it: {error}") from error


def _check_text(field: pyarrow.Field, column: pyarrow.ChunkedArray) -> None:
    if not _holds_text(column.type):
        return
    try:  # Neither Arrow nor Parquet looks, and no reader could decode the rows.
        column.validate(full=True)
    except pyarrow.ArrowException as error:
        raise _misfit(field, f"values are not UTF-8: {error}") from error


def _storable(schema: RowSchema, table: pyarrow.Table) -> pyarrow.Table:
    """The table with one NaN, if it holds no nulls where none may be, and no time is cut."""
    for index in (*schema.full, *range(len(schema.arrow), table.num_columns)):
        if table.column(index).null_count:
            raise _misfit(table.schema.field(index), "it holds nulls, and must not; fill them")
    for index in schema.floats:
        column = table.column(index)
        if _has_nan(column):
            one = pyarrow.scalar(float("nan"), column.type)
            same = compute.if_else(compute.is_nan(column), one, column)
            table = table.set_column(index, table.schema.field(index), same)
    for index in schema.seconds:
        field = table.schema.field(index)
        try:  # Parquet has no seconds.
            table.column(index).cast(pyarrow.timestamp("ms", field.type.tz))
        except pyarrow.ArrowException as error:
            raise _misfit(field, f"values do not fit milliseconds: {error}") from error
    return table


def _has_nan(column: pyarrow.ChunkedArray) -> bool:
    if len(column) <= FEW_ROWS:  # Two calls of Arrow take four times as long.
        return any(value != value for value in column.to_pylist())
    return bool(compute.any(compute.is_nan(column)).as_py())


def _family(kind: pyarrow.DataType) -> _Family:
    return next(family for family in _FAMILIES if family[0](kind))


def _holds_text(kind: pyarrow.DataType) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or _is_string_view(kind))


def _is_string_view(kind: pyarrow.DataType) -> bool:
    return bool(types.is_string_view(kind))


def _is_fixed(kind: pyarrow.DataType) -> bool:
    return bool(types.is_fixed_size_binary(kind) or types.is_binary_view(kind))


def _misfit(field: pyarrow.Field, message: str) -> CollectionSchemaError:
    return CollectionSchemaError(message, column=repr(field.name), type=field.type)
