"""Which bytes were appended before a time: always the same answer, whatever happens between."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from siltstone.container.models.check import CheckOptions
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import SegmentNotFoundError
from siltstone.core.records.time_row import TimeRow
from siltstone.metadata.changes import put_time
from siltstone.metadata.time_index import OFFSET_END, times_below
from tests.support import inside
from tests.support.container.container_world import (
    Owner,
    World,
    close_quietly,
    with_settings,
    world,
)

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(chunk_bytes=4 * MIB, flush_bytes=2 * MIB, flush_age_s=20.0)


PAUSE_S = 30.0


@dataclass
class Appends:
    """Every readable append of one segment: where it begins, and when it was made."""

    parts: list[tuple[int, int]] = field(default_factory=list)
    start: int = 0
    length: int = 0

    def add(self, size: int, time_ms: int) -> None:
        self.parts.append((self.length, time_ms))
        self.length += size

    def check(self, found: int, time_ms: int) -> None:
        assert self.start <= found <= self.length
        borders = {offset for offset, _ in self.parts} | {self.start, self.length}
        assert found in borders, f"{found} is no append border"
        ends = [offset for offset, _ in self.parts[1:]] + [self.length]
        for (offset, made_ms), end in zip(self.parts, ends, strict=False):
            if made_ms >= time_ms and end > self.start:
                first = max(offset, self.start)
                assert found <= first, f"{first} was appended at {made_ms}, not before {time_ms}"
                assert first - found < MIB
                return
        assert found == self.length


@dataclass
class Play:
    """A segment, its model, and its changing owner."""

    place: World
    owner: Owner
    chance: random.Random
    model: Appends = field(default_factory=Appends)
    sources: int = 0

    def now_ms(self) -> int:
        return int(self.place.environment.time() * 1000)

    async def append(self, name: str, model: Appends, size: int) -> None:
        await self.owner.container.append(name, bytes(size))
        model.add(size, self.now_ms())

    async def step(self) -> None:
        container, chance = self.owner.container, self.chance
        match chance.choice(
            ["append", "append", "append", "wait", "flush", "truncate", "join", "crash", "takeover"]
        ):
            case "append":
                size = chance.choice([1, 900, 64 * KIB, 700 * KIB, 3 * MIB // 2])
                await self.append("log", self.model, size)
            case "wait":
                await asyncio.sleep(chance.choice([0.1, 3.0, 12.0, 45.0]))
            case "flush":
                await container.flush("log")
            case "truncate":
                share = chance.choice([0.0, 0.3, 1.0])
                model = self.model
                model.start += int((model.length - model.start) * share)
                await container.truncate("log", model.start)
            case "join":
                await self.join(chance.choice([500, 2 * MIB]))
            case "crash":
                await self.place.crash(self.owner, keep_index=chance.random() < 0.5)
                self.owner = await self.place.open(takeover=True)
            case "takeover":
                old = self.owner
                self.owner = await self.place.open(takeover=True, index=f"i{chance.random()}")
                await close_quietly(old)

    async def join(self, size: int) -> None:
        """Joined bytes count as appended now, however old they are."""
        self.sources += 1
        name = f"source-{self.sources}"
        container = self.owner.container
        await container.create(name)
        await container.append(name, bytes(size))
        await asyncio.sleep(30.0)
        await container.seal(name)
        await container.concat("log", name)
        self.model.add(size, self.now_ms())

    async def check(self) -> None:
        info = await self.owner.container.info("log")
        tables = inside.parts(self.owner.container).pipeline.replica.tables
        rows = times_below(tables, info.segment_id, OFFSET_END)
        assert [row.offset for row in rows[-1:]] == [info.flushed_length][: len(rows)]
        assert bool(rows) == bool(info.flushed_length)
        times = sorted({made_ms for _, made_ms in self.model.parts} | {0, self.now_ms() + 1})
        for time_ms in self.chance.sample(times, min(8, len(times))):
            for exact in (time_ms, time_ms + 1):
                found = await self.owner.container.offset_at("log", exact)
                self.model.check(found, exact)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_the_answer_survives_whatever_happens(seed: int) -> None:
    async with world(seed, settings=SETTINGS) as place:
        owner = await place.open()
        await owner.container.create("log")
        play = Play(place, owner, random.Random(seed))
        for _ in range(40):
            await play.step()
            await play.check()
        # In memory or in rows, alive or after a crash: the same answer.
        reader = await place.open_reader()
        times = [made_ms for _, made_ms in play.model.parts]
        container = play.owner.container
        assert [await reader.offset_at("log", time) for time in times] == [
            await container.offset_at("log", time) for time in times
        ]
        await reader.close()
        await place.check(play.owner, strict=False)
        await container.close()


async def test_dead_rows_go_and_a_deleted_segment_leaves_none() -> None:
    async with world(settings=SETTINGS) as place:
        owner = await place.open()
        container = owner.container
        await container.create("log")
        for _ in range(10):
            await container.append("log", bytes(MIB))
            await asyncio.sleep(11.0)
        await container.flush()
        tables = inside.parts(container).pipeline.replica.tables
        segment_id = (await container.info("log")).segment_id
        assert len(times_below(tables, segment_id, OFFSET_END)) == 10
        await container.truncate("log", 4 * MIB)
        await container.collect()
        rows = times_below(tables, segment_id, OFFSET_END)
        assert [row.offset for row in rows] == [part * MIB for part in range(4, 11)]
        await container.delete("log")
        await container.collect()
        assert not times_below(tables, segment_id, OFFSET_END)
        with pytest.raises(SegmentNotFoundError):
            await container.offset_at("log", 0)
        await container.close()


async def test_a_clock_that_goes_back_hides_nothing() -> None:
    """A later owner's clock is an hour behind: its bytes count as no older than those before."""
    async with world(settings=SETTINGS) as place:
        owner = await place.open()
        await owner.container.create("log")
        await owner.container.append("log", bytes(2 * MIB))
        first_ms = int(place.environment.time() * 1000)
        await owner.container.flush()
        await owner.container.close()
        time = place.environment.time
        place.environment.time = lambda: time() - 3600  # type: ignore[method-assign]
        owner = await place.open()
        await owner.container.append("log", bytes(2 * MIB))
        await owner.container.flush()
        later_ms = int(place.environment.time() * 1000)
        container = owner.container
        assert await container.offset_at("log", later_ms) == 0
        assert await container.offset_at("log", first_ms) == 0
        assert await container.offset_at("log", first_ms + 1) == 4 * MIB
        await container.close()


@pytest.mark.parametrize("ahead_s", [900.0, 3.2e8])
async def test_a_clock_that_was_ahead_spoils_no_answer_after_it(ahead_s: float) -> None:
    """One flushed append by a clock that is ahead; memory, rows and a reader answer the same."""
    async with world(settings=with_settings(flush_age_s=1e9)) as place:
        owner = await place.open()
        container, right = owner.container, place.environment.time
        await container.create("log")
        await container.append("log", bytes(10))
        place.environment.time = lambda: right() + ahead_s  # type: ignore[method-assign]
        await container.append("log", bytes(10))
        await container.flush()
        place.environment.time = right  # type: ignore[method-assign]
        asked = []
        for _ in range(9):
            await asyncio.sleep(PAUSE_S)
            asked.append(int(right() * 1000))
            await container.append("log", bytes(10))
        reader = await place.open_reader()
        for truncated in (0, 20):
            await container.truncate("log", truncated)
            for _ in range(2):
                for number, time_ms in enumerate(asked[1:], 1):
                    expected = 20 + number * 10
                    assert await container.offset_at("log", time_ms) == expected
                    assert await reader.offset_at("log", time_ms) == expected
                await container.flush()
        assert [finding async for finding in container.check()] == []
        await reader.close()
        await container.close()


async def test_check_tells_of_times_that_fall_and_a_resumed_one_does_not_again() -> None:
    async with world(settings=SETTINGS) as place:
        owner = await place.open()
        container = owner.container
        await container.create("log")
        for _ in range(3):
            await container.append("log", bytes(MIB))
            await asyncio.sleep(11.0)
        await container.flush()
        assert [finding async for finding in container.check()] == []
        segment_id = (await container.info("log")).segment_id
        wrong = TimeRow(segment_id=segment_id, offset=2 * MIB, time_ms=1)
        await inside.parts(container).pipeline.update([put_time(wrong)])
        (found,) = [finding async for finding in container.check()]
        assert (found.severity, found.where) == ("damage", "segment log")
        assert "falls" in found.message
        assert [finding async for finding in container.check(CheckOptions(after=1))] == []
        await container.close()
