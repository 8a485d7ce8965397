"""One file of Parquet that is imported: read in constant memory, and compared with what it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow
from pyarrow import fs, parquet, types

from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.rows.taken_file import may_be_taken, taken_part
from siltstone.collections.sources.partition_values import Values, column_of
from siltstone.collections.sources.table_source import Note, SourcePiece
from siltstone.core.constants import MIB
from siltstone.core.errors import CollectionSourceError

BATCH_ROWS: Final = 65_536
BATCH_BYTES: Final = 8 * MIB
"""Of a file that are decoded at once, about: fewer rows where these are wide."""


BUFFER_BYTES: Final = 4 * MIB
"""Of a column that are read at once: a row group may be larger than memory."""


class SourceFile(SourcePiece):
    """A file of Parquet, as it was when the source was opened.

    Args:
        filesystem: where it is.
        path: its path there.
        where: what messages call it.
        values: of columns that are not in the file.
        size_bytes: its length.
        modified: time of its last change, as a listing of its file system tells it.
        changes: whether it may be written again, so that it is looked at again after it was read.
    """

    def __init__(
        self,
        filesystem: fs.FileSystem,
        path: str,
        *,
        where: str,
        values: Values,
        size_bytes: int,
        modified: Any = None,
        changes: bool = True,
    ) -> None:
        self._filesystem = filesystem
        self._path = path
        self.where = where
        self._changes = changes
        self._first: tuple[int | None, int | None] = (None, None)
        self.modified = modified
        self.values = values
        self.size_bytes = size_bytes

    def footer(self) -> tuple[pyarrow.Schema, set[str], int]:
        """The columns that are in the file, those with old timestamps, and how many rows it has.

        Raises:
            CollectionSourceError: it cannot be read, or is no file of Parquet.
        """
        if self._changes:
            self._first = self._facts()
        with self._opened() as opened:
            schema = opened.schema_arrow.remove_metadata()
            return schema, _old_times(opened), int(opened.metadata.num_rows)

    def tables(
        self, schema: RowSchema, columns: Sequence[str], note: Note
    ) -> Iterator[pyarrow.Table]:
        """Yield the rows as they are, some at a time. See ``SourcePiece.tables``."""
        noted = 0
        with self._opened() as opened:
            there = set(opened.schema_arrow.names)
            inside = [name for name in columns if name in there]
            old_times = _old_times(opened)
            rows = max(1, opened.metadata.num_rows)
            read = 0
            for batch in opened.iter_batches(_batch_rows(opened), columns=inside):
                # The name a.b gives the field b of a column a, too.
                table = pyarrow.Table.from_batches([batch]).select(inside)
                table = _with_zones(table, schema, old_times)
                for name in columns:
                    if name in self.values and name in schema.names:
                        field = schema.arrow.field(name)
                        column = column_of(self.values[name], len(batch), field, self.where)
                        table = table.append_column(name, column)
                yield table
                read += len(batch)
                done = self.size_bytes * read // rows
                note(done - noted)
                noted = done
        self._check_unchanged()
        note(self.size_bytes - noted)

    def part(
        self, schema: RowSchema, schema_id: int, columns: Sequence[str], limit: int
    ) -> EncodedPart | None:
        """The file as a part, where it can be one as it is. See ``SourcePiece.part``."""
        with self._opened() as opened:
            if sorted(columns) != sorted(opened.schema_arrow.names) or not may_be_taken(
                opened, self.size_bytes, schema, limit
            ):
                return None
        with self._readable(), self._filesystem.open_input_file(self._path) as stream:
            data = memoryview(stream.read_buffer(self.size_bytes))
            part = taken_part(data, schema, schema_id) if len(data) == self.size_bytes else None
        self._check_unchanged()
        return part

    @contextmanager
    def _opened(self) -> Iterator[parquet.ParquetFile]:
        with self._readable(), self._filesystem.open_input_file(self._path) as stream:
            yield parquet.ParquetFile(
                stream,
                buffer_size=BUFFER_BYTES,
                coerce_int96_timestamp_unit="us",  # In nanoseconds years from 2263 on would wrap.
                page_checksum_verification=True,
            )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise CollectionSourceError(
                "a file is gone; import again when nothing changes the source", file=self.where
            ) from error
        except (pyarrow.ArrowException, OSError) as error:
            self._check_unchanged()
            raise CollectionSourceError(
                "a file cannot be read as Parquet: repair it, or take it out of the source: "
                f"{_first_line(error)}",
                file=self.where,
            ) from error

    def _check_unchanged(self) -> None:
        """Raise ``CollectionSourceError`` where the file is another one now."""
        if not self._changes:
            return
        facts = self._facts()
        if facts != self._first or facts[0] != self.size_bytes:
            raise CollectionSourceError(
                "a file changed while it was imported; import again when nothing changes it",
                file=self.where,
            )

    def _facts(self) -> tuple[int | None, int | None]:
        """Length and time of change, asked of the file: listings of S3 tell finer times."""
        info = self._filesystem.get_file_info(self._path)
        return info.size, info.mtime_ns


def _batch_rows(opened: parquet.ParquetFile) -> int:
    metadata = opened.metadata
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    size = sum(int(group.total_byte_size) for group in groups)
    return max(1, min(BATCH_ROWS, int(metadata.num_rows) * BATCH_BYTES // max(1, size)))


def _old_times(opened: parquet.ParquetFile) -> set[str]:
    """Columns of timestamps as Hive and Spark wrote them: they are instants and tell no zone."""
    schema = opened.schema
    columns = (schema.column(index) for index in range(len(schema)))
    return {column.path for column in columns if column.physical_type == "INT96"}


def _with_zones(table: pyarrow.Table, schema: RowSchema, old_times: set[str]) -> pyarrow.Table:
    """Give old timestamps the zone that the collection has for them."""
    for name in old_times & set(table.column_names) & set(schema.names):
        kind = schema.arrow.field(name).type
        if types.is_timestamp(kind) and kind.tz is not None:
            index = table.column_names.index(name)
            column = table.column(index).cast(pyarrow.timestamp("us", kind.tz))
            table = table.set_column(index, name, column)
    return table


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
