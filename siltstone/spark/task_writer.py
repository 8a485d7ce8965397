"""What one task of a write does: its rows become chunks below the prefix of the session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow
import pyarrow.compute
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from siltstone.container.import_views import ImportedChunk, ImportTicket
from siltstone.core.records.import_row import PARTS_MAX
from siltstone.core.words import MIB
from siltstone.spark.arrow_bytes import encoded
from siltstone.spark.columns import VALUE
from siltstone.spark.settling import settle
from siltstone.spark.write_options import Outputs, WriteOptions
from siltstone.store.import_writer import ImportPart, ImportWriter

HELD_BYTES_MAX: Final = 64 * MIB
"""Of all keys of a task together: beyond it the largest becomes a chunk."""

QUERY_PROPERTY: Final = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(WriterCommitMessage):
    """What a task made.

    Attributes:
        ticket: of the session.
        partition: number of the partition.
        query: id of the streaming query; empty in a batch.
        parts: what stands behind the segment's name (nothing, a partition or a key), and the chunks
            for it.
    """

    ticket: ImportTicket
    partition: int
    query: str
    parts: tuple[tuple[str, tuple[ImportedChunk, ...]], ...]


def write_task(
    options: WriteOptions, ticket: ImportTicket, batches: Iterable[pyarrow.RecordBatch]
) -> Written:
    """Write the rows of one task straight to long-term storage.

    Raises:
        ValueError: a value or a key is null, or there are too many keys.
        ChunkError: long-term storage failed; another attempt begins anew.
    """
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    attempt = 0 if context is None else context.taskAttemptId()
    query = "" if context is None else context.getLocalProperty(QUERY_PROPERTY) or ""
    with ImportWriter(options.store, ticket, partition=partition, attempt=attempt) as writer:
        settle()
        parts = _Parts(options, writer, f"{partition:05d}")
        for batch in batches:
            parts.write(batch)
        return Written(ticket=ticket, partition=partition, query=query, parts=tuple(parts.finish()))


class _Parts:
    """The parts that a task writes: one, or one for each key."""

    def __init__(self, options: WriteOptions, writer: ImportWriter, partition: str) -> None:
        self._options = options
        self._writer = writer
        self._parts: dict[str, ImportPart] = {}
        if options.outputs is not Outputs.KEY:
            self._single = partition if options.outputs is Outputs.PARTITION else ""
            self._parts[self._single] = writer.new_part()

    def write(self, batch: pyarrow.RecordBatch) -> None:
        values = batch.column(VALUE)
        if self._options.outputs is not Outputs.KEY:
            for data in encoded(values, self._options.mode):
                self._parts[self._single].write(data)
            return
        keys = batch.column(self._options.key).cast(pyarrow.string())
        if keys.null_count:
            raise ValueError(f"a key in column {self._options.key!r} is null")
        for key in keys.unique().to_pylist():
            rows = values.filter(pyarrow.compute.equal(keys, key))
            for data in encoded(rows, self._options.mode):
                self._part(key).write(data)
        self._bound()

    def _part(self, key: str) -> ImportPart:
        part = self._parts.get(key)
        if part is None:
            self._options.segment_of(key)
            if len(self._parts) >= PARTS_MAX:
                raise ValueError(f"column {self._options.key!r} has more than {PARTS_MAX} values")
            part = self._parts[key] = self._writer.new_part()
        return part

    def _bound(self) -> None:
        while sum(part.held_bytes for part in self._parts.values()) > HELD_BYTES_MAX:
            max(self._parts.values(), key=lambda part: part.held_bytes).roll()

    def finish(self) -> list[tuple[str, tuple[ImportedChunk, ...]]]:
        return [(name, part.finish()) for name, part in self._parts.items()]
