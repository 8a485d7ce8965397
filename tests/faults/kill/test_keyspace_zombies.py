"""Owners of a keyspace that were taken over and do not know it, and readers beside an owner.

What may fail: an owner's process is stopped at any instant of puts, uploads, rolls, compactions and
deletes, while a newer one takes over and does the same; then it continues, next to the newer one.
What may not fail: the machine, and the files that a process has open.
What must hold: what an older owner reports as acknowledged, however late, was there when it was
stopped; it finds out that it was fenced, and ends; each change of the newer one is there, and rows,
records, manifest and footers fit together. A reader sees whole values, none older than before.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.core.errors import SnapshotExpiredError
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.open_spaces import open_space
from siltstone.store.opening import open_async_store
from tests.support.kill.keyspace_child import BUCKET, LIMITS, NAMES, Work, value_of
from tests.support.kill.keyspace_heard import OPENS_WITHIN_S, WRITERS, Heard, seen_in
from tests.support.kill.nursery import Nursery, Process
from tests.support.memory_folder import folder_in_memory
from tests.support.soak import share_of

FENCED_WITHIN_S = 30.0
QUIET = 10
"""Objects that are not changed, and are moved by compactions."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One whose children change keyspaces."""
    made = Nursery("tests.support.kill.keyspace_child")
    yield made
    made.close()


def new_store(folder: Path) -> None:
    """A store whose value segments are flushed, and so compacted, while its owner lives."""
    settings = siltstone.init(folder, containers=1)
    with settings.open("a", encoding="utf-8") as file:
        file.write("\nflush:\n  age: 50ms\ngarbage:\n  delay: 0s\n")
    with siltstone.open(folder) as store:
        objects.create(store, NAMES.name)


def all_have_worked(process: Process, heard: Heard) -> None:
    """Wait until each writer of a process reported a change."""
    heard.take(process.until("o", OPENS_WITHIN_S))
    before, waits = list(heard.numbers), 0
    while not all(now > then for now, then in zip(heard.numbers, before, strict=True)):
        heard.take(process.reports(1.0))
        waits += 1
        assert waits < OPENS_WITHIN_S, "the writers do not work"


def see_it_end(zombie: Process, heard: Heard) -> None:
    """A resumed owner ends as a fenced one; what it reports was there when it was stopped."""
    assert zombie.is_gone(FENCED_WITHIN_S), "a zombie continues"
    reports = zombie.reports()
    errors = [facts for kind, *facts in reports if kind == "e"]
    assert errors
    assert "FencedError" in str(errors), errors
    for kind, *facts in reports:
        if kind == "a":
            writer, number, _ = facts
            assert number <= heard.numbers[writer], "a zombie acknowledges"


def zombie_rounds(nursery: Nursery, folder: Path, seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    heard = Heard()
    new_store(folder)
    for number in range(rounds):
        work = Work(str(folder), [each + 1 for each in heard.numbers], compacts=True)
        with nursery.start(work.encode()) as zombie:
            all_have_worked(zombie, heard)
            zombie.is_gone(0.4 * chance.random())
            zombie.stop()
            heard.take(zombie.reports())
            try:
                heard.compare(asyncio.run(seen_in(folder, compacts=True)))
                # A change that was on its way at the stop may still be found by the next owner.
                numbers = [each + 2 for each in heard.numbers]
                work = Work(str(folder), numbers, compacts=True, takeover=True)
                newer = Heard()
                newer.numbers = [each - 1 for each in numbers]
                with nursery.start(work.encode()) as process:
                    all_have_worked(process, newer)
                    zombie.resume()
                    see_it_end(zombie, heard)
                    process.is_gone(0.3 * chance.random())
                    process.kill()
                    newer.take(process.reports())
                newer.compare(asyncio.run(seen_in(folder, compacts=True)))
            except BaseException as error:
                error.add_note(f"seed {seed}, round {number}")
                raise
        heard = newer


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_stopped_owner_does_no_harm_to_a_keyspace(nursery: Nursery, tmp_path: Path) -> None:
    with folder_in_memory(tmp_path) as folder:
        zombie_rounds(nursery, folder, random.randrange(2**32), 4)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(5))
def test_many_stopped_owners_do_no_harm_to_a_keyspace(
    nursery: Nursery, tmp_path: Path, part: int
) -> None:
    zombie_rounds(nursery, tmp_path, random.randrange(2**32), share_of(60))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_reader_beside_an_owner_that_compacts_sees_whole_values(
    nursery: Nursery, tmp_path: Path
) -> None:
    with folder_in_memory(tmp_path) as folder:
        new_store(folder)
        with siltstone.open(folder) as store:
            photos = objects.open(store, NAMES.name)
            for number in range(5 * QUIET):  # so the owner moves a few of many
                photos.put("quiet", str(number % QUIET), b"%d" % number)
        with nursery.start(Work(str(folder), [1] * WRITERS, compacts=True).encode()) as process:
            heard = Heard()
            all_have_worked(process, heard)
            newest = asyncio.run(read_beside(folder))
            heard.take(process.reports())
        assert min(newest) > 20, "the writers went on"


async def read_beside(folder: Path) -> list[int]:
    """Read while the owner works, until each key was changed often; return the newest numbers."""
    newest = [0] * WRITERS
    folded = 0
    async with await open_async_store(folder, read_only=True) as store:
        photos = AsyncKeyspace(await open_space(store, NAMES, LIMITS))
        while min(newest) <= 20 or folded < 2:
            for writer in range(WRITERS):
                found = await photos.get(BUCKET, f"writer {writer}")
                if found is not None:
                    newest[writer] = compared(writer, found.value, newest[writer])
            for number in range(QUIET):
                found = await photos.get("quiet", str(number))
                assert found is not None
                assert found.value == b"%d" % (4 * QUIET + number)
            try:
                async for each in photos.objects(BUCKET, order="sqn" if folded % 2 else "key"):
                    writer = int(each.head.key.split()[1])
                    newest[writer] = compared(writer, each.value, newest[writer])
                folded += 1
            except SnapshotExpiredError:
                continue  # the owner does not know of it
    return newest


def compared(writer: int, value: bytes, newest: int) -> int:
    """The number of a value that is whole, and not older than the newest that was seen."""
    number = int(value.split()[1])
    assert value == value_of(writer, number)
    assert number >= newest
    return number
