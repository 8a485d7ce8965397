"""Makes a store with collections in every state, and says what it must show for ever."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal
from unittest.mock import patch

import pyarrow

import siltstone
from siltstone.collections.blocking import Collection, Collections

Consensus = Literal["objects", "table"]

GUSTS: Final = pyarrow.schema(
    [
        pyarrow.field("station", pyarrow.string(), nullable=False),
        pyarrow.field("day", pyarrow.date32(), nullable=False),
        pyarrow.field("gust", pyarrow.float64()),
        pyarrow.field("price", pyarrow.decimal128(9, 2)),
        pyarrow.field("seen", pyarrow.timestamp("us", "UTC")),
        pyarrow.field("raw", pyarrow.binary()),
    ]
)
WIDER: Final = GUSTS.append(pyarrow.field("note", pyarrow.string()))
NUMBERS: Final = pyarrow.schema([pyarrow.field("n", pyarrow.int64(), nullable=False)])


@contextmanager
def opened(folder: Path, consensus: Consensus) -> Iterator[Collections]:
    """The collections of a store, in its owner where they have one."""
    if consensus == "objects":
        with siltstone.open_collections(folder) as collections:
            yield collections
        return
    with siltstone.open(folder) as store, siltstone.open_collections(store) as collections:
        yield collections


def make_collections(folder: Path, consensus: Consensus) -> None:
    """Make a store whose collections have all that a collection can have.

    Owners and writers are described without the machine on which they ran.
    """
    with patch("siltstone.store.store_assembly.owner_text", lambda _: "pid=1 host=golden"):
        file = siltstone.init(folder, containers=1)
        text = file.read_text(encoding="utf-8")
        file.write_text(f"{text}\ncollections: {{consensus: {consensus}}}\n", encoding="utf-8")
        with opened(folder, consensus) as collections:
            _make_gusts(collections)
            _make_numbers(collections)
            collections.create("gone", NUMBERS, key=["n"]).append([{"n": 1}])
            collections.drop("gone")


def _make_gusts(collections: Collections) -> None:
    gusts = collections.create("squalls", GUSTS, key=["station", "day"], times="count")
    gusts.append(gust_rows(0, 3))  # in the state
    gusts.append(gust_rows(10, 900))  # an object
    gusts.append(gust_rows(3, 1), remove=gust_rows(1, 1))
    gusts.writer("loader").append(gust_rows(4, 1), sequence=7)
    gusts.compact()
    gusts.bookmark("billing", since=2)
    gusts.evolve(WIDER)
    gusts.append(gust_rows(5, 2).append_column("note", [["windy", None]]))
    updates = {"_time": [6, 8], "_diff": [3, -1]}
    both = pyarrow.concat_tables([gust_rows(6, 1), gust_rows(6, 1)])
    for name, values in updates.items():
        both = both.append_column(name, [values])
    gusts.compare_and_append(both, expected_upper=5, new_upper=10)
    collections.rename("squalls", "gusts")


def _make_numbers(collections: Collections) -> None:
    numbers = collections.create("numbers", NUMBERS, key=["n"], times="count", history=3)
    for number in range(150):  # more than two rollups
        numbers.append([{"n": number}])
    numbers.finish()
    collections.settle()


def gust_rows(first: int, count: int) -> pyarrow.Table:
    """Rows of ``GUSTS``, the same ones each time."""
    numbers = range(first, first + count)
    columns: Mapping[str, list[Any]] = {
        "station": [f"station {number:04}" for number in numbers],
        "day": list(numbers),
        "gust": [None if number % 5 == 4 else number / 4 for number in numbers],
        "price": [None if number % 7 == 6 else number for number in numbers],
        "seen": [number * 1_000_000_007 for number in numbers],
        "raw": [bytes([number % 256]) * (number % 3) for number in numbers],
    }
    return pyarrow.table(
        [_column(columns[field.name], field.type) for field in GUSTS], schema=GUSTS
    )


def _column(values: list[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    if pyarrow.types.is_decimal(kind):
        return pyarrow.array(values, pyarrow.int64()).cast(pyarrow.decimal128(21, 2)).cast(kind)
    return pyarrow.array(values, kind)


def content(collections: Collections) -> dict[str, Any]:
    """What all collections show, as JSON has it."""
    return {name: _content(collections.collection(name)) for name in collections.list()}


def _content(collection: Collection) -> dict[str, Any]:
    info = collection.info()
    first = info.since
    last = first + 12 if info.upper is None else info.upper
    return {
        "schema": str(collection.schema),
        "key": list(info.key),
        "since": info.since,
        "upper": info.upper,
        "writers": {
            row.name: [row.sequence, row.upper] for row in info.writers if not row.lease_ms
        },
        "bookmarks": {row.name: row.since for row in info.bookmarks},
        "rows": {str(as_of): _shown(collection, as_of) for as_of in range(first, last)},
    }


def _shown(collection: Collection, as_of: int) -> dict[str, Any]:
    table = collection.snapshot(as_of).to_arrow()
    lines = sorted(json.dumps(list(row.values()), default=str) for row in table.to_pylist())
    return {"count": len(lines), "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest()}
