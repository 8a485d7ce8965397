"""Values of columns that are not in files: those that folders such as ``year=2024`` name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import pyarrow

from siltstone.core.errors import CollectionSchemaError

Values = Mapping[str, Any]
"""By column: the text of a name of a folder, a value as it is, or ``None``."""

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""What Hive and Spark write for null."""

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""A whole number that 64 bits hold, and that is the same text again: 01 is none."""


def values_of_path(path: str) -> dict[str, str | None]:
    """Return what the folders of a file say, in their order.

    Args:
        path: of the file, below the source.
    """
    values: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, sign, text = folder.partition("=")
        if sign and name:
            values[unquote(name)] = None if text == _NULL else unquote(text)
    return values


def types_of_texts(name: str, files: Iterable[Values]) -> pyarrow.DataType:
    """The type of a new column for texts of folders: whole numbers where all are, else strings."""
    texts = {values[name] for values in files} - {None}
    if texts and all(_WHOLE.fullmatch(text) for text in texts):
        return pyarrow.int64()
    return pyarrow.string()


def column_of(value: Any, rows: int, field: pyarrow.Field, file: str) -> pyarrow.ChunkedArray:
    """Return a column that is ``value`` everywhere, in the type of ``field``.

    Raises:
        CollectionSchemaError: the value does not fit the type.
    """
    try:
        if isinstance(value, str):
            one = pyarrow.scalar(value, pyarrow.string()).cast(field.type)
        else:
            one = pyarrow.scalar(value, field.type)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise CollectionSchemaError(
            f"the value of a partition does not fit its column: {error}",
            column=repr(field.name),
            type=field.type,
            file=file,
        ) from error
    return pyarrow.chunked_array([pyarrow.repeat(one, rows)])
