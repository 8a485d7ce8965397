"""Sums of diffs: equal rows become one, and what cancels goes.

Rows are equal if their bits are, as in the grouping of pyarrow: null equals null, NaN equals a NaN
of the same bits (all rows that come in have one NaN), and -0.0 differs from 0.0. Comparisons are
never used for it: to them NaN differs from NaN, and -0.0 equals 0.0.
"""

from __future__ import annotations

from typing import Final

import pyarrow
from pyarrow import compute

from siltstone.collections.rows.row_schema import DIFF, TIME
from siltstone.core.errors import CollectionError

DIFF_MIN: Final = -(2**63)
DIFF_MAX: Final = 2**63 - 1

_WIDE: Final = pyarrow.decimal128(38, 0)
"""Sums of 2^31 diffs fit in it: those of int64 wrap without a word, in pyarrow and in numpy."""


def consolidate(updates: pyarrow.Table, since: int = 0) -> pyarrow.Table:
    """Return updates that mean the same from ``since`` on, one for each row and time.

    Times below ``since`` become ``since``. Diffs of equal rows with equal times are added; rows
    whose sum is 0 go. The order is that in which rows are first met.

    Args:
        updates: with ``_time`` or without; with ``_diff`` or without, and then each row counts 1.
        since: a time.

    Returns:
        The same columns, and ``_diff`` last.

    Raises:
        CollectionError: a sum is beyond 64 bits.
    """
    updates = advanced(updates, since)
    diffs = diffs_of(updates)
    wide = may_wrap(diffs)
    keys = [name for name in updates.column_names if name != DIFF]
    # Columns get numbers as names, for those of users could be the ones that pyarrow makes.
    numbered = [str(number) for number in range(len(keys))]
    table = pyarrow.table(
        [*(updates[name] for name in keys), diffs.cast(_WIDE) if wide else diffs],
        names=[*numbered, "diff"],
    )
    grouped = table.group_by(numbered, use_threads=False).aggregate([("diff", "sum")])
    sums = grouped["diff_sum"]
    if wide:
        sums = _narrowed(sums)
    kept = pyarrow.table(
        [*(grouped[number] for number in numbered), sums],
        schema=pyarrow.schema(
            [
                *(updates.schema.field(name) for name in keys),
                pyarrow.field(DIFF, pyarrow.int64(), nullable=False),
            ]
        ),
    )
    gone = compute.equal(sums, 0)
    return kept.filter(compute.invert(gone)) if compute.any(gone).as_py() else kept


def advanced(updates: pyarrow.Table, since: int) -> pyarrow.Table:
    """Return ``updates`` with times below ``since`` raised to it."""
    if since <= 0 or TIME not in updates.column_names:
        return updates
    index = updates.column_names.index(TIME)
    column = updates.column(index)
    raised = compute.max_element_wise(column, pyarrow.scalar(since, pyarrow.int64()))
    return updates.set_column(index, updates.schema.field(index), raised)


def diffs_of(updates: pyarrow.Table) -> pyarrow.ChunkedArray:
    """The column ``_diff``, made where it is left out."""
    if DIFF in updates.column_names:
        return updates[DIFF]
    ones = pyarrow.repeat(pyarrow.scalar(1, pyarrow.int64()), len(updates))
    return pyarrow.chunked_array([ones])


def may_wrap(diffs: pyarrow.ChunkedArray) -> bool:
    """Whether a sum of some of ``diffs`` may be beyond 64 bits: rows times the largest |diff|."""
    bounds = compute.min_max(diffs).as_py()
    if bounds["min"] is None:
        return False
    largest = max(abs(bounds["min"]), abs(bounds["max"]))
    return bool(len(diffs) * largest > DIFF_MAX)


def sum_of_diffs(updates: pyarrow.Table) -> int:
    """The exact sum of all diffs, of any size."""
    if DIFF not in updates.column_names:
        return len(updates)
    diffs = updates[DIFF]
    total = compute.sum(diffs.cast(_WIDE) if may_wrap(diffs) else diffs).as_py()
    return int(total or 0)


def has_negatives(updates: pyarrow.Table) -> bool:
    """Whether a diff is below 0, so that something may cancel."""
    if DIFF not in updates.column_names or not len(updates):
        return False
    return bool(compute.min(updates[DIFF]).as_py() < 0)


def _narrowed(sums: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    try:
        return sums.cast(pyarrow.int64())
    except pyarrow.ArrowInvalid as error:
        raise CollectionError(
            "diffs of one row add up to more than 64 bits hold; append fewer copies of it",
            limit=DIFF_MAX,
        ) from error
