"""Owners and a reader whose clocks are set to anything, against a model with a right clock.

What must hold: what a pin keeps is there until its time is over; ``offset_at`` of an owner whose
clock is right misses nothing that was appended under a right clock, and shows little more after
appends of wrong clocks are truncated; with right clocks again, all garbage goes within a bound.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from siltstone.container.reader.read_container import ReadContainer
from siltstone.core.records.task import TaskKind
from siltstone.metadata.time_index import STEP_MS
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.container.container_world import Owner, World, with_settings, world

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(flush_age_s=20.0)
HOUR_S = 3_600.0
YEAR_S = 365 * 24 * HOUR_S
SHIFTS_S = (0.0, 0.0, 0.0, 30.0, -30.0, 5 * HOUR_S, -5 * HOUR_S, 10 * YEAR_S, -10 * YEAR_S)
PIN_S = 300.0
KINDS = (
    *("set", "set", "append", "append", "append", "wait", "flush", "truncate"),
    *("owner", "crash", "pin", "drop", "drop", "collect"),
)
STEPS = 60


class Machine(VirtualEnvironment):
    """A machine whose clock can be set.

    Attributes:
        ahead_s: how far it is ahead of the right time.
    """

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


@dataclass
class Part:
    """An append.

    Attributes:
        offset: where it begins.
        time_ms: when it was made, by a right clock.
        is_right: whether its owner had a right clock.
    """

    offset: int
    end: int
    time_ms: int
    is_right: bool


@dataclass
class Play:
    made: World
    machines: list[Machine]
    owner: Owner
    machine: Machine
    reader: ReadContainer
    chance: random.Random
    parts: list[Part] = field(default_factory=list)
    start: int = 0
    pinned: list[tuple[float, set[str]]] = field(default_factory=list)
    dropped: int = 0

    def now_ms(self) -> int:
        return int(self.made.environment.time() * 1000)

    async def step(self) -> None:
        container = self.owner.container
        match self.chance.choice(KINDS):
            case "set":
                self.chance.choice(self.machines).ahead_s = self.chance.choice(SHIFTS_S)
            case "append":
                begin = self.parts[-1].end if self.parts else 0
                size = self.chance.choice([10, 3_000])
                await container.append("log", bytes(size))
                right = self.machine.ahead_s == 0.0
                self.parts.append(Part(begin, begin + size, self.now_ms(), right))
            case "wait":
                await asyncio.sleep(self.chance.choice([1.0, 15.0, 60.0]))
            case "flush":
                await container.flush()
            case "truncate":
                wrong = [part.end for part in self.parts if not part.is_right]
                self.start = max(self.start, *wrong[-1:], 0)
                await container.truncate("log", self.start)
            case "owner":
                await container.close()
                await self.open()
            case "crash":
                await self.made.crash(self.owner, keep_index=self.chance.random() < 0.5)
                await self.open()
            case "pin":
                await self.reader.refresh()
                await self.reader.pin(PIN_S)
                shown = {
                    chunk.chunk
                    for info in await self.reader.list_segments("", "", 1_000)
                    for chunk in await self.reader.chunks(info.name)
                }
                self.pinned.append((self.made.environment.monotonic() + PIN_S, shown))
            case "drop":
                await self.drop()
            case "collect":
                await container.garbage.run()

    async def open(self) -> None:
        self.machine = self.chance.choice(self.machines[:-1])
        self.owner = await self.made.open(takeover=True, environment=self.machine)

    async def drop(self) -> None:
        """Delete the oldest of two segments, and make another one."""
        container = self.owner.container
        name = f"drop-{self.dropped}"
        await container.create(name)
        await container.append(name, bytes(2_000))
        await container.flush(name)
        if self.dropped:
            await container.delete(f"drop-{self.dropped - 1}")
        self.dropped += 1

    async def check(self) -> None:
        there = set(self.made.names("data/"))
        now_s = self.made.environment.monotonic()
        for until_s, shown in self.pinned:
            assert now_s >= until_s or shown <= there, shown - there
        if self.machine.ahead_s == 0.0:
            readable = [part for part in self.parts if part.end > self.start]
            for time_ms in sorted({part.time_ms for part in readable}):
                await self.check_offset(readable, time_ms)

    async def check_offset(self, readable: list[Part], time_ms: int) -> None:
        found = await self.owner.container.offset_at("log", time_ms)
        for part in readable:
            if part.is_right and part.time_ms >= time_ms:
                assert found <= max(part.offset, self.start)
        if all(part.is_right for part in readable):
            old = [part.end for part in readable if part.time_ms < time_ms - 2 * STEP_MS]
            assert found >= max(old, default=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_clocks_may_be_set_to_anything(seed: int) -> None:
    async with world(seed, settings=SETTINGS) as made:
        machines = [Machine(number, clock=made.environment.clock) for number in range(3)]
        owner = await made.open(environment=machines[0])
        await owner.container.create("log")
        reader = await made.open_reader(machines[-1])
        play = Play(made, machines, owner, machines[0], reader, random.Random(seed))
        for _ in range(STEPS):
            await play.step()
            await play.check()
        for machine in machines:
            machine.ahead_s = 0.0
        await play.owner.container.close()
        await play.open()
        await asyncio.sleep(PIN_S + SETTINGS.garbage_delay_s + 60.0)
        await play.owner.container.garbage.run()
        tasks = [task for page in play.owner.rows.task_pages() for task in page]
        assert not [task for task in tasks if task.kind is TaskKind.DELETE_CHUNK]
        await play.check()
        assert [finding async for finding in play.owner.container.check()] == []
        await reader.close()
        await play.owner.container.close()
