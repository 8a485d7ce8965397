"""What ends a job or a query on collections says why, and leaves no row twice and no part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from siltstone.collections.blocking import Collection, Collections
from siltstone.spark.collection_options import (
    parse_collection_options,
    parse_collection_stream_options,
    parse_collection_write_options,
)
from siltstone.spark.collection_reader import CollectionSourceReader
from siltstone.spark.collection_stream import CollectionStreamReader
from siltstone.spark.collection_writer import CollectionSinkWriter, UploadedRows
from siltstone.spark.data_source import SegmentSource
from tests.support.collections.stored_objects import paths
from tests.support.spark.collection_world import GUSTS, multiset, some_gusts

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(300)]


class FarReader(CollectionSourceReader):
    """Its tasks find no store where the driver has it."""

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        self._options = replace(self._options, store=f"{self._options.store}/far")
        yield from super().read(partition)


class FarStreamReader(CollectionStreamReader):
    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        self._options = replace(self._options, store=f"{self._options.store}/far")
        yield from super().read(partition)


class FarWriter(CollectionSinkWriter):
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> UploadedRows:
        self._options = replace(self._options, store=f"{self._options.store}/far")
        return super().write(iterator)


class FarSource(SegmentSource):
    @classmethod
    def name(cls) -> str:
        return "far-collection"

    def reader(self, schema: StructType) -> DataSourceReader:
        return FarReader(parse_collection_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return FarStreamReader(parse_collection_stream_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = parse_collection_write_options(self.options, overwrite=overwrite)
        return FarWriter(options, schema)


class Jobs:
    """Jobs and queries of one session on the collections of one store."""

    def __init__(self, spark: SparkSession, place: Path, checkpoint: Path) -> None:
        spark.dataSource.register(FarSource)
        self.spark = spark
        self.place = place
        self.checkpoint = checkpoint

    def read(self, name: str, source: str = "siltstone", **options: object) -> DataFrame:
        reader = self.spark.read.format(source).option("store", str(self.place))
        for key, value in {"collection": name, **options}.items():
            reader = reader.option(key, str(value))
        return reader.load()

    def frame(self, count: int) -> DataFrame:
        """The rows of ``some_gusts``, in three partitions."""
        return self.spark.range(0, count, 1, 3).selectExpr(
            "cast(id AS DOUBLE) / 7 AS gust", "'s' || lpad(id, 6, '0') AS station"
        )

    def save(self, frame: DataFrame, name: str, source: str = "siltstone") -> None:
        writer = frame.write.format(source).mode("append").option("store", str(self.place))
        writer.option("collection", name).save()

    def follow(self, name: str, source: str = "siltstone", **options: object) -> DataFrame:
        reader = self.spark.readStream.format(source).option("store", str(self.place))
        for key, value in {"collection": name, "bookmark": "query", **options}.items():
            reader = reader.option(key, str(value))
        return reader.load()

    def start(self, frame: DataFrame, into: str | None = None) -> StreamingQuery:
        """Run a query over all there is, with the checkpoint of this test."""
        writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint))
        if into is None:
            writer = writer.format("parquet").option("path", str(self.checkpoint / "rows"))
        else:
            writer = writer.format("siltstone").option("store", str(self.place))
            writer = writer.option("collection", into)
        return writer.trigger(availableNow=True).start()


@pytest.fixture
def jobs(spark: SparkSession, place: Path, tmp_path: Path) -> Jobs:
    return Jobs(spark, place, tmp_path)


def parts_of(jobs: Jobs, collection: Collection) -> int:
    return len(paths(jobs.place, "parts", collection.info().id))


def test_tasks_that_cannot_reach_the_storage_say_so_and_append_nothing(
    jobs: Jobs, gusts: Collection
) -> None:
    gusts.append(some_gusts(3))
    with pytest.raises(PySparkException, match=r"StoreNotFoundError.*far"):
        jobs.read(gusts.name, source="far-collection").collect()
    with pytest.raises(PySparkException, match=r"StoreNotFoundError.*far"):
        jobs.save(jobs.frame(9), gusts.name, source="far-collection")
    follow = jobs.follow(gusts.name, source="far-collection", startingTime=0)
    with pytest.raises(PySparkException, match=r"StoreNotFoundError.*far"):
        jobs.start(follow).awaitTermination()
    assert gusts.info().upper == 1
    assert [row.since for row in gusts.info().bookmarks] == [0], "the batch is given again"
    jobs.start(jobs.follow(gusts.name)).awaitTermination()
    written = jobs.spark.read.parquet(str(jobs.checkpoint / "rows"))
    assert multiset(written.select("station", "gust").toArrow()) == multiset(some_gusts(3))


def test_a_job_of_which_a_task_fails_each_time_appends_nothing_and_leaves_nothing(
    jobs: Jobs, gusts: Collection
) -> None:
    fails = "assert_true(station < 's000250', 'too far') IS NULL"
    with pytest.raises(PySparkException, match="too far"):
        jobs.save(jobs.frame(300).where(fails), gusts.name)
    assert gusts.info().upper == 0
    jobs.save(jobs.frame(300), gusts.name)  # Attempts of the other one end meanwhile.
    gusts.sweep()
    assert parts_of(jobs, gusts) == gusts.info().parts == 3
    assert multiset(gusts.snapshot().to_arrow()) == multiset(some_gusts(300))


def test_a_time_that_is_gone_is_told(jobs: Jobs, gusts: Collection) -> None:
    for number in range(3):
        gusts.append(some_gusts(1, number))
    jobs.start(jobs.follow(gusts.name, startingTime=0)).awaitTermination()
    gusts.append(some_gusts(1, 3))
    gusts.bookmark("query").remove()
    gusts.append(some_gusts(1, 4))
    gusts.advance_since(4)
    with pytest.raises(PySparkException, match=r"SinceError.*as_of=3 since=4"):
        jobs.read(gusts.name, asOf=3).collect()
    with pytest.raises(PySparkException, match=r"(?s)SinceError.*startingTime=snapshot"):
        jobs.start(jobs.follow(gusts.name)).awaitTermination()


def test_a_checkpoint_of_another_collection_is_refused(
    jobs: Jobs, collections: Collections, gusts: Collection
) -> None:
    gusts.append(some_gusts(2))
    other = collections.create("another", GUSTS, key=["station"], times="count")
    other.append(some_gusts(5))
    jobs.start(jobs.follow(gusts.name)).awaitTermination()
    with pytest.raises(PySparkException, match="checkpoint is one of another"):
        jobs.start(jobs.follow("another")).awaitTermination()
    assert other.info().bookmarks == ()
    written = jobs.spark.read.parquet(str(jobs.checkpoint / "rows"))
    assert written.count() == 2


def test_a_target_that_was_dropped_ends_a_query(
    jobs: Jobs, collections: Collections, gusts: Collection
) -> None:
    collections.create("target", GUSTS, key=["station"], times="count")

    def copy() -> None:
        frame = jobs.follow(gusts.name).select("station", "gust")
        jobs.start(frame, into="target").awaitTermination()

    gusts.append(some_gusts(2))
    copy()
    collections.drop("target")
    gusts.append(some_gusts(2, 2))
    with pytest.raises(PySparkException, match=r"CollectionNotFoundError.*collection=target"):
        copy()
    made = collections.create("target", GUSTS, key=["station"], times="count")
    copy()
    assert multiset(made.snapshot().to_arrow()) == multiset(some_gusts(2, 2))
