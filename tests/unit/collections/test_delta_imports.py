"""Tables of Delta come as they are at one version: without what was deleted or replaced."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from pathlib import Path

import deltalake
import pyarrow
import pytest
from pyarrow import parquet

from siltstone.collections.blocking import Collections
from siltstone.collections.sources.any_source import table_source
from siltstone.core.errors import CollectionSourceError
from tests.support.collections.delta_tables import (
    commit,
    committed,
    protocol,
    renamed_by_mapping,
    without_rows,
    written_again,
)
from tests.support.collections.import_rows import GUSTS, brought, rows_of
from tests.support.collections.store_fixtures import collections, folder

__all__ = ["collections", "folder"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of one commit."""
    path = tmp_path / "delta"
    deltalake.write_deltalake(path, GUSTS)
    return path


def test_each_version_comes_without_what_was_deleted(collections: Collections, table: Path) -> None:
    deltalake.write_deltalake(table, GUSTS.slice(0, 2), mode="append")
    deltalake.DeltaTable(table).delete("station = 'oslo'")
    deltalake.write_deltalake(table, GUSTS.slice(4, 1), mode="append")
    deltalake.DeltaTable(table).optimize.compact()
    deltalake.write_deltalake(table, GUSTS.slice(5), mode="overwrite")
    versions = [
        GUSTS,
        pyarrow.concat_tables([GUSTS, GUSTS.slice(0, 2)]),
        GUSTS.take([1, 2, 3, 5, 1]),
        GUSTS.take([1, 2, 3, 5, 1, 4]),
        GUSTS.take([1, 2, 3, 5, 1, 4]),
        GUSTS.slice(5),
    ]
    for version, expected in enumerate(versions):
        found = table_source(table, version=version)
        made = collections.create(f"v{version}", found.schema, key=["station"])
        made.import_rows(found)
        assert rows_of(made.snapshot().to_arrow()) == rows_of(expected), version
    assert rows_of(brought(collections, table)) == rows_of(versions[-1])


def test_partitions_come_with_their_types(collections: Collections, tmp_path: Path) -> None:
    days = pyarrow.array([date(2024, 2, 29), None, date(1999, 1, 1)] * 2)
    places = pyarrow.array(["a b", "5", None, "x/y=z", "%20", "æ"])
    expected = GUSTS.append_column("day", days).append_column("place", places)
    deltalake.write_deltalake(tmp_path / "parts", expected, partition_by=["year", "day", "place"])
    oracle = pyarrow.table(deltalake.DeltaTable(tmp_path / "parts").scan().read_all())
    found = brought(collections, tmp_path / "parts")
    assert found.schema.field("day").type == pyarrow.date32()
    assert rows_of(found) == rows_of(oracle)


def test_a_deletion_vector_takes_its_rows_out(collections: Collections, table: Path) -> None:
    (added,) = (action["add"] for action in committed(table) if "add" in action)
    commit(table, [protocol("deletionVectors"), *without_rows(added, [0, 3])])
    found = brought(collections, table)
    assert rows_of(found) == rows_of(GUSTS.take([1, 2, 4, 5]))


def test_columns_that_were_renamed_by_mapping_keep_their_values(
    collections: Collections, table: Path
) -> None:
    renamed_by_mapping(table, "gust", "speed")
    expected = GUSTS.rename_columns(["station", "speed", "year"])
    assert rows_of(brought(collections, table)) == rows_of(expected)


def test_columns_that_came_later_are_null_in_older_files(
    collections: Collections, table: Path
) -> None:
    more = GUSTS.append_column("note", [["new"] * len(GUSTS)])
    deltalake.write_deltalake(table, more, mode="append", schema_mode="merge")
    found = brought(collections, table)
    assert found["note"].null_count == len(GUSTS)
    assert len(found) == 2 * len(GUSTS)


def test_old_timestamps_as_spark_writes_them_are_instants(
    collections: Collections, tmp_path: Path
) -> None:
    seen = [datetime(9999, 12, 31, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC)]
    times = pyarrow.array(seen, pyarrow.timestamp("us", "UTC"))
    expected = pyarrow.table({"key": ["a", "b"], "seen": times})
    deltalake.write_deltalake(tmp_path / "old", expected)
    (file,) = (tmp_path / "old").glob("*.parquet")
    parquet.write_table(expected, file, use_deprecated_int96_timestamps=True)
    written_again(tmp_path / "old")
    found = brought(collections, tmp_path / "old", "key")
    assert rows_of(found) == rows_of(expected)


@pytest.mark.parametrize("feature", ["someNewFeature", "typeWidening"])
def test_a_feature_that_nothing_here_knows_is_named(
    collections: Collections, table: Path, feature: str
) -> None:
    commit(table, [protocol(feature)])
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    with pytest.raises(CollectionSourceError, match=f"(?i)cannot be read.*{feature}"):
        made.import_rows(table_source(table))
    assert made.info().batches == 0


def test_a_table_that_moved_is_still_the_same(collections: Collections, table: Path) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    made.import_rows(table_source(table))
    moved = table.rename(table.parent / "moved")
    assert made.import_rows(table_source(moved)).repeated
    deltalake.write_deltalake(moved, GUSTS, mode="append")
    with pytest.raises(CollectionSourceError, match="rows would come twice"):
        made.import_rows(table_source(moved))
    assert made.import_rows(table_source(moved, version=0)).repeated
    assert made.info().rows == len(GUSTS)


def test_a_file_that_a_vacuum_took_is_named(collections: Collections, table: Path) -> None:
    made = collections.create("gusts", GUSTS.schema, key=["station"])
    source = table_source(table)
    (file,) = table.glob("*.parquet")
    file.unlink()
    with pytest.raises(CollectionSourceError, match=f"is gone.*{file.name}"):
        made.import_rows(source)
    assert made.info().batches == 0


@pytest.mark.parametrize("version", [None, 7])
def test_a_table_or_version_that_is_not_there_is_refused(
    table: Path, tmp_path: Path, version: int | None
) -> None:
    where = tmp_path / "gone" if version is None else table
    with pytest.raises(CollectionSourceError, match=where.name):
        table_source(where, format="delta", version=version)
    assert not (tmp_path / "gone").exists()


def test_a_lack_of_the_package_says_what_to_install(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "deltalake"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(CollectionSourceError, match=r"pip install .*deltalake"):
        table_source(table)


def test_a_version_that_is_not_there_names_those_that_are(table: Path) -> None:
    newest = deltalake.DeltaTable(table).version()
    with pytest.raises(CollectionSourceError, match=f"version=99 versions=0 to {newest}$"):
        table_source(table, version=99)
