"""A driver is killed again and again while it streams a collection; every change arrives once.

What dies: the driver with its JVM, by signal 9, at random instants. Its workers live on for a
moment. Meanwhile rows come and go, and are merged and collected. What must hold, against the
collection itself: Spark's own sink of files has each change once, which tells of the source; the
other collection has each row that came once, which tells of our sink.

The program that is killed is ``collection_stream_driver.py``, with all below it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import siltstone
from siltstone.collections.blocking import Collection, Collections, open_collections
from siltstone.collections.place import CollectionSettings
from tests.spark.collection_stream_driver import SOURCE, TARGET
from tests.support.soak import share_of
from tests.support.spark.collection_stream import sums
from tests.support.spark.collection_world import GUSTS, multiset, some_gusts

pytestmark = [pytest.mark.spark, pytest.mark.timeout(7200)]

ROUNDS = 20
STARTS = 3
"""Starts for each round: Spark gives a worker ten seconds to begin, and ends when there is too much
else to do on the machine. The next driver continues."""
DRIVER_S = 300.0
"""No driver takes this long to reach the end that it was told to reach."""


def change(source: Collection, chance: Random, first: int) -> int:
    """Let rows come and go; return how many have come in all."""
    for _ in range(chance.randint(4, 12)):
        count = chance.randint(1, 50)
        gone = some_gusts(1, chance.randrange(first)) if first else None
        source.append(some_gusts(count, first), remove=gone)
        first += count
    if chance.random() < 0.5:
        source.compact()
        source.collect()
    return first


def start(store: Path, place: Path) -> subprocess.Popen[bytes]:
    (place / "running").unlink(missing_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.collection_stream_driver", str(store), str(place)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_until_running(driver: subprocess.Popen[bytes], place: Path) -> None:
    end = time.monotonic() + DRIVER_S
    while not (place / "running").exists() and driver.poll() is None:
        assert time.monotonic() < end, "the driver does not start"
        time.sleep(0.05)


def kill(driver: subprocess.Popen[bytes]) -> bool:
    """End a driver; whether it lived until it was killed."""
    with suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    return driver.wait() == -signal.SIGKILL


def files(spark: SparkSession, place: Path) -> pyarrow.Table:
    """The changes that the sink of files has."""
    columns = ["station", "gust", "_time", "_diff"]
    return spark.read.parquet(str(place / "rows")).select(*columns).toArrow()


def has_all(
    spark: SparkSession, collections: Collections, place: Path, upper: int, count: int
) -> bool:
    if collections.collection(TARGET).info().rows < count:
        return False
    with suppress(AnalysisException):
        return max(files(spark, place)["_time"].to_pylist(), default=-1) == upper - 1
    return False


def drain(spark: SparkSession, store: Path, collections: Collections, place: Path, n: int) -> bool:
    """Let a driver come to the end of what was written; whether it did."""
    end = time.monotonic() + 4 * DRIVER_S
    upper = collections.collection(SOURCE).info().upper
    assert upper is not None
    with start(store, place) as driver:
        try:
            wait_until_running(driver, place)
            while driver.poll() is None:
                assert time.monotonic() < end, "the streams do not catch up"
                if has_all(spark, collections, place, upper, n):
                    return True
                time.sleep(1)
        finally:
            kill(driver)
    return False


@pytest.mark.soak
def test_every_change_of_a_collection_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    store, place = tmp_path / "store", tmp_path / "place"
    siltstone.init(store, containers=1)
    place.mkdir()
    chance = Random(11)
    rounds = share_of(ROUNDS)
    settings = CollectionSettings(garbage_delay_ms=0, compacts=False)
    with open_collections(store, settings=settings) as collections:
        source = collections.create(SOURCE, GUSTS, key=["station"], times="count")
        copy = collections.create(TARGET, GUSTS, key=["station"], times="count")
        came = killed = 0
        for _ in range(STARTS * rounds):
            came = change(source, chance, came)
            with start(store, place) as driver:
                try:
                    wait_until_running(driver, place)
                    with suppress(subprocess.TimeoutExpired):
                        driver.wait(chance.uniform(0, 12))
                finally:
                    killed += kill(driver)
            rows = multiset(copy.snapshot().to_arrow())
            assert max(rows.values(), default=1) == 1, f"a row is there twice, after {killed}"
            if killed == rounds:
                break
        assert killed == rounds, "drivers end by themselves"
        done = any(drain(spark, store, collections, place, came) for _ in range(STARTS))
        assert done, "the streams end by themselves"
        assert multiset(copy.snapshot().to_arrow()) == multiset(some_gusts(came))
        told = sums(files(spark, place).drop_columns(["_time"]))
        assert told == sums(source.snapshot(diffs=True).to_arrow())
        copy.sweep()
        assert copy.sweep() == 0
