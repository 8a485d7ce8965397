"""The rows of a source as parts: made once, and the first ones before a collection is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

import pyarrow

from siltstone.collections.rows.encode_parts import encode_updates
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.input_rows import table_of_rows
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.rows.taken_file import runs_in_order
from siltstone.collections.sources.table_source import Note, SourcePiece, TableSource
from siltstone.collections.upload_ticket import RUN_BYTES, heaps_of
from siltstone.core.errors import CollectionSchemaError
from siltstone.core.records.collection_batch import CollectionRun


class SourceParts:
    """The parts of all runs of a source, one after the other. Blocking; used once.

    Args:
        source: what is read.
        schema: of the collection.
        schema_id: its id.
        part_bytes: of an object, at most.
        note: told what was read; on any thread.

    Attributes:
        rows: that were read.
        files: that were read.
        taken: how many of them became parts as they are: these parts come first.
    """

    def __init__(
        self,
        source: TableSource,
        schema: RowSchema,
        schema_id: int,
        part_bytes: int,
        note: Note | None = None,
    ) -> None:
        self.schema = schema
        self.schema_id = schema_id
        self.rows = 0
        self.files = 0
        self.taken = 0
        self._source = source
        self._part_bytes = part_bytes
        self._note: Note = _ignore if note is None else note
        self._runs: list[int] = []
        self._made = self._encoded()
        self._begun: list[EncodedPart] = []

    def begin(self) -> None:
        """Make the first 128 MiB of them, and keep them.

        Raises:
            CollectionSourceError: a file of these is damaged, or changed.
            CollectionSchemaError: rows of these do not fit.
        """
        size = 0
        for part in self._made:
            self._begun.append(part)
            size += part.part.length
            if size >= RUN_BYTES:
                return

    def parts(self) -> Iterator[EncodedPart]:
        """Yield all parts; about 500 MiB are in memory. Raises as ``begin``."""
        begun, self._begun = self._begun, []
        return chain(_given(begun), self._made)

    def split(self, parts: CollectionRun) -> list[CollectionRun]:
        """Return all parts, after the last was made, as the runs that they are."""
        rest = iter(parts[self.taken :])
        copied = [tuple(islice(rest, length)) for length in self._runs]
        return [*runs_in_order(parts[: self.taken]), *copied]

    def _encoded(self) -> Iterator[EncodedPart]:
        copied: list[SourcePiece] = []
        size = self._part_bytes
        for piece in self._source.pieces():
            part = piece.part(self.schema, self.schema_id, self._source.columns, size)
            if part is None:
                copied.append(piece)
                continue
            self._note(piece.size_bytes)
            self.rows += part.part.rows
            self.files += piece.files
            self.taken += 1
            yield part
        for heap in heaps_of(self._tables(copied)):
            length = 0
            for part in encode_updates(
                heap, self.schema, self.schema_id, part_size=size, inline=False
            ):
                yield part
                length += 1
            self._runs.append(length)

    def _tables(self, pieces: Iterable[SourcePiece]) -> Iterator[pyarrow.Table]:
        """Yield all rows, in the columns of the collection."""
        for piece in pieces:
            for table in piece.tables(self.schema, self._source.columns, self._note):
                yield _fitting(self.schema, table, piece.where)
                self.rows += len(table)
            self.files += piece.files


def _given(parts: list[EncodedPart]) -> Iterator[EncodedPart]:
    """Yield parts, each let go of as it is taken."""
    parts.reverse()
    while parts:
        yield parts.pop()


def _fitting(schema: RowSchema, table: pyarrow.Table, where: str) -> pyarrow.Table:
    """Return rows as the collection has them. Raises ``CollectionSchemaError`` with the file."""
    try:
        return table_of_rows(schema, table)
    except CollectionSchemaError as error:
        raise CollectionSchemaError(f"{where}: {error}") from error


def _ignore(count: int) -> None:
    """Tell no one."""
