"""The schema of a collection: flat columns, the key first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as told
from typing import Any, Final

import pyarrow
from pyarrow import types

from siltstone.core.errors import CollectionSchemaError, CorruptDataError
from siltstone.core.records.collection_rows import SCHEMA_BYTES_MAX

TIME: Final = "_time"
DIFF: Final = "_diff"
"""Columns of updates, after those of the schema; both are int64 and hold no nulls."""

COLUMNS_MAX: Final = 2**16 - 1
"""The record of a schema counts the columns of its key in 16 bits."""

_TAKEN: Final = (
    types.is_boolean,
    types.is_integer,
    types.is_floating,
    types.is_decimal,
    types.is_date32,
    types.is_time,
    types.is_timestamp,
    types.is_string,
    types.is_large_string,
    types.is_binary,
    types.is_large_binary,
    types.is_fixed_size_binary,
)


PackedSchema = tuple[bytes, int]
"""A schema as it travels to workers: serialized, and the number of key columns."""


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The columns of a collection. Made by ``row_schema``, ``evolved`` or ``from_bytes``.

    Attributes:
        arrow: the columns, those of the key first. Columns of the key hold no nulls; there is no
            metadata.
        key_columns: how many columns make the key, 1 at least.
        key_types: types of the columns of the key. This and the next four are told by ``arrow``;
            each append of a few rows asks for them, and to ask Arrow takes longer than the rows.
        full: indexes of the columns that hold no nulls.
        texts: those of the columns of strings.
        floats: those of the columns of floats.
        seconds: those of the timestamps in seconds.
    """

    arrow: pyarrow.Schema
    key_columns: int
    key_types: tuple[pyarrow.DataType, ...] = told(init=False, repr=False, compare=False)
    full: tuple[int, ...] = told(init=False, repr=False, compare=False)
    texts: tuple[int, ...] = told(init=False, repr=False, compare=False)
    floats: tuple[int, ...] = told(init=False, repr=False, compare=False)
    seconds: tuple[int, ...] = told(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look at all columns."""
        fields = list(enumerate(self.arrow))
        found = {
            "key_types": [one.type for _, one in fields[: self.key_columns]],
            "full": [index for index, one in fields if not one.nullable],
            "texts": [
                index
                for index, one in fields
                if types.is_string(one.type) or types.is_large_string(one.type)
            ],
            "floats": [index for index, one in fields if types.is_floating(one.type)],
            "seconds": [
                index
                for index, one in fields
                if types.is_timestamp(one.type) and one.type.unit == "s"
            ],
        }
        for name, indexes in found.items():
            object.__setattr__(self, name, tuple(indexes))

    @property
    def names(self) -> list[str]:
        """Names of all columns, in order."""
        return list(self.arrow.names)

    @property
    def key(self) -> list[str]:
        """Names of the columns of the key."""
        return self.names[: self.key_columns]

    def packed(self) -> PackedSchema:
        """The schema for a worker, which calls ``unpacked``."""
        return self.to_bytes(), self.key_columns

    @classmethod
    def unpacked(cls, packed: PackedSchema, *, where: str) -> RowSchema:
        """Return the schema that ``packed`` gave. Raises as ``from_bytes``."""
        return cls.from_bytes(*packed, where=where)

    def to_bytes(self) -> bytes:
        """The columns as Arrow serializes them, for the record of a schema."""
        return bytes(self.arrow.serialize())

    @classmethod
    def from_bytes(cls, data: bytes, key_columns: int, *, where: str) -> RowSchema:
        """Return the schema that ``to_bytes`` gave.

        Raises:
            CorruptDataError: these bytes are no schema of a collection; ``where`` is named.
        """
        try:
            arrow = pyarrow.ipc.read_schema(pyarrow.py_buffer(data))
            key = arrow.names[:key_columns]
            schema = row_schema(arrow, key)
        except (pyarrow.ArrowException, OSError, ValueError, CollectionSchemaError) as error:
            raise CorruptDataError("bytes are no schema of a collection", where=where) from error
        if schema.arrow != arrow or len(key) != key_columns:
            raise CorruptDataError("bytes are no schema of a collection", where=where)
        return schema


def row_schema(columns: pyarrow.Schema, key: Sequence[str]) -> RowSchema:
    """Return the schema of a collection: ``columns``, with those of ``key`` first and not null.

    Metadata of the schema and of its columns is left out.

    Args:
        columns: flat: booleans, integers, floats, decimals, dates, times, timestamps, strings and
            binaries.
        key: names of the columns that rows are sorted by, one at least; no floats among them.

    Raises:
        CollectionSchemaError: a column or the key cannot be; the message names it and a way out.
    """
    if not isinstance(columns, pyarrow.Schema):
        raise TypeError(f"a schema is a pyarrow.Schema, not {type(columns).__name__}")
    if isinstance(key, str):
        raise TypeError("a key is a sequence of names, not one str")
    fields: dict[str, pyarrow.Field] = {}
    for field in columns:
        _check_column(field, fields)
        fields[field.name] = field.remove_metadata()
    _check_key(fields, key)
    first = [fields[name].with_nullable(False) for name in key]
    rest = [field for name, field in fields.items() if name not in set(key)]
    schema = RowSchema(pyarrow.schema([*first, *rest]), len(key))
    size = len(schema.to_bytes())
    if len(fields) > COLUMNS_MAX or size > SCHEMA_BYTES_MAX:
        raise CollectionSchemaError(
            "schema is too large; use fewer columns or shorter names",
            columns=len(fields),
            bytes=size,
            limit=SCHEMA_BYTES_MAX,
        )
    return schema


def stored_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The type of a new collection for a column of type ``kind``: the same values, stored plainly.

    A type that no collection has stays as it is, and is refused by name when one is made.
    """
    if types.is_dictionary(kind):
        return stored_type(kind.value_type)
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pyarrow.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pyarrow.binary()
    if types.is_date64(kind):
        return pyarrow.date32()
    return kind


def evolved(schema: RowSchema, columns: pyarrow.Schema) -> RowSchema:
    """Return ``schema`` with the columns that only ``columns`` has; all of these are nullable.

    Args:
        schema: as it is.
        columns: every column of ``schema`` as it is there, in any order, and the new ones.

    Returns:
        ``schema`` itself where nothing is new.

    Raises:
        CollectionSchemaError: a column is dropped or changed, or a new one allows no nulls.
    """
    wanted = row_schema(columns, schema.key).arrow
    for field in schema.arrow:
        if field.name not in wanted.names:
            raise CollectionSchemaError(
                "a column cannot be dropped; keep it", column=repr(field.name)
            )
        new = wanted.field(field.name)
        if new != field:
            raise CollectionSchemaError(
                "a column cannot change; add a column of another name",
                column=repr(field.name),
                now=_text(field),
                wanted=_text(new),
            )
    added = [field for field in wanted if field.name not in schema.arrow.names]
    for field in added:
        if not field.nullable:
            raise CollectionSchemaError(
                "older rows have no value for a new column; make it nullable",
                column=repr(field.name),
            )
    if not added:
        return schema
    return row_schema(pyarrow.schema([*schema.arrow, *added]), schema.key)


def _text(field: pyarrow.Field) -> str:
    return f"{field.type}" if field.nullable else f"{field.type} not null"


def _check_column(field: pyarrow.Field, before: dict[str, Any]) -> None:
    column = repr(field.name)
    if not field.name:
        raise CollectionSchemaError("a column has no name; give it one", column=column)
    if field.name in before:
        raise CollectionSchemaError("two columns have one name; rename one", column=column)
    if field.name in (TIME, DIFF):
        raise CollectionSchemaError("this name is reserved; rename the column", column=column)
    if types.is_decimal(field.type) and not 0 <= field.type.scale <= field.type.precision:
        raise CollectionSchemaError(
            "the scale of a decimal is 0 to its precision; use another",
            column=column,
            type=field.type,
        )
    if not any(taken(field.type) for taken in _TAKEN):
        raise CollectionSchemaError(_way_out(field.type), column=column, type=field.type)


def _way_out(kind: pyarrow.DataType) -> str:
    if types.is_date64(kind):
        return "dates are date32; use pyarrow.date32()"
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return "views are not stored; use pyarrow.string() or pyarrow.binary()"
    if types.is_dictionary(kind):
        return "dictionaries are not stored; use the type of their values"
    if types.is_duration(kind):
        return "durations are not stored; use pyarrow.int64()"
    if types.is_nested(kind):
        return "columns are flat; store nested values as JSON in a string"
    return "columns of this type are not stored; use another"


def _check_key(fields: dict[str, pyarrow.Field], key: Sequence[str]) -> None:
    if not key:
        raise CollectionSchemaError("a key has one column at least; name one", key="()")
    if len(set(key)) != len(key):
        raise CollectionSchemaError("a key names each column once", key=tuple(key))
    for name in key:
        if name not in fields:
            raise CollectionSchemaError(
                "the key names a column that is not there; add it, or choose another",
                column=repr(name),
            )
        if types.is_floating(fields[name].type):
            raise CollectionSchemaError(
                "a key has no floats; use an integer or a decimal", column=repr(name)
            )
