"""What one task of a write does: its rows become chunks below the prefix of the session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow
import pyarrow.compute
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import DataType, YearMonthIntervalType

from siltstone.container.models.imports import ImportedChunk
from siltstone.core.constants import MIB
from siltstone.core.records.import_row import PARTS_MAX
from siltstone.spark.arrow_bytes import encoded
from siltstone.spark.catalog_tables import QUERY, check_task
from siltstone.spark.columns import VALUE
from siltstone.spark.key_text import KeyColumn, unpacked
from siltstone.spark.worker_memory import settle
from siltstone.spark.write_options import Outputs, WriteOptions
from siltstone.spark.write_session import WriteSession
from siltstone.store.handles.import_writer import ImportPart, ImportWriter

HELD_BYTES_MAX: Final = 64 * MIB
"""Of all keys of a task together: beyond it the largest becomes a chunk."""

ANSI_PROPERTY: Final = "spark.sql.ansi.enabled"
"""Has no value unless the session says something else than Spark, which is ``true``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutput(WriterCommitMessage):
    """What a task made.

    Attributes:
        session: with what concerns the segments of the parts.
        partition: number of the partition.
        query: id of the streaming query; empty in a batch.
        parts: what stands after the segment's name (nothing, a partition or a key), and the chunks
            for it.
    """

    session: WriteSession
    partition: int
    query: str
    parts: tuple[tuple[str, tuple[ImportedChunk, ...]], ...]


def write_task(
    options: WriteOptions,
    session: WriteSession,
    key_type: DataType | None,
    batches: Iterator[pyarrow.RecordBatch],
) -> TaskOutput:
    """Write the rows of one task straight to long-term storage.

    Raises:
        SettingsError: the rows are for a table of Spark's catalog.
        ValueError: a value or a key is null, or there are too many keys.
        ChunkError: long-term storage failed; another attempt begins again.
    """
    context = TaskContext.get()
    if context is not None:
        check_task(context)
    partition = 0 if context is None else context.partitionId()
    attempt = 0 if context is None else context.taskAttemptId()
    query = "" if context is None else context.getLocalProperty(QUERY) or ""
    keys = None
    if key_type is not None:
        plain = None if context is None else context.getLocalProperty(ANSI_PROPERTY)
        keys = KeyColumn(name=options.key, kind=key_type, ansi=plain != "false")
    with ImportWriter(
        options.store, session.ticket, partition=partition, attempt=attempt
    ) as writer:
        settle()
        parts = _Parts(options, keys, writer, f"{partition:05d}")
        for batch in unpacked(batches) if isinstance(key_type, YearMonthIntervalType) else batches:
            parts.write(batch)
        made = tuple(parts.finish())
        names = [options.segment_of(name) for name, _ in made]
        return TaskOutput(session=session.of(names), partition=partition, query=query, parts=made)


class _Parts:
    """The parts that a task writes: one, or one for each key."""

    def __init__(
        self, options: WriteOptions, keys: KeyColumn | None, writer: ImportWriter, partition: str
    ) -> None:
        self._options = options
        self._keys = keys
        self._writer = writer
        self._parts: dict[str, ImportPart] = {}
        if keys is None:
            self._single = partition if options.outputs is Outputs.PARTITION else ""
            self._parts[self._single] = writer.new_part()

    def write(self, batch: pyarrow.RecordBatch) -> None:
        values = batch.column(VALUE)
        if self._keys is None:
            for data in encoded(values, self._options.mode):
                self._parts[self._single].write(data)
            return
        texts, codes = self._keys.texts(batch)
        for code, key in enumerate(texts):
            rows = values.filter(pyarrow.compute.equal(codes, code))
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
