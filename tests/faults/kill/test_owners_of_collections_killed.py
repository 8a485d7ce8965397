"""The owner of a store with collections in a table is killed, and another one continues.

What may fail: the owner is killed at any moment, of an append, a compaction, a rollup, garbage, a
sweep or its start.
What may not fail: the machine: what the kernel has taken stays.
What must hold: each append that was acknowledged is there, whole, once, at the time that was told;
what was not acknowledged is there whole or not at all; what the dead left can be swept.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import siltstone
from siltstone.collections.blocking import open_collections
from tests.support.kill.collection_child import NAME, SCHEMA, SETTINGS, Work
from tests.support.kill.collections_left import clear_up, compare
from tests.support.kill.nursery import Nursery
from tests.support.memory_folder import folder_in_memory
from tests.support.services.table_places import table_store
from tests.support.soak import share_of

OWNED = replace(SETTINGS, consensus="table")
OPENS_WITHIN_S = 60.0
WORKS_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.support.kill.collection_child")
    yield made
    made.close()


def one_life(
    nursery: Nursery, work: Work, appends: int, moment: float, told: dict[int, int]
) -> None:
    """Let an owner append, kill it a moment later, and note what it acknowledged."""
    with nursery.start(work.encode()) as process:
        reports: list[list[object]] = [*process.until("o", OPENS_WITHIN_S)]
        wanted, end = len(told) + appends, time.monotonic() + WORKS_WITHIN_S
        while len(told) + sum(kind == "a" for kind, *_ in reports) < wanted:
            assert time.monotonic() < end, "nothing is appended"
            reports += process.reports(0.05)
        time.sleep(moment)
        process.kill()
        reports += process.reports()
    for kind, *facts in reports:
        assert kind in ("o", "a"), facts
        if kind == "o":
            continue
        _, sequence, at, repeated = facts
        assert not repeated, "a writer continues after its last sequence"
        assert isinstance(sequence, int)
        assert isinstance(at, int)
        assert sequence not in told
        told[sequence] = at


def kill_owners(nursery: Nursery, folder: Path, count: int) -> None:
    chance = random.Random(random.randrange(2**32))
    file = table_store(folder)
    told: dict[int, int] = {}
    with siltstone.open(file) as store, open_collections(store) as collections:
        collections.create(NAME, SCHEMA, key=["writer", "sequence"], times="count")
    for _ in range(count):
        work = Work(str(file), 0, chance.randrange(2**32), 0.0, owns=True)
        one_life(nursery, work, chance.randrange(1, 60), chance.random() / 50, told)

    def names() -> list[str]:
        return [str(path) for path in folder.rglob("*")]

    with siltstone.open(file) as store, open_collections(store, settings=OWNED) as collections:
        collection = collections.collection(NAME)
        compare(collection, {0: told}, chance)
        clear_up(collection, names)
        assert list(collections.check(deep=True)) == []


def test_no_append_is_lost_or_doubled_when_owners_are_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    with folder_in_memory(tmp_path) as folder:
        kill_owners(nursery, folder, 3)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_no_append_is_lost_or_doubled_when_hundreds_of_owners_are_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    kill_owners(nursery, tmp_path, share_of(200))
