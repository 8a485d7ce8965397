"""Tasks of a clock that was ahead: garbage goes, what is remembered is remembered from now on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from siltstone.container.commit.tombstones import TOMBSTONE_MS
from siltstone.container.garbage.task_dates import DateLooks
from siltstone.container.models.imports import ImportSessionError
from siltstone.core.errors import SegmentNotFoundError
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.container.container_world import Owner, World, with_settings, world

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(garbage_delay_s=600.0, garbage_interval_s=1e9, flush_age_s=1e9)
HOUR_S = 3_600.0
YEAR_S = 365 * 24 * HOUR_S


class Clock:
    """The wall clock of a world, which can be set; no timer waits for it."""

    def __init__(self, made: World) -> None:
        self._begin = made.environment.time
        self._later_s = 0.0
        self.ahead_s = 0.0
        made.environment.time = self.time  # type: ignore[method-assign]

    def time(self) -> float:
        return self._begin() + self._later_s + self.ahead_s

    def later(self, seconds: float) -> None:
        self._later_s += seconds


@asynccontextmanager
async def clocked() -> AsyncIterator[tuple[World, Clock]]:
    async with world(settings=SETTINGS) as made:
        yield made, Clock(made)


async def collected(owner: Owner) -> int:
    return await owner.container.garbage.run()


@pytest.mark.parametrize("again", [True, False], ids=["another owner", "the same owner"])
@pytest.mark.parametrize("ahead_s", [10 * YEAR_S, 5 * HOUR_S])
async def test_garbage_of_a_clock_that_was_ahead_goes(again: bool, ahead_s: float) -> None:
    async with clocked() as (made, clock):
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", bytes(20_000))
        await owner.container.flush()
        clock.ahead_s = ahead_s
        await owner.container.delete("a")
        assert await collected(owner) == 0
        clock.ahead_s = 0.0
        if again:
            await owner.container.close()
            owner = await made.open()
        assert await collected(owner) > 0
        assert not made.names("data/")
        await owner.container.close()


@pytest.mark.parametrize("ahead_s", [0.0, 300.0, 0.9 * HOUR_S, -HOUR_S, -10 * YEAR_S])
async def test_garbage_of_clocks_that_nearly_agree_waits_for_its_delay(ahead_s: float) -> None:
    async with clocked() as (made, clock):
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", bytes(20_000))
        await owner.container.flush()
        clock.ahead_s = ahead_s
        await owner.container.delete("a")
        await owner.container.close()
        clock.ahead_s = 0.0
        owner = await made.open()
        clock.later(590)
        assert bool(await collected(owner)) == (ahead_s < 0)
        clock.later(HOUR_S)
        await collected(owner)
        assert not made.names("data/")
        await owner.container.close()


async def test_a_repeat_of_a_rename_is_known_for_a_week_from_when_it_was_noticed() -> None:
    async with clocked() as (made, clock):
        owner = await made.open()
        await owner.container.create("a")
        clock.ahead_s = 10 * YEAR_S
        await owner.container.rename("a", "b")
        await collected(owner)
        clock.ahead_s = 0.0
        await collected(owner)
        for _ in range(3):
            clock.later(TOMBSTONE_MS / 3_000 - 60)
            await collected(owner)
            await owner.container.rename("a", "b")
        clock.later(300)
        await collected(owner)
        with pytest.raises(SegmentNotFoundError):
            await owner.container.rename("a", "b")
        await owner.container.close()


async def test_an_import_session_lives_as_long_as_was_asked_for() -> None:
    async with clocked() as (made, clock):
        owner = await made.open()
        clock.ahead_s = 10 * YEAR_S
        await owner.container.imports.open("job", lifetime_s=HOUR_S)
        await collected(owner)
        clock.ahead_s = 0.0
        await collected(owner)
        clock.later(HOUR_S - 60)
        ticket = await owner.container.imports.open("job", lifetime_s=HOUR_S)
        assert ticket.expires_ms <= int((clock.time() + 60) * 1000)
        clock.later(120)
        with pytest.raises(ImportSessionError, match="expired"):
            await owner.container.imports.commit("job", [])
        await collected(owner)
        # Forgotten a day after it was closed.
        clock.later(25 * HOUR_S)
        await collected(owner)
        again = await owner.container.imports.open("job", lifetime_s=HOUR_S)
        assert again.session_id != ticket.session_id
        await owner.container.close()


def test_dates_are_looked_at_first_when_the_clock_goes_back_and_every_hour() -> None:
    environment = VirtualEnvironment()
    right, ahead_s = environment.time, 0.0
    environment.time = lambda: right() + ahead_s  # type: ignore[method-assign]
    looks = DateLooks(environment)
    told = []
    # 20 minutes pass each time, and the clock is set by that much.
    for by_s in (0.0, 0.0, 0.0, 0.0, 1e9, -1e9, -59.0, -61.0, 0.0, 0.0):
        ahead_s += by_s
        told.append(looks.due())
        environment.clock.now += 1_200
    assert told == [True, False, False, True, False, True, False, True, False, False]
    looks.again()
    assert looks.due()
    assert not looks.due()
