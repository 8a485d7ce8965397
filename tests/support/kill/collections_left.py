"""What killed processes left of a collection, against what they acknowledged."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
from pyarrow import compute

from siltstone.collections.blocking import Collection
from tests.support.kill.collection_child import SCHEMA, SETTINGS, appends_in, rows_of

Names = Callable[[], list[str]]
"""Of all objects, by a look from outside."""


def compare(
    collection: Collection, acknowledged: dict[int, dict[int, int]], chance: random.Random
) -> None:
    """What is there, at each time, is what was acknowledged, and of each writer one append more."""
    newest = collection.snapshot().to_arrow()
    counts = appends_in(newest)
    for writer, told in acknowledged.items():
        assert set(told) <= set(range(counts[writer])), "an acknowledged append is lost"
    changes = pyarrow.concat_tables(one.to_arrow() for one in _followed(collection))
    assert compute.sum(changes["_diff"]).as_py() == len(newest)
    times = changes.group_by(["writer", "sequence"]).aggregate([("_time", "min"), ("_time", "max")])
    at: dict[tuple[int, int], int] = {}
    for row in times.to_pylist():
        assert row["_time_min"] == row["_time_max"]
        at[row["writer"], row["sequence"]] = row["_time_min"]
    for writer, told in acknowledged.items():
        for sequence, told_time in told.items():
            assert at[writer, sequence] == told_time
    upper = collection.info().upper
    assert upper is not None
    for as_of in chance.sample(range(upper), min(upper, 8)):
        shown = collection.snapshot(as_of).to_arrow()
        appends_in(shown)
        assert len(shown) == sum(rows_of(*key) for key, moment in at.items() if moment <= as_of)


def clear_up(collection: Collection, names: Names) -> None:
    """Nothing is left but what the rows need, and they are the same."""
    newest = collection.snapshot().to_arrow()
    time.sleep(SETTINGS.lease_ms / 1000)
    collection.append([])  # the leases of the dead end
    collection.compact()
    time.sleep(SETTINGS.garbage_delay_ms / 1000 + 0.1)
    collection.append([])
    collection.collect()
    collection.sweep()
    assert _ordered(collection.snapshot().to_arrow()).equals(_ordered(newest))
    left = [name for name in names() if name.endswith(".parquet")]
    assert len(left) == collection.info().parts, "what the dead left was swept"


def _ordered(table: pyarrow.Table) -> pyarrow.Table:
    return table.sort_by([(name, "ascending") for name in SCHEMA.names])


def _followed(collection: Collection) -> Iterator[Any]:
    with collection.subscribe(0, until=collection.info().upper) as changes:
        yield from changes
