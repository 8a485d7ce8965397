"""The rows that collections and their peers are given."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from bench.workshop import Stopwatch

Append = Callable[[pa.Table], object]

NAME: Final = "rows"
"""Of the collection."""

SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        pa.field("station", pa.string()),
        pa.field("gust", pa.float64()),
        pa.field("seen", pa.bool_()),
    ]
)


def rows(total: int, start: int | None = None) -> pa.Table:
    """Rows of four columns; keys in random order, or ascending from ``start`` on."""
    if start is None:
        keys = pa.array([int.from_bytes(os.urandom(6), "little") for _ in range(total)])
    else:
        keys = pa.array(range(start, start + total))
    return pa.table(
        {
            "key": keys,
            "station": pa.array([f"station {number % 97}" for number in range(total)]),
            "gust": pa.array([number / 7 for number in range(total)]),
            "seen": pa.array([number % 2 == 0 for number in range(total)]),
        },
        schema=SCHEMA,
    )


def append_ms(append: Append, count: int, total: int, cpu_ms: list[float]) -> float:
    """Milliseconds of one of ``total`` appends of ``count`` rows.

    ``cpu_ms`` gets those of the processor.
    """
    tables = [rows(count) for _ in range(total)]
    with Stopwatch() as watch:
        for table in tables:
            append(table)
    cpu_ms.append(watch.cpu_s / total * 1e3)
    return watch.seconds / total * 1e3
