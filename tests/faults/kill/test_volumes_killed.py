"""Two clients of one place hold the same bank, and one after the other is killed.

What may fail: a client is killed at any moment, of a commit, a push, a pull, a reset or its start.
What may not fail: the machine: what the kernel has taken stays.
What must hold: no client sees an error; every snapshot that a client reads has the same total, and
pages of one moment; a commit that was acknowledged has its LSN, and a push its record; a client
that is new has what the last record says.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kill.nursery import Nursery
from tests.support.kill.slots import Slots
from tests.support.kill.volume_child import NAME, Work, open_client
from tests.support.memory_folder import folder_in_memory
from tests.support.soak import share_of
from tests.support.volumes.bank import audit, found

CLIENTS = 2
PLACE = "place"
KILLS = 50
COMMITS_MAX = 12
"""Of both clients together between two kills."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.support.kill.volume_child")
    yield made
    made.close()


class Clients:
    """The processes, and what they acknowledged.

    Attributes:
        slots: the processes.
        commits: how many commits were acknowledged.
        local: by slot, the newest local LSN that was acknowledged.
        remote: the newest remote LSN that a push was told.
    """

    def __init__(self, nursery: Nursery, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self.slots = Slots(nursery, self._request, self._take)
        self.commits = 0
        self.local = dict.fromkeys(range(CLIENTS), 0)
        self.remote = 0

    def work(self, commits: int) -> None:
        """Let them make so many commits together, and a moment more."""
        wanted = self.commits + commits
        self.slots.work_until(lambda: self.commits >= wanted)
        time.sleep(self._chance.random() / 50)

    def _request(self, slot: int) -> bytes:
        work = Work(
            folder=str(self._folder),
            place=str(self._folder / PLACE),
            slot=slot,
            seed=self._chance.randrange(2**32),
        )
        return work.encode()

    def _take(self, kind: str, facts: list[Any]) -> None:
        assert kind != "e", facts
        if kind == "c":
            slot, lsn = facts
            assert lsn > self.local[slot], "each commit has an LSN of its own"
            self.local[slot] = lsn
            self.commits += 1
        elif kind == "p":
            self.remote = max(self.remote, facts[1])


def kill_rounds(nursery: Nursery, folder: Path, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    with open_client(folder, folder / PLACE, 0) as client:
        bank = client.create(NAME)
        found(bank)
        bank.push()
        log = bank.log
    for slot in range(1, CLIENTS):
        with open_client(folder, folder / PLACE, slot) as client:
            client.clone(NAME, log)
    clients = Clients(nursery, folder, chance)
    try:
        clients.slots.start_all(CLIENTS)
        for number in range(rounds):
            clients.work(chance.randrange(1, COMMITS_MAX))
            slot = number % CLIENTS
            clients.slots.kill(slot)
            if chance.random() < 0.3:
                look(folder, slot, clients)
            clients.slots.start(slot)
            if chance.random() < 0.8:  # or the next one dies while this one opens
                clients.slots.wait_until_open(slot)
    finally:
        clients.slots.end()
    for slot in range(CLIENTS):
        look(folder, slot, clients)
    compare(folder, log, clients)


def look(folder: Path, slot: int, clients: Clients) -> None:
    """What a client that was killed has."""
    with open_client(folder, folder / PLACE, slot) as client:
        bank = client.volume(NAME)
        assert bank.info().local >= clients.local[slot]
        audit(bank)


def compare(folder: Path, log: str, clients: Clients) -> None:
    """All clients agree in the end, and one that is new."""
    heads = set()
    for slot in range(CLIENTS):
        with open_client(folder, folder / PLACE, slot) as client:
            client.volume(NAME).reset()
    for slot in range(CLIENTS):
        with open_client(folder, folder / PLACE, slot) as client:
            bank = client.volume(NAME)
            bank.pull()
            audit(bank)
            heads.add(bank.info().remote)
    with open_client(folder, folder / PLACE, CLIENTS) as client:
        bank = client.clone(NAME, log)
        audit(bank)
        heads.add(bank.info().remote)
    assert len(heads) == 1
    assert heads.pop() >= clients.remote > 1


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_bank_of_two_clients_outlives_kills(nursery: Nursery, tmp_path: Path) -> None:
    with folder_in_memory(tmp_path) as folder:
        kill_rounds(nursery, folder, KILLS, random.randrange(2**32))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_bank_of_two_clients_outlives_a_thousand_kills(
    nursery: Nursery, tmp_path: Path
) -> None:
    with folder_in_memory(tmp_path) as folder:
        kill_rounds(nursery, folder, share_of(1_000), random.randrange(2**32))
