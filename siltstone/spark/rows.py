"""The rows of a range as Arrow batches of the schema that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy
import pyarrow

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.pipelines.arrow_events import event_payloads
from siltstone.pipelines.arrow_lines import split_lines
from siltstone.pipelines.blocks import BlockRun, block_values, read_block_runs
from siltstone.pipelines.byte_source import READ_BYTES, ByteSource
from siltstone.pipelines.event_runs import (
    EVENT_READ_BYTES,
    BadStretch,
    EventRun,
    read_event_runs,
)
from siltstone.pipelines.event_starts import Numbers
from siltstone.pipelines.lines import read_lines
from siltstone.pipelines.window import Window
from siltstone.spark.columns import ERROR, OFFSET, SEGMENT, VALUE
from siltstone.spark.options import BadRecords, Mode, ReadOptions
from siltstone.spark.ranges import RecordRange
from siltstone.store.worker_store import worker_store


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """What a row is, and which columns it has.

    Attributes:
        options: of the read.
        schema: of every batch.
    """

    options: ReadOptions
    schema: pyarrow.Schema

    def read(
        self, storage: ChunkStorage, part: RecordRange, look_up: Callable[[int], Window]
    ) -> Iterator[pyarrow.RecordBatch]:
        """Read the rows of one range, in batches that stay in the cache until Spark has them.

        Args:
            storage: long-term storage; stays the caller's.
            part: what to read.
            look_up: gives a window of the segment that begins at an offset, as things are now.

        Raises:
            MalformedEventError: there is no event where one should begin, and none may be bad.
            CorruptDataError: a chunk is damaged or lost.
            SegmentTruncatedError: bytes of the range were truncated and deleted since.
            SegmentNotFoundError: the segment was deleted since.
            ChunkError: long-term storage did not answer.
        """
        events = self.options.mode is Mode.EVENTS
        source = ByteSource(
            storage,
            part.window,
            look_up,
            read_bytes=EVENT_READ_BYTES if events else READ_BYTES,
            # Arrow copies lines and events; blocks stay where they were read.
            one_buffer=self.options.mode is not Mode.BYTES,
        )
        match self.options.mode:
            case Mode.LINES:
                yield from self._lines(source, part)
            case Mode.EVENTS:
                yield from self._events(source, part)
            case Mode.BYTES:
                for run in read_block_runs(
                    source.read, part.start, part.stop, self.options.block_bytes
                ):
                    yield self._blocks(part, run)

    def _lines(self, source: ByteSource, part: RecordRange) -> Iterator[pyarrow.RecordBatch]:
        kind = self._value_type(pyarrow.binary())
        for base, view in read_lines(
            source.read, part.start, part.stop, part.end, at_line_start=part.at_record_start
        ):
            values = split_lines(view, kind)
            offsets = line_offsets(values, base) if self._has(OFFSET) else None
            yield self._batch(part, len(values), values, offsets)

    def _events(self, source: ByteSource, part: RecordRange) -> Iterator[pyarrow.RecordBatch]:
        kind = self._value_type(None)
        for run in read_event_runs(
            source.read,
            part.start,
            part.stop,
            part.end,
            segment=part.segment,
            borders=part.borders,
            joined=part.joined,
            tolerant=self.options.bad_records is not BadRecords.FAIL,
        ):
            if isinstance(run, EventRun):
                for some in run.parts(READ_BYTES):
                    values = None if kind is None else event_payloads(some, kind)
                    yield self._batch(part, len(some.starts), values, some.starts + some.base)
            elif self.options.bad_records is BadRecords.COLUMN:
                yield self._bad(part, run)

    def _bad(self, part: RecordRange, bad: BadStretch) -> pyarrow.RecordBatch:
        kind = self._value_type(pyarrow.binary())
        values = pyarrow.array([None], kind)
        reason = (
            f"{bad.reason}: segment {part.segment} offset {bad.offset}, "
            f"{bad.end - bad.offset} bytes passed over"
        )
        return self._batch(part, 1, values, numpy.array([bad.offset]), reason)

    def _blocks(self, part: RecordRange, run: BlockRun) -> pyarrow.RecordBatch:
        values = block_values(run, pyarrow.binary())
        return self._batch(part, run.count, values, run.offsets)

    def _has(self, column: str) -> bool:
        return column in self.schema.names

    def _value_type(self, default: pyarrow.DataType) -> pyarrow.DataType:
        return self.schema.field(VALUE).type if self._has(VALUE) else default

    def _batch(
        self,
        part: RecordRange,
        count: int,
        values: pyarrow.Array | None,
        offsets: Numbers | None,
        error: str | None = None,
    ) -> pyarrow.RecordBatch:
        columns = []
        for name in self.schema.names:
            match name:
                case _ if name == VALUE:
                    columns.append(values)
                case _ if name == OFFSET:
                    columns.append(pyarrow.array(offsets, pyarrow.int64()))
                case _ if name == SEGMENT:
                    columns.append(pyarrow.repeat(pyarrow.scalar(part.segment), count))
                case _ if name == ERROR:
                    columns.append(pyarrow.repeat(pyarrow.scalar(error, pyarrow.string()), count))
        return pyarrow.RecordBatch.from_arrays(columns, schema=self.schema)


def line_offsets(lines: pyarrow.Array, base: int) -> Numbers:
    """The offset in the segment of each of some lines, of which the first begins at ``base``."""
    ends = numpy.frombuffer(lines.buffers()[1], numpy.int32)
    ends = ends[lines.offset : lines.offset + len(lines) + 1].astype(numpy.int64)
    # The newline after each line is in no value.
    return base + (ends[:-1] - ends[0]) + numpy.arange(len(lines))


def read_task(shape: RowShape, task: Sequence[RecordRange]) -> Iterator[pyarrow.RecordBatch]:
    """Read the rows of some ranges of one store, one after the other.

    Raises:
        StoreError: where the settings lead on this machine, there is another store.
    """
    if not task:
        return
    with closing(worker_store(task[0].store, task[0].uuid)) as storage:
        for part in task:
            yield from shape.read(storage, part, partial(_window_again, part))


def _window_again(part: RecordRange, offset: int) -> Window:
    # It opens a whole store, and most tasks never need one.
    from siltstone.pipelines.look_up import find_window

    return find_window(
        part.store, part.uuid, part.segment, part.segment_id, part.window.lineage, offset, part.end
    )
