"""Sessions besides the one that ``session()`` made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import siltstone
from siltstone.spark import register, session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_second_session_learns_the_format(
    spark: SparkSession, folder: Path, segment: siltstone.Segment
) -> None:
    segment.append(b"one\ntwo\n")
    second = spark.newSession()
    for _ in range(2):
        register(second)
        reader = second.read.format("siltstone").option("store", str(folder))
        rows = reader.option("segment", segment.name).load().collect()
        assert [row.value for row in rows] == ["one", "two"]
    spark.range(1).collect()
    assert spark.getActiveSession() is spark


def test_another_thread_is_given_the_session_as_it_is(spark: SparkSession) -> None:
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(session, settings={key: "7"}).result()
    assert found is spark
    assert spark.conf.get(key) == before


def test_another_thread_writes_once_it_has_the_session(spark: SparkSession, tmp_path: Path) -> None:
    siltstone.init(tmp_path)

    def write() -> None:
        rows = session().range(3).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
        writer = rows.write.format("siltstone").mode("append").option("store", str(tmp_path))
        writer.option("segment", "a").save()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result()
    with siltstone.open(tmp_path) as store:
        assert store.segment("a").read(0, 100) == b"0\n1\n2\n"
