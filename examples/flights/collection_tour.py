"""``python -m examples.flights.collection_tour``: flights as a collection that changes.

The flights of half a year arrive, then those of the other half, then corrections: rows that go and
rows that come, at one time. Spark tells the mean delay of each carrier at each of the three times,
and a stream that has followed all of it comes to the last answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import compute, csv

import siltstone
from examples.flights.source import read_source, unpack
from examples.flights.tours import expect, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "flights"
SCHEMA = pa.schema(
    [
        pa.field("month", pa.int32(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("sched_dep_time", pa.int32(), nullable=False),
        pa.field("dep_delay", pa.int32()),
    ]
)
KEY = ["carrier", "month", "day", "flight", "origin", "sched_dep_time"]
JUNE = 6
LATE_MIN = 120
"""We say here that an hour too much was noted for departures that were later than this."""

HOUR_MIN = 60

STREAM = "delays"
"""Name of the query, of its table, and of its bookmark."""

Delays = dict[str, tuple[int, int]]
"""Of each carrier, the minutes of all departures together, and how many left."""


def run(spark: SparkSession, folder: Path, count: int) -> None:
    """Do every step; end with an error as soon as two answers differ that must not."""
    flights = read_flights(folder, count)
    store = folder / "store"
    siltstone.init(store)
    first = flights.filter(compute.less_equal(flights["month"], JUNE))
    second = flights.filter(compute.greater(flights["month"], JUNE))
    wrong = flights.filter(is_wrong(flights))
    right = corrected(wrong)
    newest = pa.concat_tables([flights.filter(compute.invert(is_wrong(flights))), right])
    with siltstone.open_collections(store) as collections:
        opened = collections.create(NAME, SCHEMA, key=KEY, history="30d")

        print("1. The first half of the year, and a stream that follows the collection")
        times = [opened.append(first).time]
        stream = follow(spark, store, folder / "checkpoint")
        try:
            stream.processAllAvailable()
            print(f"   {len(first):,} flights at time {times[0]}")
            expect("the stream at first", followed(spark), delays_of(first))

            print(
                "2. The second half; then corrections at one time, if no one else wrote meanwhile"
            )
            appended = opened.append(second)
            done = opened.append(right, remove=wrong, expected_upper=appended.upper)
            times += [appended.time, done.time]
            print(f"   {len(second):,} flights, and {len(right):,} corrections")
            stream.processAllAvailable()
        finally:
            stream.stop()

        print("3. The mean delay of carriers at the three times, by Spark")
        wanted = [delays_of(first), delays_of(flights), delays_of(newest)]
        found = [delays_at(spark, store, time) for time in times]
        for step, answer in enumerate(found):
            expect(f"the rows at time {times[step]}", answer, wanted[step])
        show(found)

        print("4. The stream has come to the same answer, from the changes alone")
        expect("the stream", followed(spark), wanted[-1])
        expect("the newest rows", opened.snapshot().to_arrow().num_rows, len(newest))
        print(f"   {sum(left for _, left in wanted[-1].values()):,} departures")


def read_flights(folder: Path, count: int) -> pa.Table:
    """Some columns of so many flights of the whole year."""
    path = read_source(unpack(folder)).path
    table = csv.read_csv(path, convert_options=csv.ConvertOptions(null_values=["NA"]))
    step = len(table) // count
    chosen = table.take(pa.array(range(0, step * count, step)))
    return chosen.select(SCHEMA.names).cast(SCHEMA)


def is_wrong(flights: pa.Table) -> pa.ChunkedArray:
    """Which flights will be corrected."""
    return compute.fill_null(compute.greater(flights["dep_delay"], LATE_MIN), False)


def corrected(flights: pa.Table) -> pa.Table:
    """The same flights, an hour earlier."""
    place = SCHEMA.get_field_index("dep_delay")
    delays = compute.subtract(flights["dep_delay"], pa.scalar(HOUR_MIN, pa.int32()))
    return flights.set_column(place, SCHEMA.field(place), delays)


def delays_of(flights: pa.Table) -> Delays:
    """The delays of all flights of a table that left."""
    left = flights.filter(flights["dep_delay"].is_valid())
    grouped = left.group_by("carrier").aggregate([("dep_delay", "sum"), ("dep_delay", "count")])
    return {
        row["carrier"]: (row["dep_delay_sum"], row["dep_delay_count"])
        for row in grouped.to_pylist()
    }


def delays_at(spark: SparkSession, store: Path, time: int) -> Delays:
    """The same of the collection at a time, by Spark."""
    from pyspark.sql.functions import count, sum

    frame = (
        spark.read.format("siltstone")
        .option("store", str(store))
        .option("collection", NAME)
        .option("asOf", time)
        .option("columns", "carrier,dep_delay")
        .load()
    )
    left = frame.where("dep_delay IS NOT NULL")
    rows = left.groupBy("carrier").agg(sum("dep_delay"), count("*")).collect()
    return {row[0]: (row[1], row[2]) for row in rows}


def follow(spark: SparkSession, store: Path, checkpoint: Path) -> StreamingQuery:
    """Begin to add up delays in a table of memory: what goes counts below 0."""
    from pyspark.sql.functions import expr

    changes = (
        spark.readStream.format("siltstone")
        .option("store", str(store))
        .option("collection", NAME)
        .option("startingTime", "snapshot")
        .option("bookmark", STREAM)
        .load()
    )
    left = changes.where("dep_delay IS NOT NULL")
    sums = left.groupBy("carrier").agg(expr("sum(dep_delay * _diff)"), expr("sum(_diff)"))
    return (
        sums.writeStream.format("memory")
        .queryName(STREAM)
        .outputMode("complete")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def followed(spark: SparkSession) -> Delays:
    """What the stream has come to."""
    return {row[0]: (row[1], row[2]) for row in spark.table(STREAM).collect()}


def show(found: list[Delays]) -> None:
    """Print the mean delays of the three carriers with the most departures."""
    last = found[-1]
    for carrier in sorted(last, key=lambda name: -last[name][1])[:3]:
        means = [f"{total / left:.2f}" for total, left in (one[carrier] for one in found)]
        print(f"   {carrier}: {', '.join(means)} minutes")


if __name__ == "__main__":
    start("collection_tour", __doc__, run)
