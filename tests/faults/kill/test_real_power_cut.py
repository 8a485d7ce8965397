"""Real power cuts of a real ext4 below a whole container: log, chunks, index.

What may fail: everything after the cut, and whatever was not synced before it.
What may not fail: what a sync that returned made durable.
What must hold after: as after a kill: what was acknowledged is there, whole, at its place and once;
a check finds no damage; the next owner opens at once and continues.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults.crash_file_system import CrashFileSystem
from tests.support.faults.place import Place
from tests.support.faults.real_disk import real_disk
from tests.support.kill.child import Work
from tests.support.kill.ledger import Ledger
from tests.support.kill.look import OPENS_WITHIN_S, look
from tests.support.kill.nursery import Nursery
from tests.support.soak import share_of


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CrashFileSystem]:
    yield from real_disk(tmp_path, 256)


def cut_rounds(nursery: Nursery, disk: CrashFileSystem, rounds: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    place = Place(disk.folder / "store")
    place.folder.mkdir()
    ledger = Ledger()
    for number in range(rounds):
        work = Work(str(place.folder), chance.randrange(2**32), number + 1, ledger.once)
        with nursery.start(work.encode()) as process:
            if chance.random() < 0.2 and number:
                ledger.take(process.reports(chance.random() * 0.1))  # in the middle of its boot
            else:
                ledger.take(process.until("o", OPENS_WITHIN_S))
                process.is_gone(chance.random())
            disk.cut()
            process.kill()
            # What it says of the cut is no error of a round; what it acknowledged counts.
            ledger.take([report for report in process.reports() if report[0] != "e"])
        disk.restart()
        try:
            assert ledger.errors == []
            asyncio.run(look(place, ledger, own=number % 2 == 0))
        except BaseException as error:
            error.add_note(f"seed {seed}, round {number}")
            raise


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_nothing_acknowledged_is_lost_by_a_real_power_cut(
    nursery: Nursery, disk: CrashFileSystem
) -> None:
    cut_rounds(nursery, disk, 10)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_nothing_acknowledged_is_lost_by_many_real_power_cuts(
    nursery: Nursery, disk: CrashFileSystem
) -> None:
    cut_rounds(nursery, disk, share_of(200))
