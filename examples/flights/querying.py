"""One question, asked of the segment and of the CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from examples.flights.loader import SEGMENT
from examples.flights.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Delays = list[tuple[str, int, float | None, int]]
"""Carrier, month, average departure delay in minutes, count of flights."""

STRINGS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
"""All other columns are whole numbers."""

OPTIONS = {"nullValue": "NA"}


def columns(source: Source) -> str:
    """The columns of the file, as Spark writes a schema."""
    names = source.header.decode().strip().split(",")
    return ", ".join(f"{name} {'STRING' if name in STRINGS else 'INT'}" for name in names)


def flights_of_segment(spark: SparkSession, store: Path, schema: str) -> DataFrame:
    """The flights in the segment: each line is a row of CSV."""
    from pyspark.sql.functions import from_csv

    lines = (
        spark.read.format("siltstone").option("store", str(store)).option("segment", SEGMENT).load()
    )
    return lines.select(from_csv("value", schema, OPTIONS).alias("flight")).select("flight.*")


def flights_of_file(spark: SparkSession, source: Source, schema: str) -> DataFrame:
    """The flights in the CSV file, by Spark's own reader."""
    return spark.read.csv(str(source.path), schema=schema, header=True, nullValue="NA")


def average_delays(flights: DataFrame) -> Delays:
    """The average departure delay by carrier and month."""
    from pyspark.sql.functions import avg, count

    rows = (
        flights.groupBy("carrier", "month")
        .agg(avg("dep_delay"), count("*"))
        .orderBy("carrier", "month")
        .collect()
    )
    return [(row[0], row[1], row[2], row[3]) for row in rows]
