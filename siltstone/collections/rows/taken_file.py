"""A file of Parquet that becomes a part as it is: only our sums are put before its footer.

Its row groups are not decoded to be encoded again: their bytes are copied, to the offsets that they
had. They are decoded once all the same, since nothing else tells whether they can be read, in which
order the keys are, and whether all values are as an append would have left them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow
from pyarrow import parquet, types

from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.input_rows import table_of_rows
from siltstone.collections.rows.key_order import Key, is_sorted, key_at, key_bound, key_columns
from siltstone.collections.rows.open_part import FilePieces, requests_of
from siltstone.collections.rows.part_file import (
    TRAILER_BYTES,
    Span,
    chunk_spans,
    footer_bytes,
    metadata_of,
)
from siltstone.collections.rows.row_schema import RowSchema, stored_type
from siltstone.core.checksums import crc32c, crc32c_of
from siltstone.core.constants import MIB
from siltstone.core.errors import CollectionSchemaError
from siltstone.core.records.collection_batch import CollectionRun
from siltstone.core.records.collection_frontier import AT_COMMIT
from siltstone.core.records.collection_part import CollectionPart, PartFlags
from siltstone.core.records.collection_part_sums import GroupSums, encode_part_sums

TAKEN_BYTES_MIN: Final = 8 * MIB
"""Of a file: many smaller ones are better one object, since each object is a row in the state."""

GROUP_BYTES_MAX: Final = 32 * MIB
"""Of a row group, decoded: a merge holds one of each run."""

CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
"""Those that all of the readers have that we name."""


def may_be_taken(file: parquet.ParquetFile, size_bytes: int, schema: RowSchema, limit: int) -> bool:
    """Whether a file may be a part as it is, by its footer and the keys of its first rows.

    Args:
        file: of Parquet.
        size_bytes: its length.
        schema: of the collection.
        limit: of an object, in bytes.
    """
    metadata = file.metadata
    if not TAKEN_BYTES_MIN <= size_bytes <= limit - limit // 16 or not metadata.num_rows:
        return False
    if list(metadata.schema.names) != schema.names or not _has_types(file.schema_arrow, schema):
        return False
    if any(file.schema.column(n).physical_type == "INT96" for n in range(metadata.num_columns)):
        return False
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        codecs = {group.column(n).compression for n in range(metadata.num_columns)}
        if not group.num_rows or group.total_byte_size > GROUP_BYTES_MAX or not codecs <= CODECS:
            return False
    first = file.read_row_group(0, columns=schema.key)
    keys = pyarrow.table({field.name: first[field.name].cast(field.type) for field in _key(schema)})
    if any(column.null_count for column in keys.columns):
        return False
    return is_sorted(key_columns(keys, schema))


def taken_part(data: memoryview, schema: RowSchema, schema_id: int) -> EncodedPart | None:
    """Return a file as a part; ``None`` where its rows are not as those of a part have to be.

    Args:
        data: all bytes of a file that ``may_be_taken``.
        schema: of the collection.
        schema_id: its id.
    """
    size = footer_bytes(data[-TRAILER_BYTES:])
    start = len(data) - size
    metadata = metadata_of(data[start:])
    groups: list[GroupSums] = []
    last: Key | None = None
    for index, spans in enumerate(chunk_spans(metadata)):
        if any(at < 0 or at + length > start for at, length in spans):
            return None
        table = _decoded(data, metadata, index, spans)
        ends = None if table is None else _ends(table, schema)
        if ends is None or (last is not None and ends[0] < last):
            return None
        last = ends[1]
        crcs = tuple(crc32c(data[at : at + length]) for at, length in spans)
        groups.append(GroupSums(key_min=key_bound(schema, ends[0]), crcs=crcs))
    assert last is not None, "it has rows"
    sums = encode_part_sums(groups)
    buffers = (data[:start], sums, data[start:])
    part = CollectionPart(
        length=len(data) + len(sums),
        footer_length=len(sums) + size,
        crc=crc32c_of(buffers),
        footer_crc=crc32c_of(buffers[1:]),
        rows=int(metadata.num_rows),
        schema_id=schema_id,
        flags=PartFlags(0),
        time=AT_COMMIT,
        time_min=AT_COMMIT,
        time_max=AT_COMMIT,
        diff_sum=int(metadata.num_rows),
        key_min=groups[0].key_min,
        key_max=key_bound(schema, last),
    )
    return EncodedPart(part=part, buffers=buffers)


def _key(schema: RowSchema) -> list[pyarrow.Field]:
    return [schema.arrow.field(name) for name in schema.key]


def _has_types(columns: pyarrow.Schema, schema: RowSchema) -> bool:
    """Whether columns are read in the types of the collection, or as others of the same values."""
    return bool([stored_type(field.type) for field in columns] == schema.arrow.types)


def _decoded(
    data: memoryview, metadata: parquet.FileMetaData, group: int, spans: Sequence[Span]
) -> pyarrow.Table | None:
    """A row group, from bytes that ``OpenPart`` reads, too; ``None`` where it cannot be decoded."""
    pieces = [(at, data[at : at + length]) for at, length in requests_of(sorted(spans))]
    stream = pyarrow.PythonFile(FilePieces(len(data), pieces), mode="r")
    try:
        with parquet.ParquetFile(
            stream, metadata=metadata, page_checksum_verification=True
        ) as opened:
            return opened.read_row_group(group)
    except (pyarrow.ArrowException, OSError):
        return None


def _ends(table: pyarrow.Table, schema: RowSchema) -> tuple[Key, Key] | None:
    """The first and the last key; ``None`` where rows are not as in a part."""
    try:
        rows = table_of_rows(schema, table)
    except CollectionSchemaError:
        return None  # Who copies it tells why.
    keys = key_columns(rows, schema)
    if (
        table.nbytes > GROUP_BYTES_MAX
        or not is_sorted(keys)
        or not all(map(_same_bits, table.columns, rows.columns))
    ):
        return None
    return key_at(keys, 0), key_at(keys, len(rows) - 1)


def _same_bits(column: pyarrow.ChunkedArray, stored: pyarrow.ChunkedArray) -> bool:
    """Whether a column has none of the many NaN but the one that collections have."""
    if not types.is_floating(stored.type):
        return True
    bits = {16: pyarrow.int16(), 32: pyarrow.int32(), 64: pyarrow.int64()}[stored.type.bit_width]
    found, wanted = (
        pyarrow.chunked_array([chunk.view(bits) for chunk in one.chunks], bits)
        for one in (column, stored)
    )
    return bool(found.equals(wanted))


def runs_in_order(parts: Sequence[CollectionPart]) -> list[CollectionRun]:
    """Return parts of files as the fewest runs: in each, keys only grow from part to part."""
    runs: list[list[CollectionPart]] = []
    for part in sorted(parts, key=lambda part: part.key_min):
        run = next((run for run in runs if run[-1].key_max < part.key_min), None)
        if run is None:
            runs.append([part])
        else:
            run.append(part)
    return [tuple(run) for run in runs]
