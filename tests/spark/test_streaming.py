"""Streams of segments in Spark: each record once, whatever stops the query in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import siltstone
from siltstone.events import append_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Follow = Callable[..., "DataFrame"]


@pytest.fixture
def follow(spark: SparkSession, folder: Path, segment: siltstone.Segment) -> Follow:
    """Stream the test's segment with some options."""

    def loaded(**options: object) -> DataFrame:
        reader = spark.readStream.format("siltstone").option("store", str(folder))
        for name, value in ({"segment": segment.name} | options).items():
            if value is not None:
                reader = reader.option(name, str(value))
        return reader.load()

    return loaded


def run(frame: DataFrame, place: Path, *, all_there_is: bool = True) -> StreamingQuery:
    """Write a stream to files with a checkpoint, until everything that is there was read."""
    writer = frame.writeStream.format("parquet").option("path", str(place / "rows"))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start() if all_there_is else writer.start()
    if all_there_is:
        query.awaitTermination()
    return query


def rows_in(spark: SparkSession, place: Path) -> list[str]:
    found = spark.read.parquet(str(place / "rows")).collect()
    return sorted(str(row.value) for row in found)


def test_available_now_with_limits_and_restarts(
    spark: SparkSession, follow: Follow, segment: siltstone.Segment, tmp_path: Path
) -> None:
    written: list[str] = []
    for turn in range(2):
        lines = [f"{turn} {number:03}" for number in range(40)]
        segment.append("".join(f"{line}\n" for line in lines).encode() + b"begun")
        if turn:
            segment.flush()
        written += [f"begun{line}" if turn and line.endswith(" 000") else line for line in lines]
        query = run(follow(maxBytesPerTrigger=100), tmp_path)
        assert rows_in(spark, tmp_path) == sorted(written)
        assert len(query.recentProgress) >= 3
        assert max(progress.numInputRows for progress in query.recentProgress) < 20
    segment.seal()
    run(follow(), tmp_path)
    assert rows_in(spark, tmp_path) == sorted([*written, "begun"])


def test_a_batch_that_failed_is_given_again(
    spark: SparkSession, follow: Follow, segment: siltstone.Segment, tmp_path: Path
) -> None:
    """The sink took a batch, then the query ended before Spark noted it."""
    append_events(segment, [b"%d" % number for number in range(30)])
    taken: dict[int, list[str]] = {}
    failing = [True]

    def take(frame: DataFrame, batch: int) -> None:
        rows = [bytes(row.value).decode() for row in frame.collect()]
        assert taken.setdefault(batch, rows) == rows, "the same rows when it is given again"
        if batch == 1 and failing:
            failing.clear()
            raise RuntimeError("the sink is gone")

    def start() -> StreamingQuery:
        frame = follow(mode="events", maxRowsPerTrigger=10)
        writer = frame.writeStream.foreachBatch(take).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path)).start()

    with pytest.raises(PySparkException, match="the sink is gone"):
        start().awaitTermination()
    segment.flush()
    append_events(segment, [b"later"])
    start().awaitTermination()
    numbers = [row for batch in sorted(taken) for row in taken[batch]]
    assert numbers == [*map(str, range(30)), "later"]


def test_a_running_query_finds_new_segments_and_the_unflushed_tail(
    spark: SparkSession,
    store: siltstone.Store,
    follow: Follow,
    segment: siltstone.Segment,
    tmp_path: Path,
) -> None:
    segment.append(b"first\n")
    frame = follow(segment=None, prefix=segment.name, columns="segment,value")
    query = run(frame, tmp_path, all_there_is=False)
    try:
        query.processAllAvailable()
        store.create(segment.name + "/new").append(b"new\n")
        segment.append(b"second\n")
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows_in(spark, tmp_path) == ["first", "new", "second"]


def test_truncated_bytes_end_the_query_and_are_told(
    follow: Follow, segment: siltstone.Segment, tmp_path: Path
) -> None:
    segment.append(b"a\nb\n")
    run(follow(maxRowsPerTrigger=1), tmp_path)
    segment.append(b"c\nd\n")
    segment.truncate(6)
    with pytest.raises(PySparkException) as caught:
        run(follow(), tmp_path)
    assert f"offset was truncated segment={segment.name} offset=4 start_offset=6" in str(
        caught.value
    )
    assert "onTruncation=skip" in str(caught.value)
    run(follow(onTruncation="skip"), tmp_path)


def test_events_of_a_stream_are_strings_where_the_schema_says_so(
    spark: SparkSession, folder: Path, segment: siltstone.Segment, tmp_path: Path
) -> None:
    append_events(segment, [b'{"id": 1}', b'{"id": 2}'])
    reader = spark.readStream.format("siltstone").option("store", str(folder))
    reader = reader.option("segment", segment.name).option("mode", "events")
    frame = reader.schema("value STRING").load().selectExpr("get_json_object(value, '$.id') value")
    run(frame, tmp_path)
    assert rows_in(spark, tmp_path) == ["1", "2"]
