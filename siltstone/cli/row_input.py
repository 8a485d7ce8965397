"""Rows that a file or a pipe holds, as tables: JSON lines, CSV, or Parquet. In constant memory."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final

import pyarrow
from pyarrow import csv, parquet, types

from siltstone.cli.row_values import BASE64, Number, bytes_of_base64, column_of, is_bytes
from siltstone.core.constants import MIB
from siltstone.core.errors import CollectionSchemaError
from siltstone.store.handles.streams import read_some

if TYPE_CHECKING:
    from typing_extensions import Buffer

Rows = list[tuple[int, dict[str, Any]]]
"""Objects of JSON, each with the number of its line."""

FORMS: Final = {".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv",
                ".parquet": "parquet"}  # fmt: skip
"""How the names of files end, and what they hold."""

TABLE_BYTES: Final = 64 * MIB
"""Of a table, in memory: an append of less is one upload, and one of more has several."""

LINES: Final = 65_536
"""Lines of JSON that become one table at first."""

BLOCK_BYTES: Final = 4 * MIB
"""Of CSV that is read at once; no row is longer."""

Note = Callable[[int], None]
"""Told how many bytes were read since it was told last."""


@contextmanager
def opened(file: str, note: Note) -> Iterator[RowSource]:
    """Open a file, or standard input for ``-``."""
    if file == "-":
        yield RowSource(sys.stdin.buffer, note)
        return
    with open(file, "rb") as stream:
        yield RowSource(stream, note)


class RowSource(io.RawIOBase):
    """Bytes that are read once, counted; of a pipe that does not block it waits for them.

    Closing it closes nothing else: Arrow closes what it has read.

    Args:
        stream: where they come from; the caller closes it.
        note: told how many were read.
    """

    def __init__(self, stream: BinaryIO, note: Note) -> None:
        super().__init__()
        self._stream = stream
        self._note = note

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """Whether it is a file."""
        return self._stream.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """The position."""
        return self._stream.tell()

    def readinto(self, buffer: Buffer, /) -> int:
        """Read some bytes; 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = read_some(self._stream, len(view))
        view[: len(data)] = data
        self._note(len(data))
        return len(data)


def form_of(file: str) -> str:
    """Return what a file holds by its name; JSON lines where that does not tell."""
    return FORMS.get(PurePath(file).suffix.lower(), "json")


def tables_of(source: RowSource, form: str, schema: pyarrow.Schema) -> Iterator[pyarrow.Table]:
    """Yield the rows, each table about ``TABLE_BYTES`` but for the last one.

    Args:
        source: the bytes.
        form: ``json``, ``csv`` or ``parquet``.
        schema: of the collection. Types are taken from it, other columns are passed on as they are.

    Raises:
        CollectionSchemaError: a row cannot be read; the message says which.
    """
    read = {"json": _json_tables, "csv": _csv_tables, "parquet": _parquet_tables}[form]
    held: list[pyarrow.Table] = []
    size = 0
    for table in read(source, schema):
        held.append(table)
        size += table.nbytes
        if size >= TABLE_BYTES:
            yield pyarrow.concat_tables(held)
            held, size = [], 0
    if held:
        yield pyarrow.concat_tables(held)


# --- JSON lines ---


def _json_tables(source: RowSource, schema: pyarrow.Schema) -> Iterator[pyarrow.Table]:
    lines = enumerate(io.BufferedReader(source, BLOCK_BYTES), 1)
    while some := list(islice(lines, LINES)):
        rows = [(number, _row(line, number)) for number, line in some if line.strip()]
        if rows:
            yield _table(rows, schema)


def _row(line: bytes, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_float=Number)
    except ValueError as error:  # of JSON, and of UTF-8
        raise CollectionSchemaError(f"not JSON: {error}", line=number) from error
    if not isinstance(row, dict):
        raise CollectionSchemaError("a line holds one object of JSON", line=number)
    return row


def _table(rows: Rows, schema: pyarrow.Schema) -> pyarrow.Table:
    fields = {field.name: field for field in schema}
    encoded = {
        f"{field.name}{BASE64}": field
        for field in schema
        if is_bytes(field.type) and f"{field.name}{BASE64}" not in fields
    }
    names: dict[str, int] = {}
    for number, row in rows:
        for name in row:
            names.setdefault(name, number)
    columns: dict[str, pyarrow.Array] = {}
    for name, number in names.items():
        field = fields.get(name) or encoded.get(name)
        if field is None:
            raise CollectionSchemaError(
                "the collection has no such column; leave it out, or evolve the schema",
                line=number,
                column=repr(name),
            )
        if field.name in columns:
            raise CollectionSchemaError("a column is there twice", column=repr(field.name))
        columns[field.name] = _column(field, rows, name, is_encoded=name in encoded)
    return pyarrow.table(columns)


def _column(field: pyarrow.Field, rows: Rows, name: str, *, is_encoded: bool) -> pyarrow.Array:
    def made(some: Iterable[tuple[int, dict[str, Any]]]) -> pyarrow.Array:
        values = [row.get(name) for _, row in some]
        return column_of(field.type, bytes_of_base64(values) if is_encoded else values)

    try:
        return made(rows)
    except (ValueError, OverflowError) as error:
        reason = error
    for row in rows:  # which one it is
        try:
            made([row])
        except (ValueError, OverflowError) as error:
            raise CollectionSchemaError(
                f"{error}", line=row[0], column=repr(name), type=field.type
            ) from error
    raise CollectionSchemaError(f"{reason}", column=repr(name), type=field.type) from reason


# --- CSV ---


def _csv_tables(source: RowSource, schema: pyarrow.Schema) -> Iterator[pyarrow.Table]:
    kinds = {field.name: field.type for field in schema}
    kinds |= {field.name: pyarrow.float32() for field in schema if types.is_float16(field.type)}
    kinds |= {f"{field.name}{BASE64}": pyarrow.string() for field in schema if is_bytes(field.type)}
    options = csv.ConvertOptions(
        column_types=kinds,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        batches = csv.open_csv(
            source,
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=options,
        )
        for batch in batches:
            yield _decoded(pyarrow.Table.from_batches([batch]), schema)
    except pyarrow.ArrowException as error:
        raise CollectionSchemaError(f"not rows of CSV: {error}") from error


def _decoded(table: pyarrow.Table, schema: pyarrow.Schema) -> pyarrow.Table:
    """The table with columns of bytes in the place of those in base64, and halves of floats."""
    for field in schema:
        if types.is_float16(field.type) and field.name in table.column_names:  # CSV reads none.
            column = table[field.name].cast(field.type)
            table = table.set_column(table.column_names.index(field.name), field.name, column)
        name = f"{field.name}{BASE64}"
        if is_bytes(field.type) and name in table.column_names and name not in schema.names:
            try:
                values = bytes_of_base64(table[name].to_pylist())
                column = pyarrow.array(values, field.type)
            except ValueError as error:
                raise CollectionSchemaError(f"{error}", column=repr(name)) from error
            table = table.set_column(table.column_names.index(name), field.name, column)
    return table


# --- Parquet ---


def _parquet_tables(source: RowSource, schema: pyarrow.Schema) -> Iterator[pyarrow.Table]:
    del schema  # The file has types of its own.
    with tempfile.TemporaryFile() as kept:
        file: IO[bytes] | RowSource = source
        if not source.seekable():  # Of a file of Parquet the end is read first.
            shutil.copyfileobj(source, kept)
            file = kept
        try:
            for batch in parquet.ParquetFile(file).iter_batches():
                yield pyarrow.Table.from_batches([batch])
        except pyarrow.ArrowException as error:
            raise CollectionSchemaError(f"not a file of Parquet: {error}") from error
