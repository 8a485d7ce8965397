"""Columns of collections as people write them, and types as Arrow writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pyarrow

from siltstone.core.errors import CollectionSchemaError

_NOT_NULL: Final = " not null"

_DECIMAL: Final = re.compile(r"decimal(32|64|128|256)?\((\d+), *(-?\d+)\)")
_TIMESTAMP: Final = re.compile(r"timestamp\[(s|ms|us|ns), *tz=([^\]]+)\]")
_FIXED: Final = re.compile(r"fixed_size_binary\[(\d+)\]")

_DECIMALS: Final[Mapping[str | None, Callable[[int, int], pyarrow.DataType]]] = {
    None: pyarrow.decimal128,
    "32": pyarrow.decimal32,
    "64": pyarrow.decimal64,
    "128": pyarrow.decimal128,
    "256": pyarrow.decimal256,
}


def type_of(text: str) -> pyarrow.DataType:
    """Return the type that Arrow writes so, or knows by this name.

    Raises:
        ValueError: there is none, or not with these numbers.
    """
    try:
        if found := _DECIMAL.fullmatch(text):
            return _DECIMALS[found[1]](int(found[2]), int(found[3]))
        if found := _TIMESTAMP.fullmatch(text):
            return pyarrow.timestamp(found[1], found[2])
        if found := _FIXED.fullmatch(text):
            return pyarrow.binary(int(found[1]))
        return pyarrow.type_for_alias(text)
    except (ValueError, OverflowError) as error:  # those of Arrow are ValueErrors
        raise ValueError(
            f"no type of a column: {text!r}; write int64, double, string, binary, bool, date32, "
            "'timestamp[us, tz=UTC]', 'decimal128(10, 2)' or another one as pyarrow shows it"
        ) from error


def columns_of(texts: Iterable[str]) -> pyarrow.Schema:
    """Return columns from ``NAME:TYPE`` or ``NAME:TYPE not null``.

    Raises:
        CollectionSchemaError: one of them is no column; the message names it.
    """
    return pyarrow.schema([_column(text) for text in texts])


def schema_of_file(path: str) -> pyarrow.Schema:
    """Return the columns of a file of Parquet.

    Raises:
        CollectionSchemaError: it is not such a file.
        OSError: it cannot be read.
    """
    from pyarrow import parquet

    try:
        return parquet.read_schema(path)
    except pyarrow.ArrowException as error:
        raise CollectionSchemaError(f"{path} is not a file of Parquet: {error}") from error


def column_rows(schema: pyarrow.Schema, key: Iterable[str]) -> list[dict[str, Any]]:
    """The columns of a collection, for JSON."""
    keys = set(key)
    return [
        {
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "key": field.name in keys,
        }
        for field in schema
    ]


def _column(text: str) -> pyarrow.Field:
    name, colon, kind = text.partition(":")
    if not colon:
        raise CollectionSchemaError("write a column as NAME:TYPE", column=repr(text))
    nullable = not kind.endswith(_NOT_NULL)
    try:
        found = type_of(kind.removesuffix(_NOT_NULL).strip())
    except ValueError as error:
        raise CollectionSchemaError(str(error), column=repr(name)) from error
    return pyarrow.field(name, found, nullable=nullable)
