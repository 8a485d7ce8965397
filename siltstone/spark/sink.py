"""The end of a write: the driver gives to segments what the tasks brought, once."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pyarrow
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from siltstone.container.models.imports import (
    ImportBatch,
    ImportedChunk,
    ImportMode,
    ImportOutput,
    ImportResult,
    ImportSessionError,
    ImportTicket,
)
from siltstone.core.errors import Outcome, SettingsError, SiltstoneError
from siltstone.spark.columns import VALUE
from siltstone.spark.key_text import check_key
from siltstone.spark.ownership import END_WAIT_S, PLAN_WAIT_S, owned
from siltstone.spark.task_writer import TaskOutput, write_task
from siltstone.spark.write_options import Outputs, WriteOptions
from siltstone.spark.write_session import WriteSession, open_session

LIFETIME: Final = timedelta(days=7)
"""No job that is still to be committed is older."""
BATCH_LIFETIME: Final = timedelta(days=1)
"""Nor a batch of a stream. If all of its tasks fail, nothing but this ends its session."""

_log = logging.getLogger(__name__)


def check_columns(options: WriteOptions, schema: StructType) -> DataType | None:
    """Check what is to be written, and return the type of its keys; ``None`` without any.

    Raises:
        SettingsError: it is not a column ``value`` of strings or bytes, and the key column, of a
            type that has a text, if the options name one.
    """
    wanted = [VALUE, *([options.key] if options.key else [])]
    kinds = {field.name: field.dataType for field in schema}
    if sorted(kinds) != sorted(wanted) or len(kinds) != len(list(schema)):
        raise SettingsError(
            f"a write takes the columns {', '.join(wanted)}, not {schema.simpleString()}; "
            "select and cast what shall be written"
        )
    if not isinstance(kinds[VALUE], StringType | BinaryType):
        raise SettingsError(
            f"column {VALUE!r} is STRING or BINARY, not {kinds[VALUE].simpleString()}"
        )
    if options.key:
        check_key(options.key, kinds[options.key])
        return kinds[options.key]
    return None


def publish(
    options: WriteOptions, session: WriteSession, written: Sequence[TaskOutput], batch: int | None
) -> None:
    """Give to segments what these tasks brought, in one step. Repeatable.

    Raises what opening a store and ``Store.commit_import`` raise, and

        ImportSessionError: the batch, or a later one, was published with other contents.
        ConditionFailedError: what is to be replaced has changed since the write was planned.
    """
    ticket = session.ticket
    outputs = list(_outputs(options, session, written))
    stream = None
    if batch is not None:
        stream = ImportBatch(query=written[0].query, number=batch, target=options.segment)
    result = _committed(options.store, ticket, outputs, stream)
    if stream is not None and result.newest is not None:
        _check_replayed(ticket, stream, result.newest)


def _committed(
    path: str, ticket: ImportTicket, outputs: Sequence[ImportOutput], batch: ImportBatch | None
) -> ImportResult:
    """Commit a session, and ask again where it is unknown what became of it.

    A job that failed is run again by its user, and its rows would be there twice.
    """
    result = None
    for again in (True, False):
        try:
            with owned(path, ticket.container, END_WAIT_S) as store:
                result = store.commit_import(ticket, outputs, batch=batch)
        except SiltstoneError as error:
            if result is not None:
                _log.warning("what was written is there; the store did not close: %s", error)
            elif not again or error.outcome is Outcome.NOT_APPLIED:
                raise
        if result is not None:
            return result
    raise AssertionError("the second attempt returns or raises")


def _check_replayed(ticket: ImportTicket, batch: ImportBatch, newest: ImportBatch) -> None:
    """Refuse a batch that was published before and that Spark cannot have planned again.

    It plans the newest batch of a checkpoint again, and none before that. So this one has rows of
    its own, and to pass over it would lose them.
    """
    if newest.number == batch.number and newest.target in ("", batch.target):
        return
    raise ImportSessionError(
        "this batch or a later one was published before, with other rows or for another segment: "
        "the checkpoint is a copy or an older one, or the option 'segment' was changed after a "
        "crash; continue there, or begin with a new checkpoint",
        session=ticket.name,
        query=batch.query,
        batch=batch.number,
        segment=batch.target,
        newest_batch=newest.number,
        newest_segment=newest.target,
    )


def _outputs(
    options: WriteOptions, session: WriteSession, written: Sequence[TaskOutput]
) -> Iterator[ImportOutput]:
    """What each segment gets: the chunks of the partitions in their order."""
    found: dict[str, list[ImportedChunk]] = {}
    for each in sorted(written, key=lambda one: one.partition):
        for part, chunks in each.parts:
            found.setdefault(part, []).extend(chunks)
    if options.outputs is Outputs.ONE:
        found = {"": found.get("", [])}
    replaces = options.import_mode is ImportMode.REPLACE
    for part, all_of_it in sorted(found.items()):
        segment = options.segment_of(part)
        yield ImportOutput(
            segment=segment,
            chunks=tuple(all_of_it),
            mode=options.import_mode,
            replaced=session.replaced(segment) if replaces else None,
        )


def give_up(options: WriteOptions, ticket: ImportTicket) -> None:
    """Abort a session; what was published stays. What cannot be done now, its expiry does."""
    try:
        with owned(options.store, ticket.container, PLAN_WAIT_S) as store:
            store.abort_import(ticket)
    except SiltstoneError:
        # The job has failed for a reason of its own, and that is what its user must hear.
        return


def _written(messages: Iterable[WriterCommitMessage | None]) -> list[TaskOutput]:
    return [message for message in messages if isinstance(message, TaskOutput)]


class SegmentSinkWriter(DataSourceArrowWriter):
    """Writes a data frame. Made when the job is planned; then pickled to its tasks and its end."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._key_type = check_columns(options, schema)
        self._options = options
        self._session = open_session(options, LIFETIME, again=True)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskOutput:
        """Write the rows of one task."""
        return write_task(self._options, self._session, self._key_type, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the attempts brought that Spark took, in one step."""
        publish(self._options, self._session, _written(messages), None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what any attempt brought. After a commit it changes nothing."""
        give_up(self._options, self._session.ticket)


class SegmentStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream.

    Spark makes one to plan each batch, and another one, with other contents, to end it. Only the
    first is pickled, so that is when the session is opened; the second learns of it from messages.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._key_type = check_columns(options, schema)
        self._options = options
        self._session: WriteSession | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._session is None:
            try:
                self._session = open_session(self._options, BATCH_LIFETIME, again=False)
            except SiltstoneError as error:
                # Spark passes this kind on as it is.
                raise pickle.PicklingError(f"{type(error).__name__}: {error}") from error
        return self.__dict__

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskOutput:
        """Write the rows of one task."""
        assert self._session is not None, "it came here pickled"
        return write_task(self._options, self._session, self._key_type, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish a batch, unless it was published before."""
        written = _written(messages)
        if written:
            seen = {name: one for each in written for name, one in each.session.seen.items()}
            session = replace(written[0].session, seen=seen)
            publish(self._options, session, written, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete what the batch brought. A batch that was published stays so."""
        written = _written(messages)
        if written:
            give_up(self._options, written[0].session.ticket)
