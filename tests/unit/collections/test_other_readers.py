"""The objects of a collection are plain Parquet for programs that know nothing of collections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest

import siltstone
from siltstone.collections.blocking import Collection, open_collections
from siltstone.collections.rows.snapshot import SnapshotSplit
from tests.support.collections.collections_world import NAME, SCHEMA, many_rows

Reader = Callable[[list[str]], pyarrow.Table]


def by_pyarrow(paths: list[str]) -> pyarrow.Table:
    return pyarrow.concat_tables([pyarrow.parquet.read_table(path) for path in paths])


def by_dataset(paths: list[str]) -> pyarrow.Table:
    return pyarrow.dataset.dataset(paths, format="parquet").to_table()


def by_pandas(paths: list[str]) -> pyarrow.Table:
    return pyarrow.Table.from_pandas(pandas.concat(map(pandas.read_parquet, paths)))


def by_duckdb(paths: list[str]) -> pyarrow.Table:
    duckdb: Any = pytest.importorskip(
        "duckdb", reason="DUCKDB IS NOT TRIED; install it by: make peers"
    )
    return duckdb.sql("select * from read_parquet($1)", params=[paths]).to_arrow_table()


def by_polars(paths: list[str]) -> pyarrow.Table:
    polars: Any = pytest.importorskip(
        "polars", reason="POLARS IS NOT TRIED; install it by: make peers"
    )
    return polars.read_parquet(paths).to_arrow()


READERS = [by_pyarrow, by_dataset, by_pandas, by_duckdb, by_polars]


def objects_of(folder: Path, gusts: Collection) -> list[str]:
    """The files that the newest rows are in."""
    shares = [split.share for split in gusts.snapshot().splits()]
    pieces = [
        piece.name
        for share in shares
        if isinstance(share, SnapshotSplit)
        for run in share.runs
        for piece in run
    ]
    assert all(pieces), "no row is in the state"
    return sorted({str(folder / "store" / "chunks" / name) for name in pieces})


@pytest.mark.parametrize("read", READERS)
def test_objects_of_appends_are_the_rows(read: Reader, tmp_path: Path) -> None:
    file = siltstone.init(tmp_path / "store", containers=1)
    with open_collections(file) as collections:
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        for first in (0, 700, 1_400):
            gusts.append(many_rows(700, first))
        found = read(objects_of(tmp_path, gusts)).select(["k", "v"])
        assert sorted(found.to_pylist(), key=str) == sorted(
            gusts.snapshot().to_arrow().to_pylist(), key=str
        )


@pytest.mark.parametrize("read", READERS)
def test_sums_of_diffs_by_row_are_the_rows_where_some_were_taken_away(
    read: Reader, tmp_path: Path
) -> None:
    file = siltstone.init(tmp_path / "store", containers=1)
    with open_collections(file) as collections:
        gusts = collections.create(NAME, SCHEMA, key=["k"], times="count")
        gusts.append(many_rows(1_000))
        gusts.append(many_rows(600, 1_000), remove=many_rows(300, 100))
        gusts.compact()
        updates = read(objects_of(tmp_path, gusts))
        assert {"_time", "_diff"} <= set(updates.column_names)
        sums: Counter[tuple[str, int]] = Counter()
        for row in updates.to_pylist():
            sums[row["k"], row["v"]] += row["_diff"]
        shown = gusts.snapshot().to_arrow().to_pylist()
        assert sorted(row for row, count in sums.items() for _ in range(count)) == sorted(
            (row["k"], row["v"]) for row in shown
        )
