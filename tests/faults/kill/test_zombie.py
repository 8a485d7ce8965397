"""Owners that were taken over and do not know it.

What may fail: an owner's process is stopped at any instant, for any length of time, while one or
two newer owners take over and write, flush, truncate, delete and collect; then it continues, next
to the newest owner or after it.
What may not fail: the machine, and the files that a process has open.
What must hold after: whatever an older owner reports as acknowledged, however late, is there; it
acknowledges nothing that the newer one does not know; it changes and removes no file of a newer
epoch; it finds out by itself that it was fenced, and ends; a check finds no damage.
"""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.faults.place import Place
from tests.support.kill.child import Work
from tests.support.kill.ledger import Ledger
from tests.support.kill.look import OPENS_WITHIN_S, look
from tests.support.kill.nursery import Nursery, Process
from tests.support.kill.tree import check_zombies_harmless, tree_of
from tests.support.soak import share_of

FENCED_WITHIN_S = 30.0
IN_FLIGHT_MAX = 60
"""More than all writers of one child have in flight at a time."""

EXPECTED = {"FencedError", "OutcomeUnknownError", "ClosedError", "BackPressureError"}


def test_only_the_test_resumes_a_stopped_owner(nursery: Nursery, disk_path: Path) -> None:
    with nursery.start(Work(str(disk_path), 1, 1).encode()) as process:
        assert os.getsid(process.pid) != os.getsid(0), "the end of a shell would reach it"


class Rounds:
    """One container and its owners, one round after the other."""

    def __init__(self, nursery: Nursery, folder: Path, seed: int) -> None:
        self._nursery = nursery
        self._place = Place(folder)
        self._chance = random.Random(seed)
        self._ledger = Ledger()
        self._children = 0
        self._epochs: dict[int, int] = {}

    def play(self) -> None:
        """Stop one or two owners, let another one work, and resume the stopped ones."""
        chance = self._chance
        with ExitStack() as stack:
            zombies = []
            for index in range(chance.choice((1, 1, 2))):
                zombie = stack.enter_context(self._start(takeover=index > 0, seconds=60))
                self._let_work(zombie, 0.4)
                zombie.stop()
                self._ledger.take(zombie.reports())
                zombies.append(zombie)
            quiet = chance.random() < 0.6
            last = stack.enter_context(self._start(takeover=True, seconds=0.4 if quiet else 60))
            if quiet:
                self._ledger.take(last.until("end", OPENS_WITHIN_S))
                assert last.is_gone(OPENS_WITHIN_S)
            else:
                self._let_work(last, 0.3)
            before = tree_of(self._place) if quiet else {}
            for zombie in chance.sample(zombies, len(zombies)):
                zombie.resume()
            for zombie in zombies:
                self._see_it_end(zombie)
            if quiet:
                epochs = [self._epochs[zombie.pid] for zombie in zombies]
                check_zombies_harmless(before, tree_of(self._place), epochs)
            else:
                self._let_work(last, 0.2)
                last.kill()
                self._ledger.take(last.reports())
        assert self._ledger.errors == []
        asyncio.run(look(self._place, self._ledger, own=True))

    def _start(self, *, takeover: bool, seconds: float) -> Process:
        self._children += 1
        work = Work(
            folder=str(self._place.folder),
            seed=self._chance.randrange(2**32),
            number=self._children,
            once=self._ledger.once,
            takeover=takeover,
            index=f"index-{self._children % 3}" if takeover else "index",
            seconds=seconds,
        )
        process = self._nursery.start(work.encode())
        reports = process.until("o", OPENS_WITHIN_S)
        self._epochs[process.pid] = next(report[1] for report in reports if report[0] == "o")
        self._ledger.take(reports)
        return process

    def _let_work(self, process: Process, seconds: float) -> None:
        process.is_gone(seconds * self._chance.random())
        self._ledger.take(process.reports())

    def _see_it_end(self, zombie: Process) -> None:
        assert zombie.is_gone(FENCED_WITHIN_S), "a zombie continues"
        reports = zombie.reports()
        late = [report for report in reports if report[0] == "a"]
        assert len(late) <= IN_FLIGHT_MAX, "a zombie acknowledges"
        errors = {report[1] for report in reports if report[0] == "e"}
        assert "FencedError" in errors, f"a zombie was not told that it is fenced: {errors}"
        assert errors <= EXPECTED, reports
        # What was acknowledged before the stop may be reported after it, and must be there.
        self._ledger.take([report for report in reports if report[0] != "e"])


def zombie_rounds(nursery: Nursery, folder: Path, rounds: int) -> None:
    seed = random.randrange(2**32)
    played = Rounds(nursery, folder, seed)
    for number in range(rounds):
        try:
            played.play()
        except BaseException as error:
            error.add_note(f"seed {seed}, round {number}")
            raise


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_stopped_owner_does_no_harm_when_it_is_resumed(nursery: Nursery, disk_path: Path) -> None:
    zombie_rounds(nursery, disk_path, 10)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(5))
def test_many_stopped_owners_do_no_harm(nursery: Nursery, disk_path: Path, part: int) -> None:
    zombie_rounds(nursery, disk_path, share_of(60))
