"""Updates of a range of times, for those who follow a collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow
from pyarrow import compute

from siltstone.collections.rows.open_part import shares_of
from siltstone.collections.rows.row_schema import TIME, RowSchema
from siltstone.collections.rows.stored_run import Piece, ReadPart, RunReader


def read_changes(
    runs: Sequence[Sequence[Piece]],
    schemas: Mapping[int, RowSchema],
    schema_id: int,
    read: ReadPart,
    *,
    start: int,
    end: int,
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the updates of runs whose times are in ``[start, end)``, as they lie.

    Args:
        runs: parts in the order of keys.
        schemas: by id, those of the parts, and the one to show.
        schema_id: id of the schema to show.
        read: reads objects.
        start: a time; since of the batches is not above it.
        end: a frontier.

    Returns:
        Record batches with the columns of the schema, and ``_time`` and ``_diff``.

    Raises:
        CorruptDataError: bytes of a part are not what was written.
        Exception: what ``read`` raises.
    """
    reader = RunReader(
        schemas=schemas, schema=schemas[schema_id], with_time=True, time_end=end, read=read
    )
    for run in runs:
        for piece in run:
            part = piece.part
            if part.time_max < start or part.time_min >= end:
                continue
            opened = reader.open(piece)
            for groups in shares_of(opened, range(len(opened.group_rows))):
                table = reader.updates(opened, groups)
                if part.time_min < start:
                    table = table.filter(compute.greater_equal(table[TIME], start))
                yield from table.to_batches()
