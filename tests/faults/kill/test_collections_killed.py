"""Four processes work on one collection, and one after the other is killed.

What may fail: a process is killed at any moment, of an append, a compaction, a rollup, garbage, a
sweep or its start; another one continues as the same writer.
What may not fail: the machine: what the kernel has taken stays.
What must hold: no process sees an error; each append that was acknowledged is there, whole, once,
at the time that was told; what was not acknowledged is there whole or not at all; the sequences of
a writer have no gaps in any snapshot; what dead processes left can be swept.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import compute

import siltstone
from siltstone.collections.blocking import Collection, open_collections
from tests.support.kill.collection_child import (
    NAME,
    SCHEMA,
    SETTINGS,
    Work,
    appends_in,
    rows_of,
)
from tests.support.kill.nursery import Nursery, Process
from tests.support.memory_folder import folder_in_memory
from tests.support.soak import share_of

SLOTS = 4
OPENS_WITHIN_S = 60.0
WORKS_WITHIN_S = 120.0

APPENDS_MAX = 30
"""Of all processes together between two kills."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.support.kill.collection_child")
    yield made
    made.close()


class Workers:
    """Four processes, each of which is followed by another one when it is killed.

    Attributes:
        acknowledged: the time of each append, by writer and sequence.
        count: how many appends that are.
    """

    def __init__(self, nursery: Nursery, folder: Path, chance: random.Random) -> None:
        self._nursery = nursery
        self._folder = folder
        self._chance = chance
        self._processes: dict[int, Process] = {}
        self.acknowledged: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.count = 0

    def start(self, slot: int) -> None:
        work = Work(str(self._folder), slot, self._chance.randrange(2**32))
        self._processes[slot] = self._nursery.start(work.encode())

    def kill(self, slot: int) -> None:
        process = self._processes.pop(slot)
        with process:
            process.kill()
            self._take(process.reports())

    def wait_until_open(self, slot: int) -> None:
        self._take(self._processes[slot].until("o", OPENS_WITHIN_S))

    def work(self, appends: int) -> None:
        """Let them make so many appends together, and a moment more."""
        wanted = self.count + appends
        end = time.monotonic() + WORKS_WITHIN_S
        while self.count < wanted:
            assert time.monotonic() < end, "nothing is appended"
            for process in self._processes.values():
                self._take(process.reports(0.01))
        time.sleep(self._chance.random() / 50)

    def end(self) -> None:
        for slot in list(self._processes):
            self.kill(slot)

    def _take(self, reports: list[list[Any]]) -> None:
        for kind, *facts in reports:
            assert kind != "e", facts
            if kind == "a":
                slot, sequence, told_time, repeated = facts
                assert not repeated, "a writer continues after its last sequence"
                assert sequence not in self.acknowledged[slot]
                self.acknowledged[slot][sequence] = told_time
                self.count += 1


def kill_rounds(nursery: Nursery, folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    siltstone.init(folder, containers=1)
    with open_collections(folder) as collections:
        collections.create(NAME, SCHEMA, key=["writer", "sequence"], times="count")
    workers = Workers(nursery, folder, chance)
    try:
        for slot in range(SLOTS):
            workers.start(slot)
        for slot in range(SLOTS):
            workers.wait_until_open(slot)
        for number in range(rounds):
            workers.work(chance.randrange(1, APPENDS_MAX))
            slot = number % SLOTS
            workers.kill(slot)
            workers.start(slot)
            if chance.random() < 0.8:  # or the next one dies while this one opens
                workers.wait_until_open(slot)
    finally:
        workers.end()
    with open_collections(folder, settings=SETTINGS) as collections:
        collection = collections.collection(NAME)
        compare(collection, workers.acknowledged, chance)
        clear_up(collection, folder)


def compare(
    collection: Collection, acknowledged: dict[int, dict[int, int]], chance: random.Random
) -> None:
    """What is there, at each time, is what was acknowledged, and of each writer one append more."""
    newest = collection.snapshot().to_arrow()
    counts = appends_in(newest)
    for writer, told in acknowledged.items():
        assert set(told) <= set(range(counts[writer])), "an acknowledged append is lost"
    changes = pyarrow.concat_tables(one.to_arrow() for one in _followed(collection))
    assert compute.sum(changes["_diff"]).as_py() == len(newest)
    times = changes.group_by(["writer", "sequence"]).aggregate([("_time", "min"), ("_time", "max")])
    at: dict[tuple[int, int], int] = {}
    for row in times.to_pylist():
        assert row["_time_min"] == row["_time_max"]
        at[row["writer"], row["sequence"]] = row["_time_min"]
    for writer, told in acknowledged.items():
        for sequence, told_time in told.items():
            assert at[writer, sequence] == told_time
    upper = collection.info().upper
    assert upper is not None
    for as_of in chance.sample(range(upper), min(upper, 8)):
        shown = collection.snapshot(as_of).to_arrow()
        appends_in(shown)
        assert len(shown) == sum(rows_of(*key) for key, moment in at.items() if moment <= as_of)


def clear_up(collection: Collection, folder: Path) -> None:
    """Nothing is left but what the rows need, and they are the same."""
    newest = collection.snapshot().to_arrow()
    time.sleep(SETTINGS.lease_ms / 1000)
    collection.append([])  # the leases of the dead end
    collection.compact()
    time.sleep(SETTINGS.garbage_delay_ms / 1000 + 0.1)
    collection.append([])
    collection.collect()
    collection.sweep()
    assert ordered(collection.snapshot().to_arrow()).equals(ordered(newest))
    left = list(folder.rglob("*.parquet"))
    assert len(left) == collection.info().parts, "what the dead left was swept"


def ordered(table: pyarrow.Table) -> pyarrow.Table:
    return table.sort_by([(name, "ascending") for name in SCHEMA.names])


def _followed(collection: Collection) -> Iterator[Any]:
    with collection.subscribe(0, until=collection.info().upper) as changes:
        yield from changes


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_no_append_is_lost_or_doubled_by_kills(nursery: Nursery, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    with folder_in_memory(tmp_path) as folder:
        kill_rounds(nursery, folder, 5, seed)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(10))
def test_no_append_is_lost_or_doubled_by_a_thousand_kills(
    nursery: Nursery, tmp_path: Path, part: int
) -> None:
    del part
    kill_rounds(nursery, tmp_path, share_of(100), random.randrange(2**32))
