"""Reads of collections by the classes that Spark calls."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

import siltstone
from siltstone.collections.blocking import Collection
from siltstone.collections.blocking.collections import Collections
from siltstone.core.errors import (
    CollectionNotFoundError,
    CollectionSchemaError,
    LeaseExpiredError,
    NegativeCountError,
    SettingsError,
    SinceError,
    StoreError,
)
from siltstone.spark.data_source import SegmentSource
from tests.support.services.table_places import table_store
from tests.support.spark.collection_fixtures import collections, folder, gusts
from tests.support.spark.collection_world import (
    GUSTS,
    NAME,
    multiset,
    read_by_hand,
    some_gusts,
)
from tests.support.spark.sink_world import sent

__all__ = ["collections", "folder", "gusts"]


def test_a_read_at_each_time_shows_the_rows_of_a_snapshot(folder: Path, gusts: Collection) -> None:
    assert read_by_hand(folder).num_rows == 0
    gusts.append(some_gusts(1_000))
    gusts.append(some_gusts(3), remove=some_gusts(5, 400))
    gusts.append(some_gusts(2, 2_000))
    for time in range(3):
        wanted = gusts.snapshot(time).to_arrow()
        assert multiset(read_by_hand(folder, asOf=time)) == multiset(wanted)
    assert multiset(read_by_hand(folder)) == multiset(gusts.snapshot().to_arrow())
    gusts.finish()
    assert multiset(read_by_hand(folder)) == multiset(gusts.snapshot().to_arrow())
    assert read_by_hand(folder, asOf=17).num_rows == 1_000


def test_columns_and_counts_are_shown_as_a_snapshot_shows_them(
    folder: Path, gusts: Collection
) -> None:
    gusts.append([{"station": "oslo", "gust": 1.5}] * 3)
    gusts.append([], remove=[{"station": "oslo", "gust": 1.5}, {"station": "røst", "gust": None}])
    found = read_by_hand(folder, columns="gust, station", diffs="true")
    assert found.column_names == ["gust", "station", "_diff"]
    assert multiset(found) == multiset([(1.5, "oslo", 2), (None, "røst", -1)])
    assert read_by_hand(folder, columns="gust", asOf=0)["gust"].to_pylist() == [1.5] * 3
    with pytest.raises(NegativeCountError):
        read_by_hand(folder)


def test_rows_from_before_a_column_was_added_have_nulls(folder: Path, gusts: Collection) -> None:
    gusts.append(some_gusts(400))
    before = SegmentSource({"store": str(folder), "collection": NAME}).schema()
    gusts.evolve(pyarrow.schema([*GUSTS, ("at", pyarrow.timestamp("ms", "UTC"))]))
    gusts.append([{"station": "oslo", "gust": 1.5}])
    found = read_by_hand(folder)
    assert found.schema.field("at").type == pyarrow.timestamp("us", "UTC")
    assert found["at"].null_count == 401
    assert read_by_hand(folder, before).column_names == ["station", "gust"]


def test_a_schema_of_the_user_chooses_columns_and_no_other_is_taken(
    folder: Path, gusts: Collection
) -> None:
    gusts.append([{"station": "oslo", "gust": 1.5}])
    gust, diff = StructField("gust", DoubleType()), StructField("_diff", LongType(), nullable=False)
    assert read_by_hand(folder, StructType([gust])).to_pylist() == [{"gust": 1.5}]
    found = read_by_hand(folder, StructType([diff, gust]), diffs="true")
    assert found.to_pylist() == [{"_diff": 1, "gust": 1.5}]
    for fields, options in [
        ([StructField("gust", StringType())], {}),
        ([StructField("gust", DoubleType(), nullable=False)], {}),
        ([StructField("speed", DoubleType())], {}),
        ([gust, diff], {}),
        ([gust], {"diffs": "true"}),
        ([gust, gust], {}),
        ([], {}),
        ([gust], {"columns": "station"}),
    ]:
        with pytest.raises(SettingsError, match=f"collection '{NAME}' shows columns of"):
            read_by_hand(folder, StructType(fields), **options)


def test_what_cannot_be_read_is_named(
    folder: Path, collections: Collections, gusts: Collection
) -> None:
    gusts.append([{"station": "oslo", "gust": 1.5}])
    gusts.append([{"station": "oslo", "gust": 2.5}])
    gusts.advance_since(1)
    with pytest.raises(SinceError, match="as_of=0 since=1"):
        read_by_hand(folder, asOf=0)
    with pytest.raises(SettingsError, match=r"'asOf' is 2, and .* the upper of .* is 2"):
        read_by_hand(folder, asOf=2)
    with pytest.raises(CollectionSchemaError, match=r"no such column.*column='speed'"):
        read_by_hand(folder, columns="speed")
    with pytest.raises(CollectionNotFoundError, match="collection=storms"):
        read_by_hand(folder, collection="storms")
    collections.drop(NAME)
    with pytest.raises(CollectionNotFoundError, match=f"collection={NAME}"):
        read_by_hand(folder)


def test_columns_that_spark_lacks_are_left_out_by_name(
    folder: Path, collections: Collections
) -> None:
    schema = pyarrow.schema([("k", pyarrow.int32()), ("at", pyarrow.time64("us"))])
    collections.create("times", schema, key=["k"]).append([{"k": 1, "at": None}])
    with pytest.raises(CollectionSchemaError, match=r"'columns'.*column='at'"):
        read_by_hand(folder, collection="times")
    found = read_by_hand(folder, collection="times", columns="k")
    assert found.to_pylist() == [{"k": 1}]


def test_a_split_whose_rows_were_collected_says_what_to_do(folder: Path, gusts: Collection) -> None:
    gusts.append(some_gusts(1_000))
    gusts.append(some_gusts(1_000))
    source = SegmentSource({"store": str(folder), "collection": NAME})
    reader = source.reader(schema=source.schema())
    tasks = sent(list(reader.partitions()))
    gusts.compact()
    gusts.collect()
    with pytest.raises(LeaseExpiredError, match=r"run it again, and raise garbage.delay"):
        list(chain.from_iterable(sent(reader).read(task) for task in tasks))


def test_a_task_reads_no_other_store(folder: Path, gusts: Collection, tmp_path: Path) -> None:
    gusts.append(some_gusts(1_000))
    source = SegmentSource({"store": str(folder), "collection": NAME})
    reader = source.reader(schema=source.schema())
    (task,) = reader.partitions()
    task.value = replace(task.value, store_id=bytes(16))
    with pytest.raises(StoreError, match="another store"):
        list(reader.read(task))


def test_a_collection_in_a_table_is_read_next_to_the_owner_of_the_store(tmp_path: Path) -> None:
    place = table_store(tmp_path).parent
    with siltstone.open(place) as store, siltstone.open_collections(store) as collections:
        gusts = collections.create(NAME, GUSTS, key=["station"], times="count")
        gusts.append(some_gusts(1_000))
        gusts.append(some_gusts(3), remove=some_gusts(5, 400))
        for time in range(2):
            wanted = gusts.snapshot(time).to_arrow()
            assert multiset(read_by_hand(place, asOf=time)) == multiset(wanted)
        with pytest.raises(SettingsError, match="'asOf' is 2"):
            read_by_hand(place, asOf=2)


def test_an_empty_plan_is_read_as_no_rows(folder: Path, gusts: Collection) -> None:
    source = SegmentSource({"store": str(folder), "collection": NAME})
    reader = source.reader(schema=source.schema())
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_a_read_of_segments_loads_nothing_of_collections(tmp_path: Path) -> None:
    with closing(siltstone.open(siltstone.init(tmp_path, containers=1))) as store:
        store.create("s").append(b"a\n")
    code = f"""
import sys
from siltstone.spark.data_source import SegmentSource
source = SegmentSource({{"store": {str(tmp_path)!r}, "segment": "s"}})
reader = source.reader(schema=source.schema())
for task in reader.partitions():
    for batch in reader.read(task):
        print(batch["value"].to_pylist())
print([name for name in sys.modules if name.startswith("siltstone") and "collection" in name])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    allowed = "['siltstone.core.records.collection_"
    lines = done.stdout.splitlines()
    assert lines[0] == "['a']"
    assert lines[1] == "[]" or lines[1].startswith(allowed)
