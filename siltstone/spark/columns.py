"""Which columns a read has: those of its options, or those of the user's schema."""

from __future__ import annotations

from typing import Final

import pyarrow
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType

from siltstone.core.errors import SettingsError
from siltstone.spark.options import BadRecords, Mode, ReadOptions

VALUE: Final = "value"
SEGMENT: Final = "segment"
OFFSET: Final = "offset"
ERROR: Final = "error"
"""What is wrong with bytes that are no event; its rows have no value."""

_UNKNOWN_TO_THE_STORE: Final = frozenset({"append_index", "append_time"})
_TYPES: Final[dict[DataType, pyarrow.DataType]] = {
    StringType(): pyarrow.string(),
    BinaryType(): pyarrow.binary(),
    LongType(): pyarrow.int64(),
}


def default_schema(options: ReadOptions) -> StructType:
    """The schema of a read whose user gives none.

    Raises:
        SettingsError: an option names a column that there is not.
    """
    names = options.columns or (
        (VALUE, ERROR) if options.bad_records is BadRecords.COLUMN else (VALUE,)
    )
    known = _columns(options)
    for name in names:
        if name in _UNKNOWN_TO_THE_STORE:
            raise SettingsError(
                f"there is no column {name!r}: appends are joined when they are stored, so no "
                "number or time is kept of each; 'offset' tells rows apart"
            )
        if name not in known:
            raise SettingsError(
                f"there is no column {name!r} in mode {str(options.mode)!r}; "
                f"there are {', '.join(known)}"
            )
    if len(set(names)) != len(names):
        raise SettingsError("option 'columns' names a column twice")
    if options.bad_records is BadRecords.COLUMN and ERROR not in names:
        raise SettingsError("badRecords=column needs the column 'error' among its columns")
    return StructType([StructField(name, known[name][0]) for name in names])


def arrow_schema(options: ReadOptions, schema: StructType) -> pyarrow.Schema:
    """The Arrow form of the schema that Spark wants, which a user may have chosen.

    Raises:
        SettingsError: it has other columns than the read, or other types.
    """
    known = _columns(options)
    fields = []
    for field in schema:
        if field.name not in known or field.dataType not in known[field.name]:
            raise SettingsError(f"{_said(options)}, not {schema.simpleString()}")
        if not field.nullable and options.bad_records is BadRecords.COLUMN and field.name == VALUE:
            raise SettingsError("with badRecords=column the column 'value' may be null")
        if not field.nullable and field.name == ERROR:
            raise SettingsError("the column 'error' may be null")
        fields.append(pyarrow.field(field.name, _TYPES[field.dataType], nullable=field.nullable))
    names = [field.name for field in fields]
    if not names or len(set(names)) != len(names):
        raise SettingsError(f"{_said(options)}, not {schema.simpleString()}")
    if options.columns and set(options.columns) != set(names):
        raise SettingsError(
            f"option 'columns' says {', '.join(options.columns)}, the schema {', '.join(names)}"
        )
    if options.bad_records is BadRecords.COLUMN and ERROR not in names:
        raise SettingsError("badRecords=column needs the column 'error STRING' in the schema")
    return pyarrow.schema(fields)


def _columns(options: ReadOptions) -> dict[str, tuple[DataType, ...]]:
    """The columns that there are, each with the types it may have, the usual one first."""
    text, raw = StringType(), BinaryType()
    values = {
        Mode.LINES: (text, raw),
        Mode.EVENTS: (raw, text),
        Mode.BYTES: (raw,),
    }
    columns: dict[str, tuple[DataType, ...]] = {
        VALUE: values[options.mode],
        SEGMENT: (text,),
        OFFSET: (LongType(),),
    }
    if options.bad_records is BadRecords.COLUMN:
        columns[ERROR] = (text,)
    return columns


def _said(options: ReadOptions) -> str:
    known = _columns(options)
    columns = [
        " or ".join(f"'{name} {kind.simpleString().upper()}'" for kind in kinds)
        for name, kinds in known.items()
    ]
    return f"in mode {str(options.mode)!r} a segment has the columns {'; '.join(columns)}"
