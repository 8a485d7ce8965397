"""Several processes read lists in a collection and append to them, and are killed one by one.

A transaction reads at the upper, its read split at random between rows at a time and the changes
after it. A writer appends on the condition that the upper is still the same; what readers saw has
to fit as well.
What may fail: a process is killed at any moment, of an append, a compaction, a rollup, garbage, a
sweep or its start; another one continues as the same writer.
What may not fail: the machine: what the kernel has taken stays.
What must hold: rows and the changes after them are what all changes alone make; a list that was
read begins with each one that was there before it; some order of the transactions of all processes
explains all that was seen, in which each comes after those that had ended before it began.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import siltstone
from services.s3_server import S3Server
from siltstone.collections.blocking import Collection, open_collections
from tests.support.collections.list_reader import HISTORY, KEYS, LISTS, last_of, lists_of, misfits
from tests.support.kill.list_child import NAME, SETTINGS, ListWork
from tests.support.kill.nursery import Nursery
from tests.support.kill.slots import Slots
from tests.support.memory_folder import folder_in_memory
from tests.support.oracles.isolation import End, Transaction, anomalies
from tests.support.services.s3_services import new_bucket, options_of
from tests.support.soak import share_of


@dataclass(frozen=True)
class Rounds:
    """How much is done.

    Attributes:
        kills: so often a process is killed.
        commits_max: transactions that write, of all processes together, between two kills.
        writers: processes that append; one that reads alone comes with each two of them.
        pause_s: of a process between two transactions, at most.
    """

    kills: int
    commits_max: int
    writers: int = 3
    pause_s: float = 0.02


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.support.kill.list_child")
    yield made
    made.close()


class Histories:
    """What the processes of one run saw.

    Attributes:
        slots: the processes.
        seen: transactions by their names.
        lists: each list that was read.
        commits: how many transactions that write are known to have taken effect.
    """

    def __init__(
        self, nursery: Nursery, store: Path, rounds: Rounds, chance: random.Random
    ) -> None:
        self._store = store
        self._rounds = rounds
        self._chance = chance
        self._lives: dict[int, int] = {}
        self._last: dict[int, tuple[str, int | None]] = {}
        self.slots = Slots(nursery, self._request, self._take)
        self.seen: dict[str, Transaction] = {}
        self.lists: list[tuple[str, str]] = []
        self.commits = 0

    def work(self, commits: int) -> None:
        """Let so many more transactions that write take effect, and a moment pass."""
        wanted = self.commits + commits
        self.slots.work_until(lambda: self.commits >= wanted)
        time.sleep(self._chance.random() / 50)

    def _request(self, slot: int) -> bytes:
        life = self._lives[slot] = self._lives.get(slot, -1) + 1
        return ListWork(
            store=str(self._store),
            slot=slot,
            life=life,
            seed=self._chance.randrange(2**32),
            pause_s=self._rounds.pause_s,
            writes=slot < self._rounds.writers,
        ).encode()

    def _take(self, kind: str, facts: list[Any]) -> None:
        match kind:
            case "o":
                self._learn_last(*facts)
            case "b":
                slot, name, reads, writes, began, sequence, lists = facts
                self._last[slot] = (name, sequence)
                self.lists += lists.items()
                self.seen[name] = Transaction(
                    name=name, reads=reads, writes=frozenset(writes), end=End.UNKNOWN, began=began
                )
            case "t":
                name, end, ended = facts
                self._ends(name, End(end), ended)
            case _:
                raise AssertionError(facts)

    def _ends(self, name: str, end: End, ended: int) -> None:
        was = self.seen[name]
        self.commits += end is End.COMMITTED and bool(was.writes)
        ended_at = ended if end is End.COMMITTED else None
        self.seen[name] = replace(was, end=end, ended=ended_at)

    def _learn_last(self, slot: int, sequence: int, moment: int) -> None:
        """The next process of a slot knows the last sequence of its writer."""
        name, sent = self._last.get(slot, ("", None))
        if sent is not None and sent == sequence and self.seen[name].end is not End.COMMITTED:
            assert self.seen[name].end is End.UNKNOWN, "what was refused has no effect"
            self._ends(name, End.COMMITTED, moment)

    def looked(self, collection: Collection) -> None:
        """Read once more when all processes are dead."""
        began = time.monotonic_ns()
        rows = collection.snapshot().to_arrow().to_pylist()
        lists = lists_of((row["k"], row["list"], 1) for row in rows)
        self.lists += lists.items()
        reads = {key: last_of(lists.get(key)) for key in KEYS}
        self.seen["the end"] = Transaction(name="the end", reads=reads, began=began)


def play(nursery: Nursery, store: Path, rounds: Rounds, seed: int) -> list[Transaction]:
    """Let processes work and kill them; return what they saw, which some order explains."""
    chance = random.Random(seed)
    with open_collections(store) as collections:
        made = collections.create(NAME, LISTS, key=["k"], times="count", history=HISTORY)
        made.append([])
    histories = Histories(nursery, store, rounds, chance)
    slots, count = histories.slots, rounds.writers + rounds.writers // 2
    try:
        slots.start_all(count)
        for number in range(rounds.kills):
            histories.work(chance.randint(1, rounds.commits_max))
            slot = number % count
            slots.kill(slot)
            slots.start(slot)
            if chance.random() < 0.8:  # or the next one dies while this one opens
                slots.wait_until_open(slot)
    finally:
        slots.end()
    with open_collections(store, settings=SETTINGS) as collections:
        histories.looked(collections.collection(NAME))
    seen = list(histories.seen.values())
    assert misfits(histories.lists) == [], f"seed {seed}"
    assert anomalies(seen) == [], f"seed {seed}"
    return seen


def on_files(nursery: Nursery, folder: Path, rounds: Rounds) -> list[Transaction]:
    file = siltstone.init(folder, containers=1)
    return play(nursery, file, rounds, random.randrange(2**32))


def on_s3(nursery: Nursery, server: S3Server, folder: Path, rounds: Rounds) -> list[Transaction]:
    bucket, _ = new_bucket(server)
    file = siltstone.init(folder, binding="s3", options=options_of(server, bucket), containers=1)
    return play(nursery, file, rounds, random.randrange(2**32))


@pytest.mark.slow
def test_some_order_explains_what_processes_on_files_saw(nursery: Nursery, tmp_path: Path) -> None:
    with folder_in_memory(tmp_path) as folder:
        seen = on_files(nursery, folder, Rounds(kills=3, commits_max=6, writers=2))
    writes = [one for one in seen if one.writes and one.end is End.COMMITTED]
    assert len(writes) >= 3, "one before each kill"


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(10))
def test_some_order_explains_what_many_processes_on_files_saw(
    nursery: Nursery, tmp_path: Path, part: int
) -> None:
    on_files(nursery, tmp_path, Rounds(kills=share_of(50), commits_max=20, writers=2 + part % 3))


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(10))
@pytest.mark.usefixtures("s3_plugin")
def test_some_order_explains_what_many_processes_in_a_bucket_saw(
    nursery: Nursery, versitygw: S3Server, tmp_path: Path, part: int
) -> None:
    on_s3(
        nursery,
        versitygw,
        tmp_path,
        Rounds(kills=share_of(25), commits_max=20, writers=2 + part % 3),
    )
