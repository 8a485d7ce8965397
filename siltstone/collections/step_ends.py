"""Where a step ends of those who read changes some at a time: always between two times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow
from pyarrow import compute

from siltstone.collections.part_objects import pieces_of
from siltstone.collections.rows.open_part import shares_of
from siltstone.collections.rows.row_schema import TIME, RowSchema
from siltstone.collections.rows.stored_run import Piece, ReadPart, RunReader
from siltstone.collections.stored_schema import schemas_of
from siltstone.core.records.collection_batch import CollectionBatch
from siltstone.core.records.collection_part import CollectionPart, PartFlags
from siltstone.core.records.collection_state import CollectionState


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """How much a step has at most; but always a time as a whole, and one that has updates.

    Attributes:
        rows: updates; ``None`` means any number.
        size_bytes: bytes of encoded updates, about; ``None`` means any number.
    """

    rows: int | None = None
    size_bytes: int | None = None


NO_LIMITS = StepLimits()


def step_end(
    state: CollectionState, start: int, target: int, limits: StepLimits, read: ReadPart
) -> int:
    """Return the frontier at which a step ends that begins at ``start``. Blocking.

    It reads times only of a batch that alone has too many updates.

    Args:
        state: whose since is below ``start``, or 0.
        start: a frontier.
        target: a frontier that is not above the upper; the step ends there at the latest.
        limits: of the step.
        read: reads objects.

    Raises:
        CorruptDataError: bytes of a part are not what was written.
        Exception: what ``read`` raises.
    """
    if limits == NO_LIMITS:
        return max(start, target)
    rows = size = 0
    end = start
    for batch in state.batches.items:
        if batch.upper <= start:
            continue
        if batch.lower >= target:
            break
        parts = [part for part in batch.parts() if _overlaps(part, start, target)]
        rows += sum(part.rows for part in parts)
        size += sum(part.length for part in parts)
        if _exceeds(rows, limits.rows) or _exceeds(size, limits.size_bytes):
            if end > start:  # It begins the next step.
                return end
            return min(target, _end_within(state, batch, start, target, limits, read))
        end = min(batch.upper, target)
    return end


def _overlaps(part: CollectionPart, start: int, end: int) -> bool:
    return part.time_max >= start and part.time_min < end


def _exceeds(found: int, limit: int | None) -> bool:
    return limit is not None and found > limit


def _end_within(
    state: CollectionState,
    batch: CollectionBatch,
    start: int,
    target: int,
    limits: StepLimits,
    read: ReadPart,
) -> int:
    """Where a step ends that has updates of one batch alone."""
    pieces = [piece for run in pieces_of(state.id, [batch]) for piece in run]
    pieces = [piece for piece in pieces if _overlaps(piece.part, start, target)]
    times = _lowest(
        _times_of(pieces, schemas_of(state), read), start, target, _rows_allowed(pieces, limits)
    )
    if times is None:
        return batch.upper
    return max(int(times[-1].as_py()), int(times[0].as_py()) + 1)


def _rows_allowed(pieces: Sequence[Piece], limits: StepLimits) -> int:
    """How many updates the limits allow, if all are alike."""
    allowed = [] if limits.rows is None else [limits.rows]
    if limits.size_bytes is not None:
        rows = sum(piece.part.rows for piece in pieces)
        size = sum(piece.part.length for piece in pieces)
        allowed.append(limits.size_bytes * rows // size)
    return max(1, min(allowed))


def _lowest(
    times: Iterator[pyarrow.ChunkedArray], start: int, end: int, count: int
) -> pyarrow.Array | None:
    """The lowest ``count + 1`` times in ``[start, end)``, in order; ``None`` if there are fewer."""
    held = pyarrow.array([], pyarrow.int64())
    for some in times:
        # The last frontier is no number of this type, and all times are below it.
        in_range = compute.and_(
            compute.greater_equal(some, start), compute.less_equal(some, end - 1)
        )
        held = pyarrow.concat_arrays([held, *some.filter(in_range).chunks])
        if len(held) > count + 1:
            lowest = compute.partition_nth_indices(held, pivot=count)
            held = held.take(lowest.slice(0, count + 1))
    if len(held) <= count:
        return None
    return held.take(compute.array_sort_indices(held))


def _times_of(
    pieces: Sequence[Piece], schemas: Mapping[int, RowSchema], read: ReadPart
) -> Iterator[pyarrow.ChunkedArray]:
    for piece in pieces:
        part = piece.part
        if PartFlags.HAS_TIME not in part.flags:
            time = pyarrow.scalar(part.time, pyarrow.int64())
            yield pyarrow.chunked_array([pyarrow.repeat(time, part.rows)])
            continue
        schema = schemas[part.schema_id]
        reader = RunReader(schemas=schemas, schema=schema, with_time=True, time_end=None, read=read)
        opened = reader.open(piece)
        for groups in shares_of(opened, range(len(opened.group_rows))):
            yield opened.read(groups, [TIME])[TIME]
