"""Writes through Spark itself: data frames and streams, attempts that die, ends that come twice."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import siltstone
from siltstone import events
from siltstone.spark.data_source import SegmentSource
from siltstone.spark.sink import SegmentSinkWriter, SegmentStreamWriter
from siltstone.spark.task_writer import TaskOutput
from siltstone.spark.write_options import parse_write_options
from tests.spark.own_streams import OwnStreamSource
from tests.support.spark.sink_world import Sink, new_sink

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with new_sink(tmp_path / "target") as made:
        yield made


def frame(spark: SparkSession, count: int = 300, partitions: int = 3) -> DataFrame:
    return spark.range(0, count, 1, partitions).selectExpr("cast(id AS STRING) AS value")


def save(
    data: DataFrame, sink: Sink, *, how: str = "append", source: str = "siltstone", **options: str
) -> None:
    writer = data.write.format(source).mode(how)
    for name, value in sink.options(**options).items():
        writer = writer.option(name, value)
    writer.save()


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_a_data_frame_is_written_in_the_order_of_its_partitions(
    spark: SparkSession, sink: Sink
) -> None:
    save(frame(spark), sink)
    save(frame(spark, 10, 1), sink)
    assert sink.content() == numbers(300) + numbers(10)
    save(frame(spark, 20, 2), sink, how="overwrite", mode="events")
    with siltstone.open(sink.folder, read_only=True) as store:
        found = [event.payload for event in events.read_events(store.segment("s"))]
    assert found == [number.encode() for number in numbers(20)]
    keyed = frame(spark, 20, 2).selectExpr("value", "cast(value AS INT) % 2 AS odd")
    save(keyed, sink, segment="keys", key="odd")
    assert sink.content("keys/1") == numbers(20)[1::2]


class DyingWriter(SegmentSinkWriter):
    """Its tasks die when their work is done, as often as is said."""

    deaths = 1

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskOutput:
        message = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 1 and context.attemptNumber() < self.deaths:
            raise RuntimeError("died after its work")
        return message


class HopelessWriter(DyingWriter):
    deaths = 99


class DyingSource(SegmentSource):
    kind: type[DyingWriter] = DyingWriter

    @classmethod
    def name(cls) -> str:
        return "dying"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return self.kind(parse_write_options(self.options, overwrite=overwrite), schema)


class HopelessSource(DyingSource):
    kind = HopelessWriter

    @classmethod
    def name(cls) -> str:
        return "hopeless"


def test_an_attempt_that_dies_is_made_again_and_leaves_nothing(
    spark: SparkSession, sink: Sink
) -> None:
    spark.dataSource.register(DyingSource)
    save(frame(spark), sink, source="dying")
    assert sink.content() == numbers(300)
    assert sink.left() == []


def test_a_job_that_fails_publishes_nothing_and_leaves_nothing(
    spark: SparkSession, sink: Sink
) -> None:
    spark.dataSource.register(HopelessSource)
    with pytest.raises(PySparkException, match="died after its work"):
        save(frame(spark), sink, source="hopeless")
    assert sink.content() == []
    assert sink.left() == []


class SparingWriter(SegmentSinkWriter):
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> TaskOutput:
        message = super().write(iterator)
        if not gc.get_freeze_count():
            raise RuntimeError("imports are looked through for garbage")
        return message


class SparingSource(SegmentSource):
    @classmethod
    def name(cls) -> str:
        return "sparing"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return SparingWriter(parse_write_options(self.options, overwrite=overwrite), schema)


def test_workers_look_for_garbage_where_some_may_be(spark: SparkSession, sink: Sink) -> None:
    spark.dataSource.register(SparingSource)
    save(frame(spark), sink, source="sparing")
    assert sink.content() == numbers(300)


class CrashingStreamWriter(SegmentStreamWriter):
    """The driver fails between our end of the second batch and Spark's, once."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        crashed = Path(self._options.store) / "crashed"
        if batchId == 1 and not crashed.exists():
            crashed.touch()
            raise RuntimeError("the driver failed")


class CrashingSource(OwnStreamSource):
    ends = CrashingStreamWriter

    @classmethod
    def name(cls) -> str:
        return "crashing"


def test_a_batch_that_was_published_is_not_published_again(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    spark.dataSource.register(CrashingSource)
    files = tmp_path / "files"
    files.mkdir()
    for number in range(3):
        (files / f"{number}").write_text("".join(f"{number}.{line}\n" for line in range(5)))

    def run() -> None:
        lines = spark.readStream.option("maxFilesPerTrigger", "1").text(str(files))
        writer = lines.writeStream.format("crashing").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        for name, value in sink.options().items():
            writer = writer.option(name, value)
        writer.start().awaitTermination(120)

    with pytest.raises(PySparkException, match="the driver failed"):
        run()
    assert len(sink.content()) == 10, "Spark asked to abort what was published, in vain"
    run()
    assert sorted(sink.content()) == sorted(f"{n}.{line}" for n in range(3) for line in range(5))
    assert sink.left() == []


@pytest.mark.parametrize(
    ("how", "column", "options", "message"),
    [
        ("append", "value", {"store": "nowhere"}, "StoreNotFoundError"),
        ("append", "nullif(value, '7') AS value", {}, "a value is null"),
        ("error", "value", {}, "only append and overwrite|UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_published(
    spark: SparkSession,
    sink: Sink,
    how: str,
    column: str,
    options: dict[str, str],
    message: str,
) -> None:
    with pytest.raises(PySparkException, match=message):
        save(frame(spark, 10, 1).selectExpr(column), sink, how=how, **options)
    assert sink.content() == []
    assert sink.left() == []


def test_a_live_owner_is_named_and_no_task_runs(spark: SparkSession, sink: Sink) -> None:
    never = frame(spark, 10, 1).selectExpr("raise_error('a task ran') AS value")
    with siltstone.open(sink.folder) as store:
        with pytest.raises(PySparkException, match="StoreInUseError: the log is in use owner=pid="):
            save(never.selectExpr("cast(value AS STRING) AS value"), sink)
        assert [*store.list()] == []
