"""A table of Delta at one version, by the package ``deltalake``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow
from pyarrow import dataset

from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.sources.source_columns import chosen, stored_columns
from siltstone.collections.sources.source_file import SourceFile
from siltstone.collections.sources.table_source import (
    Note,
    SourcePiece,
    TableSource,
    check_fits,
)
from siltstone.core.errors import CollectionSourceError
from siltstone.core.packages import install_hint

PLAIN_FEATURES: Final = frozenset({"timestampNtz"})
"""Of a table whose rows are those of its files, under their names. All others, such as deletion
vectors and column mapping, are left to the engine of ``deltalake``, which refuses what it does not
know."""

PLAIN_VERSIONS: Final = (1, 3)
"""Of its protocol for readers. Version 2 means column mapping."""


class DeltaSource(TableSource):
    """The rows of a table of Delta at one version.

    Args:
        url: of the table: a path, or what ``deltalake`` takes.
        where: what the caller calls it.
        version: of the table; ``None`` means the newest.
        columns: names of those to import; ``None`` means all.

    Raises:
        CollectionSourceError: there is no such table or version, it needs what ``deltalake`` cannot
            read, or that package is not installed.
    """

    def __init__(
        self, url: str, where: str, version: int | None, columns: Sequence[str] | None
    ) -> None:
        self.where = where
        open_table = _delta_table()  # ``_told`` needs the package, too.
        with _told(where):
            self._table = _at_version(open_table, url, where, version)
            self.version = int(self._table.version())
            metadata = self._table.metadata()
            self._id = str(metadata.id)
            self._partitions = list(metadata.partition_columns)
            actions = pyarrow.table(self._table.get_add_actions())
            self._plain = _is_plain(self._table.protocol())
            stored = stored_columns(pyarrow.schema(self._table.schema()))
        self.files = len(actions)
        self.size_bytes = sum(actions["size_bytes"].to_pylist())
        self.rows: int | None = None
        if self._plain and "num_records" in actions.column_names:
            counts = actions["num_records"]
            self.rows = None if counts.null_count else sum(counts.to_pylist())
        self._schema = chosen(stored, columns, where)

    @property
    def schema(self) -> pyarrow.Schema:
        """See ``TableSource.schema``."""
        return self._schema

    @property
    def columns(self) -> list[str]:
        """See ``TableSource.columns``."""
        return list(self._schema.names)

    def check(self, schema: RowSchema) -> None:
        """See ``TableSource.check``."""
        check_fits(self._schema, schema)

    @property
    def identity(self) -> tuple[str, str]:
        """The id of the table, wherever it lies; and its version."""
        return f"delta {self._id}", repr((self._id, self.version, self.columns))

    def pieces(self) -> Iterator[SourcePiece]:
        """Its files; or all rows at once, where files alone do not tell them."""
        if not self._plain:
            yield _Scan(self._table, self.where, self.files, self.size_bytes)
            return
        with _told(self.where):
            files = self._table.to_pyarrow_dataset()
            fragments = list(files.get_fragments())
        for fragment in fragments:
            keys = dataset.get_partition_keys(fragment.partition_expression)
            yield SourceFile(
                fragment.filesystem,
                fragment.path,
                where=f"{self.where.rstrip('/')}/{fragment.path}",
                values={name: keys.get(name) for name in self._partitions},
                size_bytes=fragment.filesystem.get_file_info(fragment.path).size,
                changes=False,  # A file of Delta is written once.
            )


class _Scan(SourcePiece):
    """All rows of a table, as ``deltalake`` itself reads them."""

    def __init__(self, table: Any, where: str, files: int, size_bytes: int) -> None:
        self._table = table
        self.where = where
        self.files = files
        self.size_bytes = size_bytes

    def tables(
        self, schema: RowSchema, columns: Sequence[str], note: Note
    ) -> Iterator[pyarrow.Table]:
        """See ``SourcePiece.tables``."""
        del schema
        with _told(self.where):
            scan = self._table.scan(columns=list(columns))
            for batch in pyarrow.RecordBatchReader.from_stream(scan):
                yield pyarrow.Table.from_batches([batch])
        note(self.size_bytes)


def _at_version(open_table: Callable[..., Any], url: str, where: str, version: int | None) -> Any:
    """Open the table; where it has no such version, say which ones it has."""
    from deltalake.exceptions import DeltaError

    try:
        return open_table(url, version=version)
    except DeltaError as error:
        if version is None:
            raise
        there = [int(commit["version"]) for commit in open_table(url).history()]
        if version in there:
            raise
        raise CollectionSourceError(
            "the table of Delta has no such version, or not any more",
            source=where,
            version=version,
            versions=f"{min(there)} to {max(there)}" if there else None,
        ) from error


def _is_plain(protocol: Any) -> bool:
    version = protocol.min_reader_version
    return version in PLAIN_VERSIONS and PLAIN_FEATURES.issuperset(protocol.reader_features or ())


def _delta_table() -> Callable[..., Any]:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise CollectionSourceError(
            f"tables of Delta need a package that is not installed ({error.name}); "
            f"try: {install_hint('delta')}"
        ) from error
    return DeltaTable


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Name the table in errors of ``deltalake``."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        yield
    except TableNotFoundError as error:
        raise CollectionSourceError("there is no table of Delta", source=where) from error
    except (DeltaError, pyarrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, CollectionSourceError):
            raise
        raise CollectionSourceError(
            "the table of Delta cannot be read; upgrade deltalake, or let the engine that wrote it "
            f"write its rows as a folder of Parquet, and import that: {error}",
            source=where,
        ) from error
