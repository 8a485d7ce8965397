"""Files of Parquet that tests import, and the rows that come of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from siltstone.collections.blocking import Collections
from siltstone.collections.sources.any_source import table_source

GUSTS = pyarrow.table(
    {
        "station": ["oslo", "bergen", "bodø", "røst", "oslo", "vardø"],
        "gust": [12.5, 21.0, None, float("nan"), 12.5, -0.0],
        "year": [2024, 2024, 2025, 2025, 2024, 2026],
    }
)


def rows_of(table: pyarrow.Table) -> Counter[str]:
    """The rows as a multiset, in which NaN equals NaN and -0.0 differs from 0.0."""
    names = sorted(table.column_names)
    return Counter(repr([row[name] for name in names]) for row in table.to_pylist())


def write(folder: Path, name: str, table: pyarrow.Table, **options: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path, **options)
    return path


def brought(collections: Collections, source: Path, *key: str, **options: Any) -> pyarrow.Table:
    """All rows of a new collection, into which a source was imported."""
    found = table_source(source, **options)
    made = collections.create("gusts", found.schema, key=key or ["station"], times="count")
    told = made.import_rows(found)
    assert told.rows == made.info().rows
    return made.snapshot().to_arrow()
