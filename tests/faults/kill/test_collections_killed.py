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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import siltstone
from services.s3_server import S3Server
from siltstone.collections.blocking import open_collections
from tests.support.kill.collection_child import NAME, SCHEMA, SETTINGS, Work
from tests.support.kill.collections_left import Names, clear_up, compare
from tests.support.kill.nursery import Nursery
from tests.support.kill.slots import Slots
from tests.support.memory_folder import folder_in_memory
from tests.support.services.s3_services import new_bucket, options_of
from tests.support.soak import share_of

SLOTS = 4


@dataclass(frozen=True)
class Rounds:
    """How often a process is killed.

    Attributes:
        count: so often.
        appends_max: of all processes together between two kills.
        pause_s: of a process between two appends, at most. With pauses others start sooner.
    """

    count: int
    appends_max: int
    pause_s: float


FAST = Rounds(count=50, appends_max=8, pause_s=0.1)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.support.kill.collection_child")
    yield made
    made.close()


class Workers:
    """Four processes, and what they acknowledged.

    Attributes:
        slots: the processes.
        acknowledged: the time of each append, by writer and sequence.
        count: how many appends that are.
    """

    def __init__(
        self, nursery: Nursery, store: Path, pause_s: float, chance: random.Random
    ) -> None:
        self._store = store
        self._pause_s = pause_s
        self._chance = chance
        self.slots = Slots(nursery, self._request, self._take)
        self.acknowledged: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self.count = 0

    def work(self, appends: int) -> None:
        """Let them make so many appends together, and a moment more."""
        wanted = self.count + appends
        self.slots.work_until(lambda: self.count >= wanted)
        time.sleep(self._chance.random() / 50)

    def _request(self, slot: int) -> bytes:
        return Work(str(self._store), slot, self._chance.randrange(2**32), self._pause_s).encode()

    def _take(self, kind: str, facts: list[Any]) -> None:
        assert kind != "e", facts
        if kind == "a":
            slot, sequence, told_time, repeated = facts
            assert not repeated, "a writer continues after its last sequence"
            assert sequence not in self.acknowledged[slot]
            self.acknowledged[slot][sequence] = told_time
            self.count += 1


def kill_rounds(nursery: Nursery, store: Path, names: Names, rounds: Rounds, seed: int) -> None:
    chance = random.Random(seed)
    with open_collections(store) as collections:
        collections.create(NAME, SCHEMA, key=["writer", "sequence"], times="count")
    workers = Workers(nursery, store, rounds.pause_s, chance)
    try:
        workers.slots.start_all(SLOTS)
        for number in range(rounds.count):
            workers.work(chance.randrange(1, rounds.appends_max))
            slot = number % SLOTS
            workers.slots.kill(slot)
            workers.slots.start(slot)
            if chance.random() < 0.8:  # or the next one dies while this one opens
                workers.slots.wait_until_open(slot)
    finally:
        workers.slots.end()
    with open_collections(store, settings=SETTINGS) as collections:
        collection = collections.collection(NAME)
        compare(collection, workers.acknowledged, chance)
        clear_up(collection, names)


def kills_on_files(nursery: Nursery, folder: Path, rounds: Rounds) -> None:
    file = siltstone.init(folder, containers=1)

    def names() -> list[str]:
        return [str(path) for path in folder.rglob("*")]

    kill_rounds(nursery, file, names, rounds, random.randrange(2**32))


def kills_on_s3(nursery: Nursery, server: S3Server, folder: Path, rounds: Rounds) -> None:
    bucket, raw = new_bucket(server)
    file = siltstone.init(folder, binding="s3", options=options_of(server, bucket), containers=1)
    kill_rounds(nursery, file, raw.keys, rounds, random.randrange(2**32))


def thorough(pause_s: float = 0.0) -> Rounds:
    return Rounds(count=share_of(100), appends_max=30, pause_s=pause_s)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_no_append_is_lost_or_doubled_by_kills(nursery: Nursery, tmp_path: Path) -> None:
    with folder_in_memory(tmp_path) as folder:
        kills_on_files(nursery, folder, FAST)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("s3_plugin")
def test_no_append_in_a_bucket_is_lost_or_doubled_by_kills(
    nursery: Nursery, versitygw: S3Server, tmp_path: Path
) -> None:
    kills_on_s3(nursery, versitygw, tmp_path, replace(FAST, pause_s=0.4))


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(10))
def test_no_append_is_lost_or_doubled_by_a_thousand_kills(
    nursery: Nursery, tmp_path: Path, part: int
) -> None:
    del part
    kills_on_files(nursery, tmp_path, thorough())


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(10))
@pytest.mark.usefixtures("s3_plugin")
def test_no_append_in_a_bucket_is_lost_or_doubled_by_a_thousand_kills(
    nursery: Nursery, versitygw: S3Server, tmp_path: Path, part: int
) -> None:
    del part
    kills_on_s3(nursery, versitygw, tmp_path, thorough(pause_s=0.2))
