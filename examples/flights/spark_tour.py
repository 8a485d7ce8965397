"""``python -m examples.flights.spark_tour``: a segment of flights in Spark, as a file and a stream.

A batch query over ``silt://`` while the segment is still short; a streaming aggregation that
follows it as it grows; its answer, written back as a segment; and the first query again, of the
length that the segment had then.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import siltstone
from examples.flights.querying import Delays, average_delays, columns
from examples.flights.source import read_source, unpack
from examples.flights.tours import expect, start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SEGMENT = "flights/2013"
REPORT = "reports/delays"
OPTIONS = {"nullValue": "NA"}


def run(spark: SparkSession, folder: Path, count: int) -> None:
    """Do every step; end with an error as soon as two answers differ that must not."""
    source = read_source(unpack(folder))
    schema, lines = columns(source), source.lines[:count]
    store = folder / "store"
    siltstone.init(store)

    print("1. Half of the flights are in the segment: a query over silt://")
    append(store, lines[: count // 2])
    length = length_of(store)
    half = average_delays(as_file(spark, store, schema))
    print(f"   {sum(row[3] for row in half):,} flights, {len(half)} averages, {length:,} bytes")

    print("2. A stream follows the segment while the other half arrives")
    stream = counts_by_carrier(spark, store, folder / "checkpoint", schema)
    try:
        stream.processAllAvailable()
        before = counted(spark)
        append(store, lines[count // 2 :])
        stream.processAllAvailable()
        after = counted(spark)
    finally:
        stream.stop()
    print(f"   {sum(before.values()):,} flights at first, then {sum(after.values()):,}")
    expect("the stream", sum(after.values()), count)

    print("3. The answer of all flights, by SQL, written back as a segment")
    view(spark, store)
    delays = spark.sql(
        f"SELECT flight.* FROM (SELECT from_csv(value, '{schema}', map('nullValue', 'NA')) "
        "AS flight FROM flights)"
    )
    whole = average_delays(delays)
    write_back(spark, store, whole)
    expect("what was written back", len(read_report(store)), len(whole))
    print(f"   {len(whole)} lines in {REPORT}")

    print("4. The first query again, of the length that the segment had then")
    expect("time travel", average_delays(as_file(spark, store, schema, at=length)), half)
    print(f"   at {length:,} of {length_of(store):,} bytes the answer is the same as before")


def append(store: Path, lines: list[bytes]) -> None:
    """Append lines, and flush them: files of ``silt://`` show only what is in chunks."""
    with siltstone.open(store) as opened:
        segment = opened.create(SEGMENT, exist_ok=True)
        for start in range(0, len(lines), 10_000):
            segment.append(b"".join(lines[start : start + 10_000]))
        opened.flush()


def length_of(store: Path) -> int:
    """The length of the segment now."""
    with siltstone.open(store, read_only=True) as opened:
        return opened.segment(SEGMENT).info().length


def as_file(spark: SparkSession, store: Path, schema: str, at: int | None = None) -> DataFrame:
    """The flights by Spark's own reader of CSV; ``at`` shows an older length."""
    from siltstone.spark import files

    return spark.read.csv(files(spark, store, SEGMENT, at=at), schema=schema, nullValue="NA")


def counts_by_carrier(
    spark: SparkSession, store: Path, checkpoint: Path, schema: str
) -> StreamingQuery:
    """Begin to count flights by carrier, as they are appended, in a table of memory."""
    from pyspark.sql.functions import from_csv

    lines = (
        spark.readStream.format("siltstone")
        .option("store", str(store))
        .option("segment", SEGMENT)
        .load()
    )
    flights = lines.select(from_csv("value", schema, OPTIONS).alias("flight")).select("flight.*")
    return (
        flights.groupBy("carrier")
        .count()
        .writeStream.format("memory")
        .queryName("carriers")
        .outputMode("complete")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def counted(spark: SparkSession) -> dict[str, int]:
    """What the stream has counted."""
    return {row.carrier: row["count"] for row in spark.table("carriers").collect()}


def view(spark: SparkSession, store: Path) -> None:
    """Let SQL see the lines of the segment as the view ``flights``."""
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW flights USING siltstone "
        f"OPTIONS (store '{store}', segment '{SEGMENT}')"
    )


def write_back(spark: SparkSession, store: Path, delays: Delays) -> None:
    """Write averages as lines of CSV into a segment, exactly once, directly from the tasks."""
    from pyspark.sql.functions import concat_ws

    frame = spark.createDataFrame(delays, "carrier STRING, month INT, delay DOUBLE, count BIGINT")
    (
        frame.coalesce(1)
        .orderBy("carrier", "month")
        .select(concat_ws(",", "carrier", "month", "delay", "count").alias("value"))
        .write.format("siltstone")
        .mode("overwrite")
        .option("store", str(store))
        .option("segment", REPORT)
        .save()
    )


def read_report(store: Path) -> list[bytes]:
    """The lines that were written back."""
    with siltstone.open(store, read_only=True) as opened:
        segment = opened.segment(REPORT)
        return segment.read(0, segment.info().length).splitlines()


if __name__ == "__main__":
    start("spark_tour", __doc__, run)
