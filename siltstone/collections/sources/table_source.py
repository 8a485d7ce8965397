"""What every source of an import is: its columns, its identity, and its rows in pieces."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import pyarrow

from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.input_rows import table_of_rows
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.core.errors import CollectionSchemaError

Note = Callable[[int], None]
"""Told how many bytes of the source were read since it was told last."""


class SourcePiece(ABC):
    """Some rows of a source: those of a file, where it has files that can be read by themselves.

    Attributes:
        where: what messages call it.
        files: how many files it is.
        size_bytes: of these files.
    """

    where: str
    size_bytes: int
    files: int = 1

    @abstractmethod
    def tables(
        self, schema: RowSchema, columns: Sequence[str], note: Note
    ) -> Iterator[pyarrow.Table]:
        """Yield the rows as they are, some at a time.

        Args:
            schema: of the collection, whose types partition columns get.
            columns: names of those to read.
            note: told what was read.

        Raises:
            CollectionSourceError: the rows cannot be read, or changed meanwhile.
            CollectionSchemaError: a value of a partition does not fit its column.
        """

    def part(
        self, schema: RowSchema, schema_id: int, columns: Sequence[str], limit: int
    ) -> EncodedPart | None:
        """The file as a part, where it can be one as it is; else ``None``.

        Args:
            schema: of the collection.
            schema_id: its id.
            columns: names of those to import.
            limit: of an object, in bytes.

        Raises:
            CollectionSourceError: the file cannot be read, or changed meanwhile.
        """
        del schema, schema_id, columns, limit
        return None


class TableSource(ABC):
    """A table elsewhere, as it was when it was opened. Made by ``table_source``.

    Attributes:
        where: what messages call it.
        files: how many files it has.
        size_bytes: of these files.
        rows: in them; ``None`` where that is not known before they are read.
    """

    where: str
    files: int
    size_bytes: int
    rows: int | None

    @property
    @abstractmethod
    def schema(self) -> pyarrow.Schema:
        """The columns that are imported, in the types that a new collection has for them.

        Raises:
            CollectionSchemaError: files have a column in different types.
        """

    @abstractmethod
    def check(self, schema: RowSchema) -> None:
        """Look whether the columns are those of a collection.

        Raises:
            CollectionSchemaError: they are not; the message names the column.
        """

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """Names of the columns that are imported."""

    @property
    @abstractmethod
    def identity(self) -> tuple[str, str]:
        """Which table it is, wherever it lies, and which of its contents this is."""

    @abstractmethod
    def pieces(self) -> Iterator[SourcePiece]:
        """Yield all of its rows."""

    def writer_prefix(self) -> str:
        """How the names of writers begin that imported any content of this table."""
        return f"import-{_short(self.identity[0])}-"

    def writer(self) -> str:
        """Name of the writer that imports this content, the same in each process."""
        return self.writer_prefix() + _short(self.identity[1])


def check_fits(columns: pyarrow.Schema, schema: RowSchema, loose: Sequence[str] = ()) -> None:
    """Look whether rows with ``columns`` fit a collection, by their names and types alone.

    Args:
        columns: of the rows.
        schema: of the collection.
        loose: names of columns whose values are read in the type of the collection.

    Raises:
        CollectionSchemaError: they do not.
    """
    fields = [
        schema.arrow.field(field.name)
        if field.name in loose and field.name in schema.names
        else field
        for field in columns
    ]
    if len(set(columns.names)) != len(columns):
        twice = next(name for name in columns.names if columns.names.count(name) > 1)
        raise CollectionSchemaError("two columns have one name; rename one", column=repr(twice))
    table_of_rows(schema, pyarrow.schema(fields).empty_table())


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
