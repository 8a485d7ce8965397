"""A driver is killed again and again while it streams; every record arrives once.

What dies: the driver with its JVM, by signal 9, at random instants, or just before our end of a
batch or after it, which is between our commit and Spark's. Its workers live on for a moment. What
must hold, against a plain list of what was written: Spark's own sink of files has each record once,
which tells of the source; so has our sink, those of each segment in their order.

The program that is killed is ``stream_driver.py``, with all below it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import siltstone
from tests.spark.killing_sink import ORDER
from tests.spark.stream_driver import TARGET
from tests.support.soak import share_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(7200)]

ROUNDS = 20
STARTS = 3
"""Starts for each round: Spark gives a worker ten seconds to begin, and ends when there is too much
else to do on the machine. The next driver continues."""
DRIVER_S = 300.0
"""No driver takes this long to reach the end that it was told to reach."""
PREFIX = "killed/"


@dataclass
class Streams:
    """A store that is read, what was written into it, and what drivers make of it."""

    store: siltstone.Store
    source: Path
    target: Path
    place: Path
    chance: Random
    written: dict[str, list[str]] = field(default_factory=dict)
    count: int = 0

    def write(self) -> None:
        """Some lines, one after the other, into the segments and into a new one."""
        new = f"{PREFIX}{len(self.written)}"
        self.store.create(new)
        self.written[new] = []
        for _ in range(self.chance.randint(20, 60)):
            name = self.chance.choice(sorted(self.written))
            offset = self.store.segment(name).append(f"line {self.count}\n".encode())
            self.written[name].append(f"{name} {offset} line {self.count}")
            self.count += 1
        if self.chance.random() < 0.5:
            self.store.flush()

    def start(self) -> subprocess.Popen[bytes]:
        (self.place / "running").unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.spark.stream_driver"]
        return subprocess.Popen(
            [*command, str(self.source), PREFIX, str(self.place), str(self.target)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait_until_running(self, driver: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + DRIVER_S
        while not (self.place / "running").exists() and driver.poll() is None:
            assert time.monotonic() < end, "the driver does not start"
            time.sleep(0.05)

    def copied(self) -> list[str]:
        """The lines that our sink wrote."""
        with siltstone.open(self.target, read_only=True) as store:
            try:
                length = store.segment(TARGET).info().length
            except siltstone.SegmentNotFoundError:
                return []
            return store.segment(TARGET).read(0, length).decode().splitlines()


def kill(driver: subprocess.Popen[bytes]) -> bool:
    """End a driver; whether it lived until it was killed."""
    with suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    return driver.wait() == -signal.SIGKILL


def play_round(streams: Streams, fate: str) -> bool:
    """Start a driver and let it die; whether it did not end by itself."""
    order = streams.target / ORDER
    order.unlink(missing_ok=True)
    if fate != "anywhere":
        order.write_text(f"{fate} {streams.chance.randrange(3)}")
    with streams.start() as driver:
        try:
            if fate != "anywhere":
                driver.wait(DRIVER_S)
            else:
                streams.wait_until_running(driver)
                with suppress(subprocess.TimeoutExpired):
                    driver.wait(streams.chance.uniform(0, 10))
        finally:
            killed = kill(driver)
    return killed


def drain(spark: SparkSession, streams: Streams) -> bool:
    """Let a driver come to the end of what was written; whether it did."""
    end = time.monotonic() + 4 * DRIVER_S
    with streams.start() as driver:
        try:
            streams.wait_until_running(driver)
            while driver.poll() is None:
                assert time.monotonic() < end, "the streams do not catch up"
                rows = spark.read.parquet(str(streams.place / "rows")).count()
                if min(rows, len(streams.copied())) >= streams.count:
                    return True
                time.sleep(1)
        finally:
            kill(driver)
    return False


def by_segment(lines: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in lines:
        found.setdefault(line.partition(" ")[0], []).append(line)
    return found


@pytest.mark.soak
def test_every_record_is_there_once(
    spark: SparkSession, store: siltstone.Store, folder: Path, tmp_path: Path
) -> None:
    target, place = tmp_path / "target", tmp_path / "place"
    siltstone.init(target)
    place.mkdir()
    streams = Streams(store, folder, target, place, Random(7))
    rounds = share_of(ROUNDS)
    fates = ["after", "anywhere", "before", "anywhere"]
    kills = Counter[str]()
    for _ in range(STARTS * rounds):
        fate = fates[kills.total() % len(fates)]
        streams.write()
        kills[fate] += play_round(streams, fate)
        copied = streams.copied()
        assert len(copied) == len(set(copied)), f"a record is there twice, after {kills}"
        if kills.total() == rounds:
            break
    assert kills.total() == rounds, f"drivers end by themselves: {kills}"
    assert any(drain(spark, streams) for _ in range(STARTS)), "the streams end by themselves"
    assert by_segment(streams.copied()) == {k: v for k, v in streams.written.items() if v}
    rows = spark.read.parquet(str(place / "rows")).collect()
    found = [f"{row.segment} {row.offset} {row.value}" for row in rows]
    assert sorted(found) == sorted(line for lines in streams.written.values() for line in lines)
