"""Streams of collections through Spark itself: each change once, each batch appended once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pyarrow
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from siltstone.collections.blocking import Collection, Collections
from siltstone.spark.collection_options import parse_collection_sink_options
from siltstone.spark.collection_stream_writer import CollectionStreamWriter, StreamedRows
from siltstone.spark.data_source import SegmentSource
from tests.support.spark.collection_stream import rows_of, sums
from tests.support.spark.collection_world import GUSTS, multiset, some_gusts

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Follow = Callable[..., DataFrame]


@pytest.fixture
def follow(spark: SparkSession, place: Path, gusts: Collection) -> Follow:
    """Stream the test's collection with some options."""

    def loaded(**options: object) -> DataFrame:
        reader = spark.readStream.format("siltstone")
        given = {"store": place, "collection": gusts.name, "bookmark": "query", **options}
        for name, value in given.items():
            reader = reader.option(name, str(value))
        return reader.load()

    return loaded


def run(frame: DataFrame, place: Path, *, all_there_is: bool = True) -> StreamingQuery:
    """Write a stream to files with a checkpoint, until everything that is there was read."""
    writer = frame.writeStream.format("parquet").option("path", str(place / "rows"))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    if not all_there_is:
        return writer.start()
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def written(spark: SparkSession, place: Path) -> pyarrow.Table:
    columns = ["station", "gust", "_time", "_diff"]
    return spark.read.parquet(str(place / "rows")).select(*columns).toArrow()


def rows_now(gusts: Collection) -> object:
    return sums(gusts.snapshot(diffs=True).to_arrow())


def test_changes_come_once_through_limits_merges_and_restarts(
    spark: SparkSession, follow: Follow, gusts: Collection, tmp_path: Path
) -> None:
    gusts.append(some_gusts(700))
    gusts.append([], remove=some_gusts(20))
    for turn in range(2):
        for number in range(4):
            gusts.append(some_gusts(40, 1_000 * turn + 100 * number), remove=some_gusts(1, 300))
        query = run(follow(maxRowsPerTrigger=50), tmp_path)
        assert rows_of(written(spark, tmp_path)) == rows_now(gusts)
        assert len(query.recentProgress) >= (1, 3)[turn], "the rows at the start come at once"
        assert max(one.numInputRows for one in query.recentProgress[:4]) <= (900, 50)[turn]
        gusts.compact()
        gusts.collect()
    run(follow(), tmp_path)
    assert rows_of(written(spark, tmp_path)) == rows_now(gusts)
    assert len(gusts.info().readers) <= 1, "all starts of a query are one reader"


def test_a_batch_whose_sink_failed_is_given_again(
    follow: Follow, gusts: Collection, tmp_path: Path
) -> None:
    for number in range(6):
        gusts.append(some_gusts(10, 10 * number))
    taken: dict[int, object] = {}
    failing = [True]

    def take(frame: DataFrame, batch: int) -> None:
        rows = sums(frame.toArrow())
        assert taken.setdefault(batch, rows) == rows, "the same rows when it is given again"
        if batch == 1 and failing:
            failing.clear()
            raise RuntimeError("the sink is gone")

    def start() -> StreamingQuery:
        frame = follow(startingTime=0, maxRowsPerTrigger=20)
        writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path)).start()

    with pytest.raises(PySparkException, match="the sink is gone"):
        start().awaitTermination()
    gusts.compact()
    gusts.collect()
    gusts.append(some_gusts(1, 500))
    start().awaitTermination()
    assert sorted(taken) == [0, 1, 2, 3]
    both = [some_gusts(60), some_gusts(1, 500)]
    found = [
        row[:2] for rows in taken.values() for row in cast("dict[tuple[object, ...], int]", rows)
    ]
    assert len(found) == len(set(found)) == 61
    assert set(found) == set(multiset(pyarrow.concat_tables(both)))


def test_a_running_query_finds_what_comes_and_says_what_ends_it(
    spark: SparkSession,
    collections: Collections,
    follow: Follow,
    gusts: Collection,
    tmp_path: Path,
) -> None:
    gusts.append(some_gusts(3))
    query = run(follow(startingTime="latest"), tmp_path, all_there_is=False)
    query.processAllAvailable()
    gusts.append(some_gusts(5, 100))
    query.processAllAvailable()
    gusts.append([], remove=some_gusts(2, 100))
    query.processAllAvailable()
    assert rows_of(written(spark, tmp_path)) == sums(
        some_gusts(3, 102).append_column("_diff", [[1] * 3])
    )
    other = follow(startingTime="latest").writeStream.format("noop").start()
    try:
        with pytest.raises(PySparkException, match="needs a bookmark of its own"):
            query.awaitTermination(60)
        gusts.evolve(pyarrow.schema([*GUSTS, ("note", pyarrow.string())]))
        with pytest.raises(PySparkException, match="restart the query"):
            other.awaitTermination(60)
    finally:
        other.stop()
    query = run(follow(), tmp_path, all_there_is=False)
    query.processAllAvailable()
    collections.drop(gusts.name)
    with pytest.raises(PySparkException, match="CollectionDroppedError"):
        query.awaitTermination(60)


class CrashingWriter(CollectionStreamWriter):
    """One attempt dies after its work, and once the driver, after the append of a batch."""

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> StreamedRows:
        message = super().write(iterator)
        died = Path(self._options.store) / "died"
        if not died.exists():
            died.touch()
            raise RuntimeError("died after its work")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        crashed = Path(self._options.store) / f"crashed-{batchId}"
        if batchId == 1 and not crashed.exists():
            crashed.touch()
            raise RuntimeError("died after the append")


class CrashingSource(SegmentSource):
    @classmethod
    def name(cls) -> str:
        return "crashing-collection"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        options = parse_collection_sink_options(self.options, overwrite=overwrite)
        return cast("DataSourceStreamWriter", CrashingWriter(options, schema))


def test_a_stream_into_a_collection_appends_each_batch_once(
    spark: SparkSession,
    place: Path,
    collections: Collections,
    follow: Follow,
    gusts: Collection,
    tmp_path: Path,
) -> None:
    spark.dataSource.register(CrashingSource)
    copy = collections.create("copy", GUSTS, key=["station"], times="count")
    for number in range(3):
        gusts.append(some_gusts(300, 1_000 * number))

    def start() -> None:
        frame = follow(startingTime=0, maxRowsPerTrigger=300).where("_diff > 0")
        frame = frame.select("gust", "station")
        writer = frame.writeStream.format("crashing-collection").trigger(availableNow=True)
        writer = writer.option("store", str(place)).option("collection", "copy")
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()

    with pytest.raises(PySparkException, match="died after the append"):
        start()
    assert copy.info().upper == 2
    start()
    assert multiset(copy.snapshot().to_arrow()) == multiset(gusts.snapshot().to_arrow())
    info = copy.info()
    (writer,) = info.writers
    assert (info.upper, writer.sequence) == (3, 2)
    assert copy.sweep() == 2, "what attempts left that did not count"
    assert copy.sweep() == 0
    assert multiset(copy.snapshot().to_arrow()) == multiset(gusts.snapshot().to_arrow())


@pytest.mark.parametrize(
    ("mode", "columns", "message"),
    [
        ("complete", ["station", "max(gust) AS gust"], "only 'append'"),
        ("update", ["station", "max(gust) AS gust"], "(?i)update"),
    ],
)
def test_output_modes_but_append_are_refused(
    place: Path,
    follow: Follow,
    gusts: Collection,
    tmp_path: Path,
    mode: str,
    columns: list[str],
    message: str,
) -> None:
    gusts.append(some_gusts(3))
    frame = follow().groupBy("station").agg({"gust": "max"}).toDF("station", "gust")
    writer = frame.writeStream.format("siltstone").outputMode(mode).trigger(availableNow=True)
    writer = writer.option("store", str(place)).option("collection", gusts.name)
    with pytest.raises(PySparkException, match=message):
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert gusts.info().upper == 1
