"""Sessions beside the one that ``session()`` made."""

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
