"""A folder of Parquet files, or one such file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow
from pyarrow import fs, types

from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.sources.partition_values import types_of_texts, values_of_path
from siltstone.collections.sources.source_columns import JoinedColumns, chosen
from siltstone.collections.sources.source_file import SourceFile
from siltstone.collections.sources.table_source import SourcePiece, TableSource, check_fits
from siltstone.core.errors import CollectionSchemaError, CollectionSourceError

HIDDEN: Final = ("_", ".")
"""What the names of files and folders begin with that Spark and Hive pass over."""


class ParquetSource(TableSource):
    """The files of Parquet in a folder and below it, as they are when it is opened.

    Args:
        filesystem: where they are.
        path: of the folder or file, in it.
        where: what the caller calls it.
        columns: names of those to import; ``None`` means all.

    Raises:
        CollectionSourceError: there are no files, or one of them is no file of Parquet.
        CollectionSchemaError: a column is in files, and folders have its name too.
    """

    def __init__(
        self, filesystem: fs.FileSystem, path: str, where: str, columns: Sequence[str] | None
    ) -> None:
        self.where = where
        self._place = f"{filesystem.type_name} {path}"
        found = _files_of(filesystem, path, where)
        self._files = [file for _, file in found]
        self._names = [name for name, _ in found]
        self.files = len(self._files)
        self.size_bytes = sum(file.size_bytes for file in self._files)
        joined = JoinedColumns()
        self.rows = 0
        self._old_times: set[str] = set()
        for name, file in found:
            schema, old_times, rows = file.footer()
            self.rows += rows
            self._old_times |= old_times
            joined.add(schema, name)
        self._mixed = joined.mixed
        self._partitions = _partitions_of(found, where)
        for name in self._partitions:
            if name in joined.schema.names:
                raise CollectionSchemaError(
                    "files have a column that their folders name too; rename one",
                    column=repr(name),
                    source=where,
                )
        values = [file.values for file in self._files]
        added = [pyarrow.field(name, types_of_texts(name, values)) for name in self._partitions]
        self._schema = chosen(pyarrow.schema([*joined.schema, *added]), columns, where)

    @property
    def schema(self) -> pyarrow.Schema:
        """See ``TableSource.schema``."""
        for name in self._schema.names:
            if name in self._mixed:
                raise self._mixed[name]
        return self._schema

    @property
    def columns(self) -> list[str]:
        """See ``TableSource.columns``."""
        return list(self._schema.names)

    def check(self, schema: RowSchema) -> None:
        """See ``TableSource.check``; the values of each file are looked at as they are read."""
        zoned = [
            name
            for name in self._old_times & set(schema.names)
            if types.is_timestamp(schema.arrow.field(name).type)
        ]
        check_fits(self._schema, schema, loose=[*self._partitions, *zoned])

    @property
    def identity(self) -> tuple[str, str]:
        """The place; and names, lengths and times of change of all files."""
        facts = [
            (name, file.size_bytes, file.modified)
            for name, file in zip(self._names, self._files, strict=True)
        ]
        return f"parquet {self._place}", repr((self.columns, facts))

    def pieces(self) -> Iterator[SourcePiece]:
        """The files, in the order of their names."""
        yield from self._files


def _files_of(filesystem: fs.FileSystem, path: str, where: str) -> list[tuple[str, SourceFile]]:
    """The files, each with its name below ``path``, in the order of names."""
    top = filesystem.get_file_info(path)
    if top.type is fs.FileType.File:
        return [(top.base_name, _file(filesystem, top, top.base_name, where))]
    if top.type is not fs.FileType.Directory:
        raise CollectionSourceError("there is no such file or folder", source=where)
    found = []
    for info in filesystem.get_file_info(fs.FileSelector(path, recursive=True)):
        name = info.path[len(path) :].lstrip("/")
        if info.type is not fs.FileType.File or _is_hidden(name):
            continue
        found.append((name, _file(filesystem, info, name, f"{where.rstrip('/')}/{name}")))
    if not found:
        raise CollectionSourceError("there is no file of Parquet in the folder", source=where)
    return sorted(found, key=lambda one: one[0])


def _file(filesystem: fs.FileSystem, info: fs.FileInfo, name: str, where: str) -> SourceFile:
    return SourceFile(
        filesystem,
        info.path,
        where=where,
        values=values_of_path(name),
        size_bytes=info.size,
        modified=info.mtime_ns,
    )


def _is_hidden(name: str) -> bool:
    """Whether Spark passes over a file: a folder such as ``_day=1`` still counts."""
    return any(part.startswith(HIDDEN) and "=" not in part for part in name.split("/"))


def _partitions_of(found: Sequence[tuple[str, SourceFile]], where: str) -> list[str]:
    """Names of the columns of folders, which are the same for all files."""
    first_name, first = found[0]
    for name, file in found:
        if file.values.keys() != first.values.keys():
            raise CollectionSourceError(
                "folders of files name different columns; import each kind by itself",
                file=first_name,
                other_file=name,
                source=where,
            )
    return list(first.values)
