"""What a collection of plain rows should be: a list of updates, and rows at a time by adding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow

from siltstone.collections.async_collection import AsyncCollection
from tests.support.collections.collections_world import rows

Row = tuple[str, int | None]
"""Key and value, as ``SCHEMA`` has them."""

Update = tuple[Row, int, int]
"""A row, its time, and its diff."""


@dataclass
class UpdateModel:
    """The updates of a collection, as they were acknowledged.

    Attributes:
        updates: each with its time.
        upper: times below it are complete.
        since: the lowest time that can be read.
    """

    updates: list[Update] = field(default_factory=list)
    upper: int = 0
    since: int = 0

    def add(self, time: int, come: Iterable[Row], go: Iterable[Row] = ()) -> None:
        """Rows come and go at a time, which is complete then."""
        self.updates += [(row, time, 1) for row in come]
        self.updates += [(row, time, -1) for row in go]
        self.upper = max(self.upper, time + 1)

    def rows(self, as_of: int) -> Counter[Row]:
        """How often each row is there at a time."""
        return summed((row, diff) for row, time, diff in self.updates if time <= as_of)

    def changes(self, lower: int, upper: int) -> Counter[tuple[Row, int]]:
        """The sums of diffs by row and time, of times in ``[lower, upper)``."""
        return summed(
            ((row, time), diff) for row, time, diff in self.updates if lower <= time < upper
        )


async def random_append(collection: AsyncCollection, model: UpdateModel, chance: Random) -> None:
    """Append a few rows, and take away some that are there."""
    come = [(f"k{chance.randrange(9)}", chance.randrange(3)) for _ in range(chance.randrange(4))]
    there = sorted(model.rows(model.upper).elements(), key=str)
    go = chance.sample(there, min(len(there), chance.randrange(3)))
    done = await collection.append(rows(*come), remove=rows(*go) if go else None)
    model.add(done.time, come, go)


def summed(pairs: Iterable[tuple[Any, int]]) -> Counter[Any]:
    """Sums by key, without those that are 0."""
    sums: Counter[Any] = Counter()
    for key, diff in pairs:
        sums[key] += diff
    return Counter({key: diff for key, diff in sums.items() if diff})


def rows_of(table: pyarrow.Table) -> Counter[Row]:
    """The rows of a snapshot; with ``_diff``, each as often as that says."""
    return summed(((row["k"], row["v"]), row.get("_diff", 1)) for row in table.to_pylist())


def changes_of(table: pyarrow.Table) -> Counter[tuple[Row, int]]:
    """The sums of diffs by row and time, of updates that were told."""
    return summed((((row["k"], row["v"]), row["_time"]), row["_diff"]) for row in table.to_pylist())
