"""A program that does what docs/spark.md says of Spark Connect, by a server of its own.

Its arguments: the store, whose segment ``lines`` holds the lines 0 to 9 and whose segment
``events`` the same as events, and a folder for checkpoints. It prints one object in JSON. The
server takes a free port of the loopback and asks for a token that only this program knows.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

ANSWER_S: Final = 120


def connect() -> SparkSession:
    from pyspark.sql import SparkSession

    from siltstone.spark.java import java_home
    from siltstone.spark.local_session import session_settings

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_TESTING"] = "1"  # a free port
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]")
    settings = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.log.level": "OFF"}
    for key, value in session_settings(settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def values(frame: DataFrame) -> list[str]:
    return sorted(row[0] for row in frame.selectExpr("cast(value AS STRING)").collect())


def read(spark: SparkSession, store: str) -> dict[str, Any]:
    reader = spark.read.format("siltstone").option("store", store)
    lines = reader.option("segment", "lines")
    found: dict[str, Any] = {"lines": values(lines.load())}
    found["blocks"] = values(lines.option("mode", "bytes").load())
    found["events"] = values(reader.option("segment", "events").option("mode", "events").load())
    found["refusal"] = refusal(reader.option("segment", "none"))
    options = f"store '{store}', segment 'lines'"
    spark.sql(f"CREATE TEMPORARY VIEW seen USING siltstone OPTIONS ({options})")
    found["view"] = spark.sql("SELECT count(1) FROM seen").collect()[0][0]
    return found


def refusal(reader: DataFrameReader) -> str:
    from pyspark.errors import PySparkException

    try:
        reader.load().collect()
    except PySparkException as error:
        return str(error)
    return ""


def write(spark: SparkSession, store: str, place: Path) -> None:
    rows = spark.range(0, 10, 1, 2).selectExpr("cast(id AS STRING) AS value")
    writer = rows.write.format("siltstone").mode("append").option("store", store)
    writer.option("segment", "written").save()
    reader = spark.readStream.format("siltstone").option("store", store)
    stream = reader.option("segment", "lines").load().writeStream.format("siltstone")
    stream = stream.option("store", store).option("segment", "streamed")
    stream = stream.option("checkpointLocation", str(place / "point")).trigger(availableNow=True)
    query = stream.start()
    query.awaitTermination(ANSWER_S)
    query.stop()


def scrubbed(spark: SparkSession, store: str) -> list[str]:
    from siltstone.pipelines.scrub import scrub
    from siltstone.pipelines.store_view import store_view
    from siltstone.spark.executor import SparkExecutor

    with store_view(Path(store)) as view:
        return sorted({outcome.status for outcome in scrub(view, SparkExecutor(spark))})


def files_as_text(spark: SparkSession, store: str) -> list[str] | None:
    """``None`` means that ``silt://`` was not compiled."""
    from siltstone.spark import files
    from siltstone.spark.jvm import JarError, find_jar

    try:
        find_jar()
    except JarError:
        return None
    return values(spark.read.text(files(spark, store, "lines")))


def main(store: str, place: Path) -> None:
    from siltstone.spark import register, session

    spark = connect()
    register(spark)
    found = {"class": type(spark).__module__, "active": session() is spark}
    found |= read(spark, store)
    write(spark, store, place)
    found["scrubbed"] = scrubbed(spark, store)
    found["files"] = files_as_text(spark, store)
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
