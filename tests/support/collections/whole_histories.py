"""A store with collections that have a history, and all that anyone can read of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow

import siltstone
from siltstone.collections.blocking import Collection, Collections

SCHEMA = pyarrow.schema([("k", pyarrow.int64()), ("v", pyarrow.string())])
Rows = list[tuple[int, int, str, int]]
"""Time, key, value and diff of each update, in this order."""


def table(start: int, stop: int) -> pyarrow.Table:
    """Rows of these keys."""
    numbers = range(start, stop)
    return pyarrow.table({"k": list(numbers), "v": [f"row {n}" for n in numbers]})


def store_with_histories(folder: Path) -> Path:
    """A store with two collections that have parts, inline rows, and a history."""
    made = siltstone.init(folder).parent
    with (made / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("\ngarbage:\n  delay: 0s\ncollections:\n  compaction: off\n")
    with siltstone.open(made) as store:
        store.create("a").append(b"bytes")
    with siltstone.open_collections(made) as collections:
        fill(collections)
    return made


def fill(collections: Collections) -> None:
    """Make ``ages`` and ``gusts``."""
    for name in ("ages", "gusts"):
        made = collections.create(name, SCHEMA, key=["k"], times="count")
        made.append(table(0, 3_000))
        made.append([{"k": 1, "v": "x"}], remove=[{"k": 2, "v": "row 2"}])
        made.writer("loader").append(table(3_000, 4_000), sequence=7)
    made.evolve(SCHEMA.append(pyarrow.field("more", pyarrow.int8())))
    made.bookmark("bill")
    collections.settle()


def history(folder: Path) -> dict[str, Rows]:
    """Every update of every collection of a store that is sound."""
    with siltstone.open_collections(folder) as collections:
        return histories_in(collections)


def histories_in(collections: Collections) -> dict[str, Rows]:
    """The same, of collections that are open."""
    assert [one for one in collections.check(deep=True) if one.severity == "damage"] == []
    return {name: updates_of(collections.collection(name)) for name in collections.list()}


def updates_of(collection: Collection) -> Rows:
    """Every update of a collection."""
    upper = collection.info().upper
    assert upper is not None
    return sorted(
        (row["_time"], row["k"], row["v"], row["_diff"])
        for changes in collection.listen(0, until=upper)
        for row in changes.to_arrow().to_pylist()
    )
