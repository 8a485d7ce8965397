"""A driver is killed again and again while it streams; every record is in its output once.

The output is Spark's own sink of files, which is exactly once for a source that gives the same rows
for the same offsets. The program that is killed is ``stream_driver.py``, with all below it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import siltstone
from tests.soak import share_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

ROUNDS = 20
BATCH_S = 120.0


def batches(place: Path) -> int:
    """How many batches Spark has noted as done."""
    folder = place / "checkpoint" / "commits"
    with suppress(FileNotFoundError):
        return sum(1 for path in folder.iterdir() if path.name.isdecimal())
    return 0


def wait_for_batches(place: Path, count: int, driver: subprocess.Popen[bytes]) -> None:
    """Wait for so many batches, or until the driver ended by itself: the next one goes on.

    Spark gives a worker ten seconds to start, which is too little on a machine with much to do.
    """
    end = time.monotonic() + BATCH_S
    while batches(place) < count and driver.poll() is None:
        assert time.monotonic() < end, "no batch was done"
        time.sleep(0.05)


@pytest.mark.soak
def test_every_record_is_there_once(
    spark: SparkSession, store: siltstone.Store, folder: Path, tmp_path: Path
) -> None:
    chance = random.Random(7)
    prefix = "killed/"
    segments = [store.create(f"{prefix}0")]
    written: list[str] = []
    command = [
        sys.executable,
        "-m",
        "tests.spark.stream_driver",
        str(folder),
        prefix,
        str(tmp_path),
    ]
    for number in range(share_of(ROUNDS) + 1):
        for _ in range(chance.randint(30, 90)):
            written.append(f"{number}-{len(written)}")
            chance.choice(segments).append(f"{written[-1]}\n".encode())
        if chance.random() < 0.5:
            store.flush()
        segments.append(store.create(f"{prefix}{number + 1}"))
        last = number == share_of(ROUNDS)
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as driver:
            try:
                if last:
                    wait_until_drained(spark, tmp_path, len(written), driver)
                else:
                    wait_for_batches(tmp_path, batches(tmp_path) + 1, driver)
                    time.sleep(chance.random() * 2)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(driver.pid, signal.SIGKILL)
    rows = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted(row.value for row in rows) == sorted(written)
    by_segment: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        by_segment.setdefault(row.segment, []).append((row.offset, row.value))
    for name, found in by_segment.items():
        data = store.segment(name).read(0, 1 << 20).decode()
        assert [value for _, value in sorted(found)] == data.splitlines()


def wait_until_drained(
    spark: SparkSession, place: Path, count: int, driver: subprocess.Popen[bytes]
) -> None:
    end = time.monotonic() + 10 * BATCH_S
    while spark.read.parquet(str(place / "rows")).count() < count:
        assert driver.poll() is None, "the driver ended by itself"
        assert time.monotonic() < end, "the stream does not catch up"
        time.sleep(1)
