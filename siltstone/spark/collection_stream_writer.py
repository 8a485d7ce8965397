"""A stream into a collection: one append for each batch, once.

The writer of the appends is the id of the query, which stays the same as long as its checkpoint,
and the sequence is the number of the batch. Spark repeats the newest batch of a checkpoint alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from siltstone.collections.async_writer import CollectionBatchRows
from siltstone.core.errors import CollectionSequenceError, SiltstoneError
from siltstone.spark.catalog_tables import QUERY
from siltstone.spark.collection_options import CollectionWriteOptions
from siltstone.spark.collection_writer import (
    CollectionWrite,
    append_all,
    begin_write,
    give_up,
    write_rows,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedRows(WriterCommitMessage):
    """What a task of a stream uploaded.

    Attributes:
        rows: what it uploaded.
        write: as it was begun; who ends the batch learns of it by this alone.
        query: id of the query, which stays the same as long as its checkpoint.
    """

    rows: CollectionBatchRows
    write: CollectionWrite
    query: str


def append_batch(
    options: CollectionWriteOptions, messages: Sequence[WriterCommitMessage | None], batch: int
) -> None:
    """Append what the tasks of a batch of a stream uploaded; or nothing, if that was done before.

    Raises:
        CollectionSequenceError: a later batch was appended before.
        BatchExpiredError: the batch took longer than a day.
        Exception: what ``append_all`` raises besides.
    """
    written = [one for one in messages if isinstance(one, StreamedRows)]
    if not written:
        return
    write, query = written[0].write, written[0].query
    rows = [one.rows for one in written]
    if not any(one.runs for one in rows):
        give_up(options, write)
        return
    try:
        append_all(replace(options, writer=query, sequence=batch), write, rows)
    except CollectionSequenceError as error:
        error.add_note(
            "a later batch of this query was appended before: the checkpoint is a copy or an older "
            "one; continue there, or begin with a new checkpoint"
        )
        raise


class CollectionStreamWriter(DataSourceStreamArrowWriter):
    """Appends each batch of a stream at one time, once.

    Spark makes one to plan each batch, and another one, with other contents, to end it. Only the
    first is pickled, so that is when the write begins; the second learns of it from messages.

    Args:
        options: where to.
        schema: of the frame.
    """

    def __init__(self, options: CollectionWriteOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._write: CollectionWrite | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._write is None:
            try:
                self._write = begin_write(self._options, self._schema)
            except SiltstoneError as error:
                # Spark passes this kind on as it is.
                raise pickle.PicklingError(f"{type(error).__name__}: {error}") from error
        return self.__dict__

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> StreamedRows:
        """Upload the rows of one task."""
        assert self._write is not None, "it came here pickled"
        made = write_rows(self._options, self._write, iterator)
        context = TaskContext.get()
        query = "" if context is None else context.getLocalProperty(QUERY) or ""
        return StreamedRows(rows=made.rows, write=self._write, query=query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Append a batch, unless it was appended before."""
        append_batch(self._options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Take the ticket back. A batch that was appended stays so."""
        for written in messages:
            if isinstance(written, StreamedRows):
                give_up(self._options, written.write)
                return
