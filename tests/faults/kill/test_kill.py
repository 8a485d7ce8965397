"""A whole container under kill -9.

What may fail: the owner's process is killed at any instant, again and again, with several writers,
flushes, checkpoints, truncations, deletions and joins on their way.
What may not fail: the machine: what the kernel has taken stays.
What must hold after: every acknowledged append is there, whole, at its place, in its order, and
once; what was not acknowledged is there as a whole or not at all; a commit is there with its table
update or not at all; what was truncated or deleted stays so; a check finds no damage; the next
owner opens politely at once.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import StoreInUseError
from tests.support.faults.place import Place
from tests.support.kill.child import Work
from tests.support.kill.ledger import Ledger
from tests.support.kill.look import OPENS_WITHIN_S, look
from tests.support.kill.nursery import Nursery
from tests.support.soak import share_of


def kill_rounds(nursery: Nursery, folder: Path, seed: int, rounds: int, seconds: float) -> None:
    chance = random.Random(seed)
    place = Place(folder)
    ledger = Ledger()
    shared = False
    for number in range(rounds):
        where = f"seed {seed}, round {number}"
        work = Work(str(folder), chance.randrange(2**32), number + 1, ledger.once)
        if chance.random() < 0.3:  # it closes at about the time at which it is killed
            work = replace(work, seconds=seconds * chance.random())
        with nursery.start(work.encode()) as process:
            if chance.random() < 0.1 and number:
                ledger.take(process.reports(chance.random() * 0.06))  # in the middle of its boot
            else:
                ledger.take(process.until("o", OPENS_WITHIN_S))
                process.is_gone(seconds * chance.random() ** 2)
            process.kill()
            ledger.take(process.reports())
        assert ledger.errors == [], where
        try:
            asyncio.run(look(place, ledger, own=number % 3 == 0))
        except Exception as error:
            error.add_note(where)
            raise
        shared = shared or any(folder.rglob("_shared/*.chunk"))
    assert shared, "no chunk was shared"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_nothing_acknowledged_is_lost_by_kill(nursery: Nursery, disk_path: Path) -> None:
    kill_rounds(nursery, disk_path, seed=random.randrange(2**32), rounds=50, seconds=0.8)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(10))
def test_nothing_acknowledged_is_lost_by_a_thousand_kills(
    nursery: Nursery, disk_path: Path, part: int
) -> None:
    kill_rounds(nursery, disk_path, seed=random.randrange(2**32), rounds=share_of(100), seconds=2.0)


def test_a_polite_claim_is_refused_until_the_owner_is_killed(
    nursery: Nursery, disk_path: Path
) -> None:
    with nursery.start(Work(str(disk_path), 1, 1).encode()) as process:
        process.until("a", OPENS_WITHIN_S)
        with pytest.raises(StoreInUseError) as refused:
            asyncio.run(look(Place(disk_path), Ledger(), own=True))
        assert refused.value.owner == "child 1"
        process.kill()
    asyncio.run(_own(Place(disk_path)))


async def _own(place: Place) -> None:
    environment = SystemEnvironment()
    await (await place.own(environment)).close()
    environment.close()
