"""The records of a range as tables of Arrow: what an export writes and a verification needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow
import pyarrow.compute

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import CorruptDataError
from siltstone.pipelines.arrow_events import event_payloads
from siltstone.pipelines.arrow_lines import split_lines
from siltstone.pipelines.blocks import block_values, read_block_runs
from siltstone.pipelines.event_runs import EVENT_READ_BYTES, EventRun, read_event_runs
from siltstone.pipelines.export_layout import Records
from siltstone.pipelines.lines import first_line, read_lines
from siltstone.pipelines.segment_ranges import SegmentRange, source_of

BLOCK_BYTES: Final = MIB
"""A row of ``bytes``."""

_TEXT: Final = pyarrow.schema([("offset", pyarrow.int64()), ("value", pyarrow.string())])
_BINARY: Final = pyarrow.schema([("offset", pyarrow.int64()), ("value", pyarrow.binary())])


def schema_of(records: Records) -> pyarrow.Schema:
    """The columns: where a record begins in the segment, and the record."""
    return _TEXT if records is Records.LINES else _BINARY


def tables_of(
    records: Records, store: str, storage: ChunkStorage, part: SegmentRange
) -> Iterator[pyarrow.Table]:
    """Yield the records that begin in a range, in order, some at a time.

    Raises:
        CorruptDataError: a line is not UTF-8, or no event begins where one should.
        ChunkError: storage failed.
    """
    if records is Records.LINES:
        return _lines(store, storage, part)
    if records is Records.EVENTS:
        return _events(store, storage, part)
    return _blocks(store, storage, part)


def _lines(store: str, storage: ChunkStorage, part: SegmentRange) -> Iterator[pyarrow.Table]:
    read = source_of(store, storage, part).read
    offset = part.start
    if offset > part.first:
        offset = first_line(read, part.start, part.stop, part.end)
        if offset >= part.stop:
            return
    for begin, lines in read_lines(read, offset, part.stop, part.end, at_line_start=True):
        values = split_lines(lines, pyarrow.binary())
        try:
            text = values.cast(pyarrow.string())
        except pyarrow.ArrowInvalid as error:
            raise CorruptDataError(
                "a line is not UTF-8; export events or bytes", where=part.subject
            ) from error
        lengths = pyarrow.compute.binary_length(values).cast(pyarrow.int64())
        ends = pyarrow.compute.cumulative_sum(pyarrow.compute.add(lengths, 1))
        begins = pyarrow.compute.add(
            pyarrow.compute.subtract(ends, pyarrow.compute.add(lengths, 1)), begin
        )
        yield pyarrow.table([begins, text], schema=_TEXT)


def _events(store: str, storage: ChunkStorage, part: SegmentRange) -> Iterator[pyarrow.Table]:
    read = source_of(store, storage, part, EVENT_READ_BYTES, stop=part.stop).read
    runs = read_event_runs(read, part.start, part.stop, part.stop, segment=part.segment)
    for run in runs:
        assert isinstance(run, EventRun), "a read that is not tolerant passes nothing over"
        offsets = pyarrow.array(run.starts + run.base, pyarrow.int64())
        yield pyarrow.table([offsets, event_payloads(run, pyarrow.binary())], schema=_BINARY)


def _blocks(store: str, storage: ChunkStorage, part: SegmentRange) -> Iterator[pyarrow.Table]:
    """Rows of ``BLOCK_BYTES``, whatever pieces a range is read in."""
    read = source_of(store, storage, part).read
    for run in read_block_runs(read, part.start, part.stop, BLOCK_BYTES):
        offsets = pyarrow.array(run.offsets, pyarrow.int64())
        yield pyarrow.table([offsets, block_values(run, pyarrow.binary())], schema=_BINARY)


def in_steps(tables: Iterable[pyarrow.Table], rows: int) -> Iterator[pyarrow.Table]:
    """Yield rows of tables, this many at a time, so that two ways to read them can be compared."""
    held: list[pyarrow.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += len(table)
        while count >= rows:
            whole = pyarrow.concat_tables(held)
            yield whole.slice(0, rows).combine_chunks()
            held, count = [whole.slice(rows)], count - rows
    if count:
        yield pyarrow.concat_tables(held).combine_chunks()
