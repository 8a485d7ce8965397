"""Real power cuts of a real ext4 below a client's folder, while it commits, pushes and pulls.

What may fail: everything after the cut, and whatever was not synced before it; not the place.
What may not fail: what a sync that returned made durable.
What must hold after: a commit that was acknowledged is there; the bank of the volume is whole; what
the place has is part of it, also if the push was cut; everything continues.
What does not count: what was acknowledged after the cut began. A sync that the cut meets may return
as if it had been done; the same was seen of plain ``pwrite`` and ``fdatasync``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults.crash_file_system import CrashFileSystem
from tests.support.faults.real_disk import real_disk
from tests.support.kill.nursery import Nursery
from tests.support.kill.volume_child import NAME, Work, open_client
from tests.support.soak import share_of
from tests.support.volumes.bank import audit, found

OPENS_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery("tests.support.kill.volume_child")
    yield made
    made.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CrashFileSystem]:
    yield from real_disk(tmp_path, 256)


def cut_rounds(nursery: Nursery, disk: CrashFileSystem, place: Path, rounds: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    with open_client(disk.folder, place, 0) as client:
        found(client.create(NAME))
    acknowledged = pushed = 1
    for number in range(rounds):
        work = Work(str(disk.folder), str(place), 0, chance.randrange(2**32))
        with nursery.start(work.encode()) as process:
            reports = process.until("o", OPENS_WITHIN_S)
            process.is_gone(chance.random())
            reports += process.reports()
            disk.cut()
            process.kill()
        disk.restart()
        acknowledged = max([acknowledged, *(each[2] for each in reports if each[0] == "c")])
        pushed = max([pushed, *(each[2] for each in reports if each[0] == "p")])
        try:
            look(disk.folder, place, acknowledged, pushed)
        except BaseException as error:
            error.add_note(f"seed {seed}, round {number}")
            raise
    assert acknowledged > rounds


def look(folder: Path, place: Path, acknowledged: int, pushed: int) -> None:
    """What the client has, and that it and a new one agree once it has pushed."""
    with open_client(folder, place, 0) as client:
        bank = client.volume(NAME)
        assert bank.info().local >= acknowledged
        audit(bank)
        bank.push()
        assert bank.info().remote >= pushed
        log = bank.log
        audit(bank)
    with open_client(folder, place, 1) as other:
        bank = other.volume(NAME) if NAME in other.names() else other.clone(NAME, log)
        bank.pull()
        audit(bank)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_no_commit_is_lost_by_a_real_power_cut(
    nursery: Nursery, disk: CrashFileSystem, tmp_path: Path
) -> None:
    cut_rounds(nursery, disk, tmp_path / "place", 8)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_commit_is_lost_by_many_real_power_cuts(
    nursery: Nursery, disk: CrashFileSystem, tmp_path: Path
) -> None:
    cut_rounds(nursery, disk, tmp_path / "place", share_of(200))
