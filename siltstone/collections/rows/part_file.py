"""A part as bytes: Parquet whose column chunks have sums, or a record batch of Arrow.

The bytes of an object::

    PAR1, row groups          as any writer of Parquet puts them
    sums                      see siltstone/core/records/collection_part_sums.py
    footer of Parquet         the last bytes are its length, u32, and PAR1

Readers of Parquet find everything by offsets in the footer, so they pass over the sums. What the
row of the part calls its footer is the sums and the footer of Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow
from pyarrow import compute, parquet

from siltstone.collections.rows.consolidate import has_negatives, sum_of_diffs
from siltstone.collections.rows.encoded_part import EncodedPart, checked_sum
from siltstone.collections.rows.key_order import key_at, key_bound, key_columns, repeats
from siltstone.collections.rows.row_schema import DIFF, TIME, RowSchema
from siltstone.core.checksums import crc32c, crc32c_of
from siltstone.core.constants import MIB
from siltstone.core.records.collection_frontier import DONE
from siltstone.core.records.collection_part import CollectionPart, PartFlags
from siltstone.core.records.collection_part_sums import GroupSums, encode_part_sums

GROUP_ROWS: Final = 65_536
"""Of a row group: small enough that a merge holds one of each run, large enough to compress."""

GROUP_BYTES: Final = 4 * MIB
"""Of a row group in memory, about: wide rows make smaller groups, for the same reason."""

TRAILER_BYTES: Final = 8
"""Of a file of Parquet: the length of its footer, and ``PAR1``."""

Span = tuple[int, int]
"""Where bytes lie: an offset and a length."""


class PartWriter:
    """Writes updates that come in the order of keys into one object.

    Args:
        schema: of the rows.
        schema_id: its id.
        time: of all rows, where they have no ``_time``; ``None`` where they have.
        with_diff: whether their ``_diff`` is kept; if not, each is 1.
    """

    def __init__(
        self, schema: RowSchema, schema_id: int, *, time: int | None, with_diff: bool
    ) -> None:
        self._schema = schema
        self._schema_id = schema_id
        self._fields = part_fields(schema, with_time=time is None, with_diff=with_diff)
        self._sink = pyarrow.BufferOutputStream()
        self._metadata: list[parquet.FileMetaData] = []  # one, when the writer is closed
        self._writer: parquet.ParquetWriter | None = None
        self._held: list[pyarrow.Table] = []
        self._held_rows = 0
        self._held_bytes = 0
        self._bounds: list[bytes] = []
        self._last_bound = b""
        self._rows = 0
        self._diff_sum = 0
        self._negatives = False
        self._times = (DONE, 0) if time is None else (time, time)

    @property
    def with_diff(self) -> bool:
        """Whether rows keep their ``_diff``; otherwise each of them is 1."""
        return DIFF in self._fields.names

    @property
    def rows(self) -> int:
        """Rows that were added."""
        return self._rows

    @property
    def size_bytes(self) -> int:
        """Bytes so far, those included that are not encoded yet."""
        return int(self._sink.tell()) + self._held_bytes

    def add(self, updates: pyarrow.Table) -> None:
        """Add rows; none of their keys is below one that was added before."""
        if not len(updates):
            return
        table = updates.select(self._fields.names)
        self._count(table)
        self._held.append(table)
        self._held_rows += len(table)
        self._held_bytes += table.nbytes
        if self._held_rows >= GROUP_ROWS or self._held_bytes >= GROUP_BYTES:
            self._write(whole_groups=True)

    def finish(self) -> EncodedPart:
        """Return the object; rows were added before."""
        assert self._rows, "a part has rows"
        self._write(whole_groups=False)
        assert self._writer is not None, "rows were written"
        self._writer.close()
        data = memoryview(self._sink.getvalue())
        footer_start = len(data) - footer_bytes(data[-TRAILER_BYTES:])
        footer = data[footer_start:]
        sums = encode_part_sums(
            [
                GroupSums(
                    key_min=bound,
                    crcs=tuple(crc32c(data[at : at + length]) for at, length in spans),
                )
                for bound, spans in zip(self._bounds, chunk_spans(*self._metadata), strict=True)
            ]
        )
        buffers = (data[:footer_start], sums, footer)
        time_min, time_max = self._times
        flags = PartFlags(0)
        if TIME in self._fields.names:
            flags |= PartFlags.HAS_TIME
        if self.with_diff:
            flags |= PartFlags.HAS_DIFF
        if self._negatives:
            flags |= PartFlags.HAS_NEGATIVES
        part = CollectionPart(
            length=len(data) + len(sums),
            footer_length=len(sums) + len(footer),
            crc=crc32c_of(buffers),
            footer_crc=crc32c_of((sums, footer)),
            rows=self._rows,
            schema_id=self._schema_id,
            flags=flags,
            time=time_min,
            time_min=time_min,
            time_max=time_max,
            diff_sum=checked_sum(self._diff_sum),
            key_min=self._bounds[0],
            key_max=self._last_bound,
        )
        return EncodedPart(part=part, buffers=buffers)

    def _count(self, table: pyarrow.Table) -> None:
        self._rows += len(table)
        self._diff_sum += sum_of_diffs(table)
        self._negatives = self._negatives or has_negatives(table)
        if TIME in table.column_names:
            bounds = compute.min_max(table[TIME]).as_py()
            low, high = self._times
            self._times = min(low, bounds["min"]), max(high, bounds["max"])

    def _write(self, *, whole_groups: bool) -> None:
        if not self._held:
            return
        table = pyarrow.concat_tables(self._held) if len(self._held) > 1 else self._held[0]
        size = group_rows(len(table), self._held_bytes)
        start = 0
        while len(table) - start >= size or (start < len(table) and not whole_groups):
            self._write_group(table.slice(start, size))
            start += size
        rest = table.slice(start)
        self._held = [rest] if len(rest) else []
        self._held_rows = len(rest)
        self._held_bytes = rest.nbytes if len(rest) else 0

    def _write_group(self, table: pyarrow.Table) -> None:
        keys = key_columns(table, self._schema)
        self._bounds.append(key_bound(self._schema, key_at(keys, 0)))
        self._last_bound = key_bound(self._schema, key_at(keys, len(table) - 1))
        if table.schema != self._fields:
            table = table.cast(self._fields)
        if self._writer is None:
            self._writer = self._opened(table)
        self._writer.write_table(table, row_group_size=len(table))

    def _opened(self, table: pyarrow.Table) -> parquet.ParquetWriter:
        """A writer whose dictionaries are for the columns that repeat in the first row group."""
        return parquet.ParquetWriter(
            self._sink,
            self._fields,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in table.column_names if repeats(table[name])],
            write_page_checksum=True,
            metadata_collector=self._metadata,
        )


def part_fields(schema: RowSchema, *, with_time: bool, with_diff: bool) -> pyarrow.Schema:
    """The columns of a part: those of the schema, and what its flags say."""
    if not with_time and not with_diff:
        return schema.arrow
    fields = list(schema.arrow)
    if with_time:
        fields.append(pyarrow.field(TIME, pyarrow.int64(), nullable=False))
    if with_diff:
        fields.append(pyarrow.field(DIFF, pyarrow.int64(), nullable=False))
    return pyarrow.schema(fields)


def group_rows(rows: int, size_bytes: int) -> int:
    """How many rows of these a row group has."""
    if size_bytes <= GROUP_BYTES:
        return GROUP_ROWS
    return max(1, min(GROUP_ROWS, rows * GROUP_BYTES // size_bytes))


def footer_bytes(trailer: memoryview | bytes) -> int:
    """Bytes of a footer of Parquet with its trailer, which is given."""
    return int.from_bytes(trailer[:4], "little") + TRAILER_BYTES


def metadata_of(footer: memoryview | bytes) -> parquet.FileMetaData:
    """Read a footer of Parquet. Raises what pyarrow raises for one that is damaged."""
    # A reader looks at the end of a file, and wants its first magic before.
    return parquet.read_metadata(pyarrow.BufferReader(b"PAR1" + bytes(footer)))


def chunk_spans(metadata: parquet.FileMetaData) -> Iterator[Sequence[Span]]:
    """Where the column chunks of each row group lie."""
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        yield [_span(group.column(column)) for column in range(metadata.num_columns)]


def _span(chunk: parquet.ColumnChunkMetaData) -> Span:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        start = min(start, chunk.dictionary_page_offset)
    return start, chunk.total_compressed_size
