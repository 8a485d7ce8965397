"""Values of rows in text, as JSON lines and CSV have them: how each is written, and read again.

Numbers, booleans and strings are themselves. Numbers that are not finite are the strings ``NaN``,
``Infinity`` and ``-Infinity``. Decimals, dates, times and timestamps are strings as Arrow writes
them, timestamps with a zone in UTC. Bytes are base64, in a column with ``_base64`` after its name.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow
from pyarrow import types

from siltstone.core.errors import CollectionSchemaError

BASE64: Final = "_base64"
"""At the end of the name under which a column of bytes is written."""

_NOT_FINITE: Final = {"NaN", "Infinity", "-Infinity"}


class Number(str):
    """A number of JSON with a point or an exponent, as it stands there: nothing is rounded."""

    __slots__ = ()


def is_bytes(kind: pyarrow.DataType) -> bool:
    """Whether a column of this type holds bytes."""
    return bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )


def text_names(schema: pyarrow.Schema) -> list[str]:
    """Return the names under which columns are written.

    Raises:
        CollectionSchemaError: two would have one name.
    """
    names = [f"{one.name}{BASE64}" if is_bytes(one.type) else one.name for one in schema]
    for name in names:
        if names.count(name) > 1:
            raise CollectionSchemaError(
                "two columns would have this name; choose columns, or Parquet", column=repr(name)
            )
    return names


def plain_column(column: pyarrow.Array) -> pyarrow.Array:
    """Return a column of numbers, booleans and strings alone, with the same content."""
    kind = column.type
    if is_bytes(kind):
        values = [None if one is None else base64.b64encode(one).decode() for one in _list(column)]
        return pyarrow.array(values, pyarrow.string())
    if types.is_float16(kind):
        return column.cast(pyarrow.float32())
    if types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pyarrow.timestamp(kind.unit, "UTC"))
    if types.is_temporal(kind) or types.is_decimal(kind):
        return column.cast(pyarrow.string())
    return column


def json_values(column: pyarrow.Array) -> list[Any]:
    """Return the values of a column for JSON."""
    plain = plain_column(column)
    values = _list(plain)
    if types.is_floating(plain.type):
        return [_finite(value) for value in values]
    return values


def column_of(kind: pyarrow.DataType, values: Sequence[Any]) -> pyarrow.Array:
    """Return a column of values of JSON.

    Args:
        kind: of the column.
        values: as ``json_values`` gives them; numbers with a point as ``Number``.

    Raises:
        ValueError: a value does not fit the type. Errors of Arrow are such.
    """
    if types.is_boolean(kind):
        return pyarrow.array([_of(value, bool) for value in values], kind)
    if types.is_integer(kind):
        return pyarrow.array([_of(value, int) for value in values], kind)
    if types.is_floating(kind):
        return pyarrow.array([_float(value) for value in values], pyarrow.float64()).cast(kind)
    if types.is_decimal(kind):
        return pyarrow.array([_decimal(value) for value in values], kind)
    if is_bytes(kind):
        return pyarrow.array([_bytes(value) for value in values], kind)
    texts = pyarrow.array([_text(value) for value in values], pyarrow.string())
    if types.is_time(kind):
        return _times(texts, kind)
    return texts.cast(kind)


def bytes_of_base64(values: Sequence[Any]) -> list[str | bytes | None]:
    """Return bytes that were written in base64. Raises ``ValueError`` for any other text."""
    found: list[str | bytes | None] = []
    for value in values:
        text = _text(value)
        try:
            found.append(None if text is None else base64.b64decode(text, validate=True))
        except binascii.Error as error:
            raise ValueError(f"not base64: {text!r}") from error
    return found


def _list(column: pyarrow.Array) -> list[Any]:
    found: list[Any] = column.to_pylist()
    return found


def _finite(value: float | None) -> float | str | None:
    if value is None or value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _of(value: Any, kind: type) -> Any:
    if value is None or type(value) is kind:
        return value
    raise ValueError(f"not of type {kind.__name__}: {value!r}")


def _text(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    raise ValueError(f"not a string: {value!r}")


def _bytes(value: Any) -> bytes | None:
    if isinstance(value, bytes):
        return value
    text = _text(value)
    return None if text is None else text.encode()


def _float(value: Any) -> float | None:
    if value is None or type(value) in (float, Number) or value in _NOT_FINITE:
        return None if value is None else float(value)
    if type(value) is int:
        return float(value)
    raise ValueError(f"not a number: {value!r}")


def _decimal(value: Any) -> Decimal | None:
    if value is None:
        return None
    if type(value) not in (str, int, Number):
        raise ValueError(f"not a decimal: {value!r}")
    try:
        return Decimal(value)
    except InvalidOperation as error:
        raise ValueError(f"not a decimal: {value!r}") from error


def _times(texts: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Times of a day. Arrow reads them only as those of a date."""
    dated = [None if one is None else f"1970-01-01 {one}" for one in _list(texts)]
    stamps = pyarrow.array(dated, pyarrow.string()).cast(pyarrow.timestamp(kind.unit))
    return stamps.cast(kind)
