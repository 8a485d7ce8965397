"""A keyspace under kill -9.

What may fail: the owner's process is killed at any instant, again and again: of batches, rolls,
footers, uploads of large values, value compactions, deletes of segments, or its opening.
What may not fail: the machine: what the kernel has taken stays.
What must hold: each change that was acknowledged is there, with its SQN; one that was not is there
as a whole or not at all; rows, records, manifest and footers fit together, and records alone give
the same; in the end nothing is left of large values that no object has.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.objects.open_spaces import open_space
from siltstone.objects.records.keys import LargeStatus
from siltstone.store.opening import open_async_store
from tests.support.kill.keyspace_child import LIMITS, NAMES, Work
from tests.support.kill.keyspace_heard import OPENS_WITHIN_S, Heard, seen_in
from tests.support.kill.nursery import Nursery
from tests.support.memory_folder import folder_in_memory
from tests.support.objects.streams_to_put import left
from tests.support.objects.value_replay import replay
from tests.support.soak import share_of


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One whose children change keyspaces."""
    made = Nursery("tests.support.kill.keyspace_child")
    yield made
    made.close()


async def dropped(folder: Path) -> int:
    """How many records are there no longer."""
    async with await open_async_store(folder, read_only=True) as store:
        found = await replay(await open_space(store, NAMES, LIMITS))
    return max(found.records, default=0) - len(found.records)


async def left_in(folder: Path) -> set[LargeStatus]:
    """How far the large values are once an owner has opened the keyspace."""
    async with await open_async_store(folder) as store:
        return (await left(await open_space(store, NAMES)))[0]


def kill_rounds(
    nursery: Nursery, folder: Path, seed: int, rounds: int, seconds: float, *, compacts: bool
) -> None:
    chance = random.Random(seed)
    heard = Heard()
    siltstone.init(folder, containers=1)
    with siltstone.open(folder) as store:
        objects.create(store, NAMES.name)
    for number in range(rounds):
        work = Work(str(folder), [each + 1 for each in heard.numbers], compacts)
        with nursery.start(work.encode()) as process:
            if chance.random() < 0.1 and number:
                heard.take(process.reports(chance.random() * 0.3))  # in the middle of its opening
            else:
                heard.take(process.until("o", OPENS_WITHIN_S))
                process.is_gone(seconds * chance.random() ** 2)
            process.kill()
            heard.take(process.reports())
        try:
            heard.compare(asyncio.run(seen_in(folder, compacts=compacts)))
        except BaseException as error:
            error.add_note(f"seed {seed}, round {number}")
            raise
    assert min(heard.numbers) > rounds, "the writers worked"
    assert (asyncio.run(dropped(folder)) > 0) == compacts
    assert asyncio.run(left_in(folder)) <= {LargeStatus.LIVE}


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("compacts", [False, True])
def test_no_change_is_lost_or_torn_by_kills(
    nursery: Nursery, tmp_path: Path, compacts: bool
) -> None:
    with folder_in_memory(tmp_path) as folder:
        seed = random.randrange(2**32)
        kill_rounds(nursery, folder, seed, rounds=25, seconds=0.4, compacts=compacts)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(10))
def test_no_change_is_lost_or_torn_by_a_thousand_kills(
    nursery: Nursery, tmp_path: Path, part: int
) -> None:
    rounds, seed, compacts = share_of(100), random.randrange(2**32), part % 2 == 1
    kill_rounds(nursery, tmp_path, seed, rounds, seconds=0.6, compacts=compacts)
