"""One fault at a time, at every storage call and every commit of a scripted scenario.

What may fail: one call of the scenario, in each way that a service has: refused, lost, not
reported, half done, late; or one commit, after which its owner stops and another one continues.
What must hold: the scenario comes to its end by repeating the step that failed, the bytes are
right, every invariant holds, and whatever lies on storage is named by a row, dropped with a task,
or was handed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from siltstone.core.errors import ChunkUnavailableError, LogError
from siltstone.core.records.layout_change import LayoutChange
from siltstone.segments.segment_storage import SegmentStorageSettings
from tests.support.oracles.memory_layout_store import CommitOutcome
from tests.support.segments.segment_world import Call, Fault, World

SETTINGS = SegmentStorageSettings(chunk_bytes=100)
DATA = bytes(range(250)) * 2


@dataclass
class Scenario:
    """Writes, reads, a trim, a skip, a join and a removal over two segments, step by step."""

    world: World
    abandoned: set[str] = field(default_factory=set)

    def steps(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            lambda: self.write(1, 0, 60),
            lambda: self.write(1, 60, 90),
            lambda: self.write(1, 90, 250),
            lambda: self.write(2, 0, 30),
            lambda: self.write(2, 30, 45),
            lambda: self.read(1, 0, 250),
            lambda: self.read(1, 5, 60),
            lambda: self.read(1, 6, 60),
            lambda: self.trim(1, 150),
            lambda: self.concat(),
            lambda: self.write(1, 295, 300),
            lambda: self.dead(1, 310, 330),
            lambda: self.read(1, 310, 330),
            lambda: self.remove(1),
        ]

    async def write(self, segment_id: int, start: int, end: int) -> None:
        flushed = self.world.layouts.layout(segment_id).storage_length
        if flushed < end:
            assert flushed == start
            await self.world.segments.write(segment_id, start, [DATA[start:end]], cuts=[start + 7])

    async def read(self, segment_id: int, start: int, end: int) -> None:
        assert await self.world.read(segment_id, start, end - start) == DATA[start:end]

    async def trim(self, segment_id: int, start: int) -> None:
        self.world.layouts.change(segment_id, start_offset=start)
        while not await self.world.segments.trim(segment_id, start):
            pass

    async def concat(self) -> None:
        layouts = self.world.layouts
        layouts.change(2, sealed_length=45)
        if layouts.layout(1).storage_length == 250:
            await self.world.segments.concat(self.world.joining(250))
        assert await self.world.read(1, 150, 999) == DATA[150:250] + DATA[:45]

    async def dead(self, segment_id: int, start: int, end: int) -> None:
        self.world.layouts.change(segment_id, start_offset=start)
        flushed = self.world.layouts.layout(segment_id).storage_length
        if flushed < end:
            await self.world.segments.write(segment_id, flushed, [DATA[flushed:end]])

    async def remove(self, segment_id: int) -> None:
        self.world.layouts.change(segment_id, deleted=True)
        while not await self.world.segments.remove(segment_id):
            pass
        assert self.world.layouts.rows.chunks == {}

    async def play(self) -> None:
        for step in self.steps():
            for attempt in range(3):
                try:
                    await step()
                except ChunkUnavailableError:
                    assert attempt < 2
                except LogError:
                    self.fail_over()
                else:
                    break
            self.check()

    def fail_over(self) -> None:
        layouts = self.world.layouts
        layouts.epoch += 1
        self.world = World(bucket=self.world.bucket, layouts=layouts, settings=SETTINGS)

    def check(self) -> None:
        world = self.world
        world.check()
        self.abandoned |= {new.name for new in world.segments.take_abandoned()}
        named = {row.name for row in (*world.layouts.rows.chunks.values(), *world.layouts.garbage)}
        assert not named & self.abandoned
        if world.layouts.epoch == 1:
            assert {key.decode() for key in world.bucket.chunks} <= named | self.abandoned


def scenario() -> Scenario:
    world = World(settings=SETTINGS)
    for segment_id in (1, 2):
        world.layouts.add(segment_id)
    return Scenario(world)


def counts() -> tuple[int, int]:
    """How many storage calls and commits the scenario makes when nothing fails."""
    quiet = scenario()
    asyncio.run(quiet.play())
    return len(quiet.world.calls), len(quiet.world.layouts.commits)


CALLS, COMMITS = counts()


@pytest.mark.parametrize("fault", list(Fault))
def test_one_call_fails(fault: Fault) -> None:
    for number in range(1, CALLS + 1):
        played = scenario()

        def decide(_: Call, played: Scenario = played, number: int = number) -> Fault | None:
            return fault if len(played.world.calls) == number else None

        played.world.storage.decide = decide
        asyncio.run(played.play())


@pytest.mark.parametrize("outcome", [CommitOutcome.LOST, CommitOutcome.APPLIED_UNREPORTED])
def test_one_commit_fails(outcome: CommitOutcome) -> None:
    for number in range(1, COMMITS + 1):
        played = scenario()
        seen = 0

        def ends(_: LayoutChange, number: int = number) -> CommitOutcome:
            nonlocal seen
            seen += 1
            return outcome if seen == number else CommitOutcome.APPLIED

        played.world.layouts.ends = ends
        asyncio.run(played.play())
        assert seen >= COMMITS
