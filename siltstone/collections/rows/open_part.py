"""A part that is read: whole, and compared with its sum, or by row groups, each with its sums."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow
from pyarrow import parquet

from siltstone.collections.rows.part_file import (
    TRAILER_BYTES,
    Span,
    chunk_spans,
    footer_bytes,
    metadata_of,
    part_fields,
)
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.core.checksums import crc32c
from siltstone.core.constants import KIB, MIB, Buffer
from siltstone.core.errors import ChunkOffsetError, CorruptDataError
from siltstone.core.records.collection_part import CollectionPart, PartFlags
from siltstone.core.records.collection_part_sums import GroupSums, decode_part_sums

Read = Callable[[int, int], Buffer]
"""Gives ``length`` bytes from ``offset`` of one object on; fewer only where it ends before."""

WHOLE_BYTES: Final = MIB
"""Of an object that is read at once: two requests would take longer than its bytes."""

GAP_BYTES: Final = 64 * KIB
"""Between column chunks that one request reads: passing over less costs more than reading it."""


SHOWN_BYTES: Final = 8 * MIB
"""Of encoded row groups that are decoded at once."""


@dataclass(frozen=True, slots=True)
class OpenPart:
    """A part, of which the footer or everything was verified. Made by ``open_part``.

    Attributes:
        part: its row.
        where: its name, for messages.
        schema: the one that it was written with.
        group_rows: rows of each row group.
        group_bounds: bound of the first key of each row group.
        group_bytes: bytes of each row group, encoded.
    """

    part: CollectionPart
    where: str
    schema: RowSchema
    group_rows: tuple[int, ...]
    group_bounds: tuple[bytes, ...]
    group_bytes: tuple[int, ...]
    _fetch: Callable[[Sequence[int], Sequence[str]], pyarrow.Table]

    def read(self, groups: Sequence[int], columns: Sequence[str] | None = None) -> pyarrow.Table:
        """Return rows of row groups, in the order of keys.

        Args:
            groups: indexes of row groups, ascending.
            columns: names of the part's columns; ``None`` means all, ``_time`` and ``_diff`` too
                where the part has them.

        Raises:
            CorruptDataError: bytes are not what was written.
        """
        fields = fields_of(self.part, self.schema)
        names = fields.names if columns is None else list(columns)
        wanted = pyarrow.schema([fields.field(name) for name in names])
        try:
            table = self._fetch(groups, names)
            if table.schema != wanted:  # Parquet has fewer types than Arrow
                table = table.select(names).cast(wanted)
        except (pyarrow.ArrowException, OSError, KeyError, ValueError) as error:
            raise _damaged("part cannot be decoded", self.where) from error
        if len(table) != sum(self.group_rows[group] for group in groups):
            raise _damaged("part has other rows than its row says", self.where)
        return table


def requests_of(spans: Sequence[Span]) -> list[Span]:
    """What to read for spans that are in order: those that lie close to one another at once."""
    requests: list[Span] = []
    for start, length in spans:
        if requests and start - sum(requests[-1]) <= GAP_BYTES:
            first = requests[-1][0]
            requests[-1] = (first, max(sum(requests[-1]), start + length) - first)
        else:
            requests.append((start, length))
    return requests


class FilePieces:
    """A file of which some pieces are there: what pyarrow reads from."""

    def __init__(self, size: int, pieces: Sequence[tuple[int, memoryview]]) -> None:
        self._size = size
        self._starts = [start for start, _ in pieces]
        self._data = [data for _, data in pieces]
        self._position = 0
        self.closed = False

    def piece(self, start: int, length: int) -> memoryview:
        """The bytes from ``start`` on. Raises ``OSError`` where they are not there."""
        index = bisect_right(self._starts, start) - 1
        if index >= 0:
            skip = start - self._starts[index]
            found = self._data[index][skip : skip + length]
            if len(found) == length:
                return found
        raise OSError(f"bytes {start} to {start + length} were not read")

    def read(self, size: int = -1) -> memoryview:
        """The next bytes."""
        size = min(size, self._size - self._position) if size >= 0 else self._size - self._position
        data = self.piece(self._position, size)
        self._position += size
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a position."""
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def close(self) -> None:
        """Nothing is open."""
        self.closed = True


def open_part(
    part: CollectionPart, schemas: Mapping[int, RowSchema], read: Read, *, where: str
) -> OpenPart:
    """Open a part to read its row groups.

    Args:
        part: its row.
        schemas: by id; that of the part is among them.
        read: reads the object; not called where the part is inline.
        where: name of the object, for messages.

    Raises:
        CorruptDataError: bytes are not what was written.
        Exception: what ``read`` raises.
    """
    schema = schema_of(part, schemas, where=where)
    if part.inline is not None:
        return _open_inline(part, schema, where)
    if part.length <= WHOLE_BYTES:
        data = _read_exactly(read, 0, part.length, where)
        if crc32c(data) != part.crc:
            raise _damaged("part does not match its sum", where)
        return _open_object(part, schema, where, data[-part.footer_length :], _Whole(data))
    start = part.length - part.footer_length
    tail = _read_exactly(read, start, part.footer_length, where)
    return _open_object(part, schema, where, tail, read)


def schema_of(part: CollectionPart, schemas: Mapping[int, RowSchema], *, where: str) -> RowSchema:
    """The schema that a part was written with. Raises ``CorruptDataError`` if it is not there."""
    schema = schemas.get(part.schema_id)
    if schema is None:
        raise CorruptDataError(
            "part has a schema that is not known", where=where, schema_id=part.schema_id
        )
    return schema


def fields_of(part: CollectionPart, schema: RowSchema) -> pyarrow.Schema:
    """The columns that a part has."""
    return part_fields(
        schema,
        with_time=PartFlags.HAS_TIME in part.flags,
        with_diff=PartFlags.HAS_DIFF in part.flags,
    )


def shares_of(opened: OpenPart, groups: Sequence[int]) -> Iterator[list[int]]:
    """Row groups that are decoded together."""
    some: list[int] = []
    size = 0
    for group in groups:
        some.append(group)
        size += opened.group_bytes[group]
        if size >= SHOWN_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def check_whole(part: CollectionPart, data: Buffer, *, where: str) -> None:
    """Compare all bytes of an object with the row of its part. Raises ``CorruptDataError``."""
    if len(data) != part.length or crc32c(data) != part.crc:
        raise _damaged("part does not match its sum", where)


@dataclass(frozen=True, slots=True)
class _Whole:
    data: memoryview


def inline_rows(part: CollectionPart, fields: pyarrow.Schema, *, where: str) -> pyarrow.RecordBatch:
    """Return the rows of a part that is inline and has these columns.

    Raises:
        CorruptDataError: its bytes are not what was written.
    """
    data = part.inline
    assert data is not None, "an inline part has its rows"
    check_whole(part, data, where=where)
    try:
        batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(data), fields)
    except (pyarrow.ArrowException, OSError) as error:
        raise _damaged("part cannot be decoded", where) from error
    if len(batch) != part.rows:
        raise _damaged("part has other rows than its row says", where)
    return batch


def _open_inline(part: CollectionPart, schema: RowSchema, where: str) -> OpenPart:
    table = pyarrow.Table.from_batches([inline_rows(part, fields_of(part, schema), where=where)])

    def fetch(groups: Sequence[int], names: Sequence[str]) -> pyarrow.Table:
        return table.select(names)

    return OpenPart(part, where, schema, (part.rows,), (part.key_min,), (part.length,), fetch)


def _open_object(
    part: CollectionPart,
    schema: RowSchema,
    where: str,
    tail: memoryview,
    source: _Whole | Read,
) -> OpenPart:
    if crc32c(tail) != part.footer_crc:
        raise _damaged("footer of a part does not match its sum", where)
    size = footer_bytes(tail[-TRAILER_BYTES:])
    if size > len(tail):
        raise _damaged("footer of a part is cut", where)
    sums = decode_part_sums(tail[:-size], where=where)
    try:
        metadata = metadata_of(tail[-size:])
    except (pyarrow.ArrowException, OSError) as error:
        raise _damaged("footer of a part cannot be decoded", where) from error
    spans = tuple(tuple(group) for group in chunk_spans(metadata))
    if (
        metadata.num_rows != part.rows
        or [len(group.crcs) for group in sums] != [len(group) for group in spans]
        or list(metadata.schema.names) != fields_of(part, schema).names
    ):
        raise _damaged("footer of a part is not that of its row", where)
    fetch = (
        _fetch_whole(source.data, metadata)
        if isinstance(source, _Whole)
        else _fetch_ranges(part, metadata, spans, sums, source, where)
    )
    return OpenPart(
        part,
        where,
        schema,
        tuple(metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)),
        tuple(group.key_min for group in sums),
        tuple(sum(length for _, length in group) for group in spans),
        fetch,
    )


def _fetch_whole(
    data: memoryview, metadata: parquet.FileMetaData
) -> Callable[[Sequence[int], Sequence[str]], pyarrow.Table]:
    def fetch(groups: Sequence[int], names: Sequence[str]) -> pyarrow.Table:
        source = pyarrow.BufferReader(pyarrow.py_buffer(data))
        file = parquet.ParquetFile(source, metadata=metadata)
        return file.read_row_groups(list(groups), columns=list(names))

    return fetch


def _fetch_ranges(
    part: CollectionPart,
    metadata: parquet.FileMetaData,
    spans: Sequence[Sequence[Span]],
    sums: Sequence[GroupSums],
    read: Read,
    where: str,
) -> Callable[[Sequence[int], Sequence[str]], pyarrow.Table]:
    indexes = {name: index for index, name in enumerate(metadata.schema.names)}

    def fetch(groups: Sequence[int], names: Sequence[str]) -> pyarrow.Table:
        chunks = sorted(
            (spans[group][indexes[name]], sums[group].crcs[indexes[name]])
            for group in groups
            for name in names
        )
        pieces = [
            (start, _read_exactly(read, start, length, where))
            for start, length in requests_of([span for span, _ in chunks])
        ]
        file = FilePieces(part.length, pieces)
        for (start, length), crc in chunks:
            if crc32c(file.piece(start, length)) != crc:
                raise _damaged("column of a part does not match its sum", where)
        source = pyarrow.PythonFile(file, mode="r")
        with parquet.ParquetFile(source, metadata=metadata) as opened:
            return opened.read_row_groups(list(groups), columns=list(names))

    return fetch


def _read_exactly(read: Read, offset: int, length: int, where: str) -> memoryview:
    data: Any = b""
    if length >= 0 and offset >= 0:
        with suppress(ChunkOffsetError):  # The object ends before that.
            data = read(offset, length)
    if len(data) != length:
        raise CorruptDataError(
            "part is cut", where=where, offset=offset, wanted=length, found=len(data)
        )
    return memoryview(data)


def _damaged(message: str, where: str) -> CorruptDataError:
    return CorruptDataError(message, where=where)
