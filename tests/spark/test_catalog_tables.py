"""Tables of Spark's catalog are refused before rows are published; all else works."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import siltstone
from tests.support.spark.sink_world import Sink, new_sink

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

REFUSED = "segments and collections cannot be tables of Spark's catalog"


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with new_sink(tmp_path / "target") as made:
        yield made


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[None]:
    yield
    for table in ("made", "empty"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def names(sink: Sink) -> list[str]:
    with siltstone.open(sink.folder, read_only=True) as store:
        return [info.name for info in store.list()]


def in_sql(sink: Sink) -> str:
    return ", ".join(f"{name} '{value}'" for name, value in sink.options().items())


def filled(data: DataFrame, sink: Sink) -> dict[str, Callable[[], object]]:
    """The ways to make a table and fill it."""
    spark, options = data.sparkSession, sink.options()
    data.createOrReplaceTempView("rows")
    query = f"CREATE TABLE made USING siltstone OPTIONS ({in_sql(sink)}) AS SELECT * FROM rows"
    v1 = data.write.format("siltstone").options(**options)
    v2 = data.writeTo("made").using("siltstone").options(**options)
    return {
        "saveAsTable": lambda: v1.mode("append").saveAsTable("made"),
        "overwrite": lambda: v1.mode("overwrite").saveAsTable("made"),
        "create": v2.create,
        "createOrReplace": v2.createOrReplace,
        "select": lambda: spark.sql(query),
        "columns": lambda: spark.sql(query.partition(" AS ")[0]),
        "catalog": lambda: spark.catalog.createTable(
            "made", None, "siltstone", None, None, **options
        ),
    }


@pytest.mark.usefixtures("tables")
def test_a_table_is_refused_and_nothing_is_published(spark: SparkSession, sink: Sink) -> None:
    data = spark.range(3).selectExpr("cast(id AS STRING) AS value")
    for way, fill in filled(data, sink).items():
        with pytest.raises(PySparkException, match=REFUSED):
            fill()
        assert names(sink) == [], way
        assert not spark.catalog.tableExists("made"), way
    # Spark asks nothing when a table with columns is made, and the table holds nothing.
    spark.sql(f"CREATE TABLE empty (value STRING) USING siltstone OPTIONS ({in_sql(sink)})")
    for use in ("SELECT * FROM empty", "INSERT INTO empty VALUES ('a')"):
        with pytest.raises(PySparkException, match=f"'store' is missing; {REFUSED}"):
            spark.sql(use).collect()
    assert names(sink) == []


@pytest.mark.usefixtures("tables")
def test_a_stream_into_a_table_is_refused(spark: SparkSession, sink: Sink, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "0").write_text("a\nb\n")

    def run(target: str) -> None:
        writer = spark.readStream.text(str(rows)).writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / target))
        into = writer.format("siltstone").options(**sink.options(segment=target))
        if target == "table":
            into.toTable("made").awaitTermination()
        elif target == "sink":
            into.start().awaitTermination()
        else:
            writer.foreachBatch(batch).start().awaitTermination()

    def batch(data: DataFrame, _: int) -> None:
        writer = data.write.format("siltstone").mode("append")
        writer.options(**sink.options(segment="batch")).save()

    with pytest.raises(PySparkException, match=re.escape(REFUSED)):
        run("table")
    assert names(sink) == []
    run("sink")
    run("batch")
    assert sink.content("sink") == sink.content("batch") == ["a", "b"]


def test_rows_go_into_a_view(spark: SparkSession, sink: Sink) -> None:
    spark.sql(
        f"CREATE TEMPORARY VIEW into_s (value STRING) USING siltstone OPTIONS ({in_sql(sink)})"
    )
    spark.sql("INSERT INTO into_s VALUES ('a'), ('b')")
    assert sorted(sink.content()) == ["a", "b"]
    assert spark.table("into_s").count() == 2
    spark.catalog.dropTempView("into_s")
