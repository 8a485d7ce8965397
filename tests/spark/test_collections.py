"""Collections through Spark itself: what is read at each time, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import siltstone
from siltstone.collections.blocking import Collection, Collections, open_collections
from siltstone.collections.place import CollectionSettings
from siltstone.spark.collection_types import from_spark
from tests.support.spark.collection_world import (
    EACH_TYPE,
    GUSTS,
    each_value,
    multiset,
    some_gusts,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SETTINGS = CollectionSettings(garbage_delay_ms=0, compacts=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that nobody owns."""
    path = tmp_path_factory.mktemp("collections")
    siltstone.init(path, containers=1)
    return path


@pytest.fixture(scope="module")
def collections(place: Path) -> Iterator[Collections]:
    with open_collections(place, settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
def gusts(collections: Collections, request: pytest.FixtureRequest) -> Collection:
    """A collection of the test's own."""
    name = str(request.node.name)
    return collections.create(name, GUSTS, key=["station"], times="count")


def read(spark: SparkSession, place: Path, name: str, /, **options: object) -> DataFrame:
    reader = spark.read.format("siltstone")
    for key, value in {"store": place, "collection": name, **options}.items():
        reader = reader.option(key, str(value))
    return reader.load()


def changed(gusts: Collection) -> None:
    """Three appends: uploaded rows, rows that come and go, and a column that was added."""
    gusts.append(some_gusts(2_000))
    gusts.append(some_gusts(3), remove=some_gusts(500, 700))
    gusts.evolve(pyarrow.schema([*GUSTS, ("note", pyarrow.string())]))
    gusts.append([{"station": "røst", "gust": float("nan"), "note": "a\0b"}] * 2)


def test_reads_at_each_time_equal_snapshots(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    empty = read(spark, place, gusts.name)
    assert empty.collect() == []
    changed(gusts)
    for time in range(3):
        wanted = multiset(gusts.snapshot(time).to_arrow())
        assert multiset(read(spark, place, gusts.name, asOf=time).collect()) == wanted
    counted = read(spark, place, gusts.name, diffs="true", columns="note,station", asOf=2)
    wanted = multiset(gusts.snapshot(2, columns=["note", "station"], diffs=True).to_arrow())
    assert counted.columns == ["note", "station", "_diff"]
    assert multiset(counted.collect()) == wanted
    newest = read(spark, place, gusts.name)
    assert newest.where("gust < 1").count() == 7 + 3
    gusts.append(some_gusts(1))
    assert newest.where("gust < 1").count() == 7 + 3, "a frame shows one time"
    assert read(spark, place, gusts.name).where("gust < 1").count() == 7 + 4


def test_values_of_each_type_come_as_they_are(
    spark: SparkSession, place: Path, collections: Collections
) -> None:
    made = collections.create("each-type", EACH_TYPE, key=["k"])
    made.append(each_value())
    frame = read(spark, place, "each-type")
    back = [from_spark(batch, made.schema) for batch in frame.toArrow().to_batches()]
    assert multiset(pyarrow.concat_tables(back)) == multiset(each_value().select(made.schema.names))


def test_a_view_in_sql_shows_a_collection(
    spark: SparkSession, place: Path, gusts: Collection
) -> None:
    gusts.append(some_gusts(10))
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW gusts USING siltstone "
        f"OPTIONS (store '{place}', collection '{gusts.name}')"
    )
    assert spark.sql("SELECT max(station) AS last FROM gusts").collect()[0].last == "s000009"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"collection": "nowhere"}, "CollectionNotFoundError: no such collection"),
        ({"asOf": 1}, "SettingsError: option 'asOf' is 1, and that time is not complete yet"),
        ({"columns": "speed"}, "CollectionSchemaError: the collection has no such column"),
        ({"segment": "s"}, "SettingsError: options 'collection' and 'segment' exclude each other"),
        ({"fetch": "s"}, "SettingsError: unknown option: 'fetch'"),
    ],
)
def test_what_is_wrong_is_named(
    spark: SparkSession, place: Path, gusts: Collection, options: dict[str, object], message: str
) -> None:
    gusts.append(some_gusts(1))
    with pytest.raises(PySparkException, match=message):
        read(spark, place, gusts.name, **options).collect()
