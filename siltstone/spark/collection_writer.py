"""Data frames into a collection: tasks upload rows, and the driver appends all of them at one time.

Spark plans a write in one process and ends it in another, and neither lives meanwhile. What
connects them is an upload ticket, which is sent to the tasks as well. No process owns anything:
others write at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow
from pyarrow import compute
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from siltstone.collections.async_writer import CollectionBatchRows
from siltstone.collections.blocking import Collection, Collections, open_collections
from siltstone.collections.collection_info import CollectionInfo
from siltstone.collections.rows.row_schema import DIFF
from siltstone.collections.upload_ticket import UploadTicket, upload_rows
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    CollectionNotFoundError,
    CollectionSequenceError,
    SiltstoneError,
    UpdateTimeError,
)
from siltstone.spark.catalog_tables import check_task
from siltstone.spark.collection_options import CollectionWriteOptions
from siltstone.spark.collection_types import check_frame, from_spark
from siltstone.spark.worker_memory import settle

_log: Final = logging.getLogger(__name__)

JOINED_ROWS: Final = 10_000
"""As many as Spark puts into a batch, unless it is told to put fewer."""
JOINED_BYTES: Final = 4 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionWrite:
    """A write that has begun, as it travels to its tasks and to its end.

    Attributes:
        ticket: by which the tasks upload.
        upper: of the collection when the write was planned.
    """

    ticket: UploadTicket
    upper: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedRows(WriterCommitMessage):
    """What a task uploaded."""

    rows: CollectionBatchRows


def begin_write(options: CollectionWriteOptions, schema: StructType) -> CollectionWrite:
    """Check a data frame, and let its tasks upload.

    Raises:
        CollectionNotFoundError: there is no such collection.
        CollectionSchemaError: a column is missing, unknown or of another type.
        UpdateTimeError: the collection is finished.
        CollectionSequenceError: the writer has used a later sequence.
        CollectionLimitError: it has too many writers.
        SiltstoneError: whatever opening the collections of a store raises.
    """
    with open_collections(options.store) as collections:
        collection = collections.collection(options.collection)
        info = collection.info()
        check_frame(schema, info.schema)
        if info.upper is None:
            raise UpdateTimeError("collection is finished", collection=options.collection)
        _check_sequence(options, info)
        return CollectionWrite(ticket=collection.upload_ticket(), upper=info.upper)


def _check_sequence(options: CollectionWriteOptions, info: CollectionInfo) -> None:
    if options.sequence is None:
        return
    for row in info.writers:
        if row.name == options.writer and options.sequence < row.sequence:
            raise CollectionSequenceError(
                collection=options.collection,
                writer=row.name,
                sequence=options.sequence,
                last_sequence=row.sequence,
            )


def write_rows(
    options: CollectionWriteOptions, write: CollectionWrite, batches: Iterator[pyarrow.RecordBatch]
) -> UploadedRows:
    """Upload the rows of one task.

    Raises:
        SettingsError: the rows are for a table of Spark's catalog.
        CollectionSchemaError: a value does not fit its column.
        StoreError: another store is at this path.
        ChunkError: long-term storage failed; another attempt begins again.
    """
    context = TaskContext.get()
    if context is not None:
        check_task(context)
    settle()
    columns = write.ticket.row_schema.arrow
    tables = (from_spark(rows, columns) for rows in _joined(batches))
    return UploadedRows(rows=upload_rows(options.store, write.ticket, tables))


def _joined(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.Table]:
    """Put batches together while they are in the caches: each call of Arrow is for many rows."""
    held: list[pyarrow.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += len(batch)
        size += batch.nbytes
        if rows >= JOINED_ROWS or size >= JOINED_BYTES:
            yield pyarrow.Table.from_batches(held).combine_chunks()
            held, rows, size = [], 0, 0
    if held:
        yield pyarrow.Table.from_batches(held).combine_chunks()


def append_all(
    options: CollectionWriteOptions, write: CollectionWrite, uploaded: list[CollectionBatchRows]
) -> None:
    """Append what the tasks uploaded, at one time; or nothing, if that was done before.

    Raises:
        UpperMismatchError: rows were to be replaced, and others were appended meanwhile.
        BatchExpiredError: the write took longer than a day.
        CollectionNotFoundError: the name stands for no collection or another one now.
        CollectionSequenceError: the writer has used a later sequence.
        OutcomeUnknownError: whether it was appended is not known; a job with ``writer`` and
            ``sequence`` can be run again.
        SiltstoneError: whatever an append raises besides.
    """
    with open_collections(options.store) as collections:
        collection = collections.collection(options.collection)
        if collection.id != write.ticket.collection_id:
            raise CollectionNotFoundError(
                "the name stands for another collection than when the write was planned",
                collection=options.collection,
            )
        expected = None
        if options.overwrite:
            expected = write.upper
            uploaded = [*uploaded, *_negated(options, write, collection)]
        if options.writer is None:
            collection.append_batches(uploaded, expected_upper=expected)
        else:
            assert options.sequence is not None, "both are given, or none"
            collection.writer(options.writer).append_batches(
                uploaded, sequence=options.sequence, expected_upper=expected
            )
        _tidy(collections, collection, write)


def give_up(options: CollectionWriteOptions, write: CollectionWrite) -> None:
    """Take the ticket back. What was appended stays; what cannot be done now, its lease does."""
    try:
        with open_collections(options.store) as collections:
            collection = collections.collection(options.collection)
            if collection.id == write.ticket.collection_id:
                collection.end_ticket(write.ticket)
    except SiltstoneError as error:
        # The job has failed for a reason of its own, and that is what its user must hear.
        _log.warning("uploads of a write that failed stay for a day: %s", error)


def _negated(
    options: CollectionWriteOptions, write: CollectionWrite, collection: Collection
) -> list[CollectionBatchRows]:
    """Upload the rows as they were when the write was planned, each as often taken away."""
    if not write.upper or collection.info().upper != write.upper:
        return []  # Where others wrote meanwhile the append is refused, or was made before.
    with collection.snapshot(write.upper - 1, diffs=True, lease=True) as snapshot:
        tables = map(_without, snapshot.batches())
        return [upload_rows(options.store, write.ticket, tables)]


def _without(batch: pyarrow.RecordBatch) -> pyarrow.Table:
    table = pyarrow.Table.from_batches([batch])
    place = table.schema.get_field_index(DIFF)
    gone = compute.negate_checked(table[DIFF])
    return table.set_column(place, table.schema.field(DIFF), gone)


def _tidy(collections: Collections, collection: Collection, write: CollectionWrite) -> None:
    """Do what the append made due: no process of the job lives on to do it."""
    try:
        collection.end_ticket(write.ticket)
        collections.settle()
    except SiltstoneError as error:
        _log.warning("the rows are there; what they made due was left to others: %s", error)


class CollectionSinkWriter(DataSourceArrowWriter):
    """Writes a data frame. Made when the job is planned; then pickled to its tasks and its end.

    Args:
        options: where to.
        schema: of the frame.
    """

    def __init__(self, options: CollectionWriteOptions, schema: StructType) -> None:
        self._options = options
        self._write = begin_write(options, schema)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> UploadedRows:
        """Upload the rows of one task."""
        return write_rows(self._options, self._write, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append what the attempts uploaded that Spark took."""
        uploaded = [one.rows for one in messages if isinstance(one, UploadedRows)]
        append_all(self._options, self._write, uploaded)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Take the ticket back. After a commit it changes nothing."""
        give_up(self._options, self._write)
