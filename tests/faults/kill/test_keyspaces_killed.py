"""A keyspace under kill -9.

What may fail: the owner's process is killed at any instant, again and again: of batches, rolls,
footers, or its opening.
What may not fail: the machine: what the kernel has taken stays.
What must hold: each change that was acknowledged is there, with its SQN; one that was not is there
as a whole or not at all; rows, records, manifest and footers fit together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import objects
from siltstone.store.opening import open_async_store
from tests.support.kill.keyspace_child import NAMES, Work, removes, value_of
from tests.support.kill.nursery import Nursery
from tests.support.memory_folder import folder_in_memory
from tests.support.objects.space_check import SeenSpace, look
from tests.support.soak import share_of

OPENS_WITHIN_S = 60.0
WRITERS = 6


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One whose children change keyspaces."""
    made = Nursery("tests.support.kill.keyspace_child")
    yield made
    made.close()


class Heard:
    """What the writers reported: of each its newest number, and the SQN of that."""

    def __init__(self) -> None:
        self.numbers = [0] * WRITERS
        self.sqns: list[int | None] = [None] * WRITERS

    def take(self, reports: list[list[Any]]) -> None:
        for kind, *facts in reports:
            assert kind != "e", facts
            if kind == "a":
                writer, number, sqn = facts
                self.numbers[writer], self.sqns[writer] = number, sqn

    def compare(self, seen: SeenSpace) -> None:
        """Each writer's newest change is there, or the one after it; goes on from what is there."""
        objects_by_key = {key.key.decode(): each for key, each in seen.objects.items()}
        for writer, number in enumerate(self.numbers):
            found = objects_by_key.get(f"writer {writer}")
            if found is None:
                assert removes(number) or removes(number + 1)
                self.numbers[writer] = number if removes(number) else number + 1
                continue
            there = int(found.value.split()[1])
            assert there in (number, number + 1)
            assert found.value == value_of(writer, there)
            assert [term for _, term in found.head.entries] == [str(there).encode()]
            assert there != number or self.sqns[writer] in (found.head.sqn, None)
            self.numbers[writer], self.sqns[writer] = there, found.head.sqn


async def seen_in(folder: Path) -> SeenSpace:
    async with await open_async_store(folder, read_only=True) as store:
        return await look(store, NAMES)


def kill_rounds(nursery: Nursery, folder: Path, seed: int, rounds: int, seconds: float) -> None:
    chance = random.Random(seed)
    heard = Heard()
    siltstone.init(folder, containers=1)
    with siltstone.open(folder) as store:
        objects.create(store, NAMES.name)
    for number in range(rounds):
        work = Work(str(folder), [each + 1 for each in heard.numbers])
        with nursery.start(work.encode()) as process:
            if chance.random() < 0.1 and number:
                heard.take(process.reports(chance.random() * 0.3))  # in the middle of its opening
            else:
                heard.take(process.until("o", OPENS_WITHIN_S))
                process.is_gone(seconds * chance.random() ** 2)
            process.kill()
            heard.take(process.reports())
        try:
            heard.compare(asyncio.run(seen_in(folder)))
        except BaseException as error:
            error.add_note(f"seed {seed}, round {number}")
            raise
    assert min(heard.numbers) > rounds, "the writers worked"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_no_change_is_lost_or_torn_by_kills(nursery: Nursery, tmp_path: Path) -> None:
    with folder_in_memory(tmp_path) as folder:
        kill_rounds(nursery, folder, random.randrange(2**32), rounds=10, seconds=0.6)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(10))
def test_no_change_is_lost_or_torn_by_a_thousand_kills(
    nursery: Nursery, tmp_path: Path, part: int
) -> None:
    del part
    kill_rounds(nursery, tmp_path, random.randrange(2**32), rounds=share_of(100), seconds=0.6)
