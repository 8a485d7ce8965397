"""Runs become one, key range by key range: for compactions, and for reads where rows may cancel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow

from siltstone.collections.rows.consolidate import advanced, consolidate, sum_of_diffs
from siltstone.collections.rows.encode_parts import PART_BYTES, PartsWriter, encode_updates
from siltstone.collections.rows.encoded_part import EncodedPart
from siltstone.collections.rows.key_order import Key, sorted_by_key
from siltstone.collections.rows.row_schema import RowSchema
from siltstone.collections.rows.stored_run import (
    EVERYTHING,
    Bounds,
    Piece,
    ReadPart,
    RunCursor,
    RunReader,
    cursors_of,
)
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.collection_frontier import AT_COMMIT
from siltstone.core.records.collection_part import CollectionPart, PartFlags

MERGE_BYTES: Final = 256 * MIB
"""Of memory for one merge.

A sixth is rows that are held, or one row group of each run, if that is more, and one that is nearly
used up. A sixteenth is the rows of one step: to group, sort and encode them takes five times as
much. A quarter is the object that is written, which is in memory until it is whole.
"""

HELD_SHARE: Final = 6
STEP_SHARE: Final = 16
PART_SHARE: Final = 4

FEW_BYTES: Final = 64 * KIB
"""Of inputs whose result may be small enough to be inline."""


def merged_steps(cursors: Sequence[RunCursor], memory: int) -> Iterator[tuple[pyarrow.Table, bool]]:
    """Yield all updates of ``cursors``, in steps of ascending ranges of keys.

    Rows of a step are in no order. Each step comes with whether it is whole: it has all rows of
    its keys. A step that is not whole has rows of one key, and more of them come in the next one.

    Args:
        cursors: sorted updates.
        memory: bytes to use, about, as ``MERGE_BYTES`` says.
    """
    share = max(1, memory // HELD_SHARE // max(1, len(cursors)))
    step_bytes = max(1, memory // STEP_SHARE)
    while True:
        for cursor in cursors:
            cursor.fill(share)
        held = [cursor for cursor in cursors if not cursor.empty]
        if not held:
            return
        bound = _step_end(held, step_bytes)
        tables = [
            cursor.take_all() if bound is None else cursor.take_below(bound) for cursor in held
        ]
        if any(tables):
            yield _together(tables), True
            continue
        assert bound is not None, "what is held can be taken"
        unread = any(not cursor.exhausted and cursor.last_key == bound for cursor in held)
        yield _together([cursor.take_through(bound) for cursor in held]), not unread


def _step_end(held: Sequence[RunCursor], step_bytes: int) -> Key | None:
    """The key at which the next step ends, which no row below it is missing for.

    ``None`` means that all is there, and takes part. Where no row is below the key, the key itself
    is the step.
    """
    bound = min((cursor.last_key for cursor in held if not cursor.exhausted), default=None)
    counts = [cursor.rows if bound is None else cursor.rows_below(bound) for cursor in held]
    sizes = [cursor.size_bytes(count) for cursor, count in zip(held, counts, strict=True)]
    if sum(sizes) <= step_bytes:
        return bound
    # Too much at once: end where the largest share of a run has its part of the step.
    most = max(range(len(held)), key=sizes.__getitem__)
    return held[most].key(counts[most] * step_bytes // sum(sizes))


def consolidated_steps(
    steps: Iterable[tuple[pyarrow.Table, bool]], *, since: int, carried_bytes: int | None
) -> Iterator[pyarrow.Table]:
    """Yield consolidated updates in steps of ascending ranges of keys.

    Args:
        steps: those of ``merged_steps``, with ``_diff``.
        since: times below it become it.
        carried_bytes: rows of a key that spans several steps are put together up to so many bytes
            of sums; what is above comes in several tables. ``None`` means that all are.

    Raises:
        CollectionError: a sum is beyond 64 bits.
    """
    carried: list[pyarrow.Table] = []
    for step, whole in steps:
        table = consolidate(pyarrow.concat_tables([*carried, step]), since)
        if whole or (carried_bytes is not None and table.nbytes > carried_bytes):
            carried = []
            yield table
        else:
            carried = [table]
    yield from carried


def merge_runs(
    runs: Sequence[Sequence[Piece]],
    schemas: Mapping[int, RowSchema],
    schema_id: int,
    read: ReadPart,
    *,
    since: int,
    part_size: int = PART_BYTES,
    memory: int = MERGE_BYTES,
    bounds: Bounds = EVERYTHING,
) -> Iterator[EncodedPart]:
    """Yield the parts of one run that means the same as ``runs`` from ``since`` on.

    If a diff is below 0 anywhere, equal rows with equal times become one. Rows of one key that do
    not fit in memory are consolidated some at a time, so equal ones may stay apart; a read adds
    them.

    Args:
        runs: parts in the order of keys.
        schemas: by id, those that the parts were written with, and the one to write with.
        schema_id: id of the schema to write with; no column of the others is missing in it.
        read: reads objects.
        since: times below it become it.
        part_size: of an object, in bytes, at most; and a quarter of ``memory`` at most.
        memory: bytes to use, about, as ``MERGE_BYTES`` says.
        bounds: which keys to take; by default all of them.

    Raises:
        CollectionError: a sum of diffs is beyond 64 bits.
        CorruptDataError: bytes of a part are not what was written, or, after the last part, the
            sum of diffs that were written is not that of the runs: then no part counts.
        Exception: what ``read`` raises.
    """
    parts = [piece.part for run in runs for piece in run]
    times = {max(time, since) for part in parts for time in (part.time_min, part.time_max)}
    with_time = len(times) > 1
    schema = schemas[schema_id]
    reader = RunReader(
        schemas=schemas, schema=schema, with_time=with_time, time_end=None, read=read
    )
    tally = _Tally()
    steps = tally.of(merged_steps(cursors_of(runs, reader, bounds), memory))
    if any(PartFlags.HAS_NEGATIVES in part.flags for part in parts):
        tables = consolidated_steps(steps, since=since, carried_bytes=memory // STEP_SHARE)
    else:
        tables = (advanced(step, since) for step, _ in steps)
    time = None if with_time else next(iter(times), since)
    written = 0
    size = min(part_size, max(1, memory // PART_SHARE))
    for encoded in _encoded(tables, parts, schema, schema_id, time, size):
        written += encoded.part.diff_sum
        yield encoded
    _check_sums(tally.diffs, written)
    if bounds == EVERYTHING:
        _check_sums(sum(part.diff_sum for part in parts), written)


class _Tally:
    """Adds the diffs of steps that pass through."""

    def __init__(self) -> None:
        self.diffs = 0

    def of(
        self, steps: Iterable[tuple[pyarrow.Table, bool]]
    ) -> Iterator[tuple[pyarrow.Table, bool]]:
        """Yield ``steps``."""
        for step, whole in steps:
            self.diffs += sum_of_diffs(step)
            yield step, whole


def _encoded(
    tables: Iterator[pyarrow.Table],
    parts: Sequence[CollectionPart],
    schema: RowSchema,
    schema_id: int,
    time: int | None,
    part_size: int,
) -> Iterator[EncodedPart]:
    """Yield tables of ascending ranges of keys as parts."""
    if sum(part.length for part in parts) <= FEW_BYTES:
        few = list(tables)
        if few:
            yield from encode_updates(
                pyarrow.concat_tables(few),
                schema,
                schema_id,
                time=AT_COMMIT if time is None else time,
                part_size=part_size,
            )
        return
    writer = PartsWriter(
        schema,
        schema_id,
        time=time,
        with_diff=any(PartFlags.HAS_DIFF in part.flags for part in parts),
        part_size=part_size,
    )
    for table in tables:
        yield from writer.add(sorted_by_key(table, schema))
    yield from writer.finish()


def _together(tables: Iterable[pyarrow.Table | None]) -> pyarrow.Table:
    return pyarrow.concat_tables([table for table in tables if table is not None])


def _check_sums(wanted: int, found: int) -> None:
    if wanted != found:
        raise CorruptDataError(
            "a merge has another sum of diffs than what it was made from; its parts do not count",
            where="merge",
            wanted=wanted,
            found=found,
        )
