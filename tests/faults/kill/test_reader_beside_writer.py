"""A read-only open next to an owner in another process that never rests.

What may happen: between any two steps of the reader the owner appends, flushes, truncates, joins,
deletes, writes checkpoints, drops log files and deletes chunks without any delay; it is killed and
followed by another.
What may not happen: damage.
What must hold: whatever the reader shows is what was appended, at its place; no length and no start
ever goes back; what an older look showed stays as it was; nothing fails but what the owner really
took away: a deleted segment, truncated bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from siltstone.container.reader.read_container import ReadContainer
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import SegmentNotFoundError, SegmentTruncatedError
from tests.support.faults.place import Place
from tests.support.kill.child import SEGMENTS, Work
from tests.support.kill.ledger import COUNT_KEY, PAIR, TABLE, damage
from tests.support.kill.look import OPENS_WITHIN_S
from tests.support.kill.nursery import Nursery, Process
from tests.support.kill.payload import parse


class Watcher:
    """Reads at random, and remembers what it was shown."""

    def __init__(self, reader: ReadContainer, chance: random.Random) -> None:
        self.reads = 0
        self._reader = reader
        self._chance = chance
        self._starts: defaultdict[str, int] = defaultdict(int)
        self._ends: defaultdict[str, int] = defaultdict(int)
        self._count = -1

    async def look(self) -> None:
        """One random look."""
        kind = self._chance.random()
        if kind < 0.1:
            await self._reader.refresh()
        elif kind < 0.2:
            await self._table()
        elif kind < 0.25:
            await self._lives()
        elif kind < 0.27:
            assert await damage(self._reader) == []
        elif kind < 0.32:
            await self._late(self._chance.choice(SEGMENTS))
        else:
            await self._segment(self._chance.choice(SEGMENTS))
        self.reads += 1

    async def _segment(self, name: str) -> None:
        with contextlib.suppress(SegmentNotFoundError):
            info = await self._reader.info(name)
            assert info.start_offset >= self._starts[name], f"start of {name} went back"
            assert info.length >= self._ends[name], f"length of {name} went back"
            self._starts[name], self._ends[name] = info.start_offset, info.length
            start = info.start_offset
            try:
                data = await self._reader.read(name, start, info.length - start)
            except SegmentTruncatedError:
                return
            assert len(data) == info.length - start, f"{name} is shorter than it said"
            parse(data, start)

    async def _late(self, name: str) -> None:
        """Read what an older look saw, whose chunks may be gone by now."""
        start, end = self._starts[name], self._ends[name]
        await asyncio.sleep(0.3 * self._chance.random())
        with contextlib.suppress(SegmentNotFoundError, SegmentTruncatedError):
            data = await self._reader.read(name, start, end - start)
            assert len(data) == end - start, f"{name} is shorter than it was"
            parse(data, start)

    async def _table(self) -> None:
        info = await self._reader.info(PAIR)
        found = await self._reader.table_get(TABLE, COUNT_KEY)
        count = -1 if found is None else int(found.value)
        assert count >= self._count, "the table went back"
        self._count = count
        if count >= 0:
            again = await self._reader.info(PAIR)
            assert again.length >= info.length

    async def _lives(self) -> None:
        for info in await self._reader.list_segments("life/"):
            with contextlib.suppress(SegmentNotFoundError):
                parse(await self._reader.read(info.name, 0, info.length), 0)


class Owners:
    """One owner after the other, each killed before the next."""

    def __init__(self, nursery: Nursery, place: Place, chance: random.Random) -> None:
        self._nursery = nursery
        self._place = place
        self._chance = chance
        self._number = 0
        self._once = -1
        self._process: Process | None = None

    def next(self) -> None:
        """Kill the owner, if there is one, and start another."""
        self.end()
        self._number += 1
        work = Work(
            str(self._place.folder), self._chance.randrange(2**32), self._number, self._once
        )
        self._process = self._nursery.start(work.encode())
        self._hear(self._process.until("o", OPENS_WITHIN_S))

    def hear(self) -> None:
        """Take what it says, or its pipe would be full."""
        assert self._process is not None
        self._hear(self._process.reports())

    def end(self) -> None:
        if self._process is not None:
            with self._process:
                self._process.kill()
                self._hear(self._process.reports())
            self._process = None

    def _hear(self, reports: Sequence[Sequence[Any]]) -> None:
        for report in reports:
            assert report[0] != "e", report
            if report[:2] == ["a", "once"]:
                self._once = report[4]


async def watch(
    place: Place, owners: Owners, chance: random.Random, seconds: float, lives: int
) -> int:
    environment = SystemEnvironment()
    reads = 0
    try:
        for _ in range(lives):
            owners.next()
            reader = await place.read_only(environment)
            try:
                watcher = Watcher(reader, chance)
                end = time.monotonic() + seconds / lives
                while time.monotonic() < end:
                    await watcher.look()
                    owners.hear()
                    if chance.random() < 0.003:
                        owners.next()
                reads += watcher.reads
            finally:
                await reader.close()
    finally:
        owners.end()
        environment.close()
    return reads


def watch_for(nursery: Nursery, folder: Path, seconds: float, lives: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    place = Place(folder)
    try:
        reads = asyncio.run(watch(place, Owners(nursery, place, chance), chance, seconds, lives))
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    assert reads > lives * 5, "the reader hardly came to read"


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_reader_next_to_an_owner_that_never_rests(nursery: Nursery, disk_path: Path) -> None:
    watch_for(nursery, disk_path, seconds=10, lives=4)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_reader_next_to_owners_for_minutes(nursery: Nursery, disk_path: Path) -> None:
    watch_for(nursery, disk_path, seconds=300, lives=30)
