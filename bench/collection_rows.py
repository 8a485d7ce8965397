"""The rows that collections and their peers are given."""

from __future__ import annotations

import os
from typing import Final

import pyarrow as pa

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
