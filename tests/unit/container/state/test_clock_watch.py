"""A clock that jumps is reported; after a jump ahead, nothing is destroyed by it for a day."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.container.models.health import HealthReason, HealthState
from siltstone.container.state.clock_watch import DOUBT_S, JUMPS_MAX, ClockWatch
from siltstone.core.constants import MIB
from siltstone.core.records.retention_row import RetentionRow, RetentionScope
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support import inside
from tests.support.container.container_world import Owner, World, with_settings, world

pytestmark = pytest.mark.virtual_time

HOUR_S = 3_600.0
YEAR_S = 365 * 24 * HOUR_S


class Machine(VirtualEnvironment):
    """A machine whose clock can be set.

    Attributes:
        ahead_s: how far it is ahead of the right time.
    """

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s

    def passes(self, seconds: float) -> None:
        self.clock.now += seconds


def test_a_clock_that_runs_a_little_fast_or_slow_never_jumps() -> None:
    machine = Machine()
    watch = ClockWatch(machine)
    for count in range(10_000):
        machine.passes(1.0)
        machine.ahead_s += 0.01 if count % 3 else -0.005
        assert watch.jump_s() == 0.0
        assert watch.believed_s() == machine.time()
    machine.ahead_s += 59
    assert watch.jump_s() == 0.0


@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S, 61.0, -10 * YEAR_S])
def test_a_jump_is_told_for_a_day(by_s: float) -> None:
    machine = Machine()
    watch = ClockWatch(machine)
    machine.ahead_s = by_s
    assert watch.jump_s() == pytest.approx(by_s)
    machine.passes(DOUBT_S - 1)
    assert watch.jump_s() == pytest.approx(by_s)
    machine.passes(1)
    assert watch.jump_s() == 0.0


def test_a_jump_ahead_is_believed_after_a_day_each() -> None:
    machine = Machine()
    watch = ClockWatch(machine)
    machine.ahead_s = 1_000.0
    assert watch.believed_s() == pytest.approx(machine.time() - 1_000)
    machine.passes(DOUBT_S / 2)
    machine.ahead_s += 500
    assert watch.believed_s() == pytest.approx(machine.time() - 1_500)
    machine.passes(DOUBT_S / 2)
    assert watch.believed_s() == pytest.approx(machine.time() - 500)
    machine.passes(DOUBT_S / 2)
    assert watch.believed_s() == machine.time()


def test_a_jump_back_takes_the_doubt_away_and_is_believed_itself() -> None:
    machine = Machine()
    watch = ClockWatch(machine)
    for ahead_s, doubted_s in ((1_000, 1_000), (3_000, 3_000), (500, 500), (-2_000, 0), (0, 2_000)):
        machine.ahead_s = ahead_s
        assert watch.believed_s() == pytest.approx(machine.time() - doubted_s)


def test_a_clock_that_jumps_all_the_time_takes_no_room() -> None:
    machine = Machine()
    watch = ClockWatch(machine)
    for _ in range(3 * JUMPS_MAX):
        machine.ahead_s += 100
        watch.jump_s()
    assert watch.believed_s() == pytest.approx(machine.time() - 100 * JUMPS_MAX)


def play_with(made: World) -> Machine:
    return Machine(1, clock=made.environment.clock)


async def opened(made: World, machine: Machine) -> Owner:
    return await made.open(environment=machine)


async def test_an_owner_whose_clock_jumps_ahead_cuts_nothing_that_is_young() -> None:
    async with world(settings=with_settings(flush_age_s=1e9, chunk_bytes=8 * MIB)) as made:
        machine = play_with(made)
        owner = await opened(made, machine)
        await owner.container.create("log")
        rule = RetentionRow(scope=RetentionScope.SEGMENT, name="log", age_max_ms=60_000)
        await owner.container.retention.set(rule)
        for _ in range(4):
            await owner.container.append("log", bytes(MIB))
            await asyncio.sleep(11.0)
        await owner.container.flush()
        machine.ahead_s = YEAR_S
        assert [cut async for cut in owner.container.retention.round()] == []
        health = inside.parts(owner.container).health.look()
        assert (health.state, health.reasons) == (HealthState.OK, (HealthReason.CLOCK_JUMPED,))
        assert health.clock_jump_s == pytest.approx(YEAR_S)
        await asyncio.sleep(30.0)
        # By the old clock, the first ones are old enough now.
        (cut,) = [cut async for cut in owner.container.retention.round()]
        assert 0 < cut.cut_offset <= 2 * MIB
        await owner.container.close()


@pytest.mark.parametrize("ahead_s", [30.0, 2 * HOUR_S, 10 * YEAR_S])
async def test_an_owner_that_opens_after_a_clock_that_was_ahead_is_told(ahead_s: float) -> None:
    async with world(settings=with_settings(flush_age_s=1e9)) as made:
        wrong, right = play_with(made), play_with(made)
        wrong.ahead_s = ahead_s
        owner = await opened(made, wrong)
        await owner.container.create("log")
        await owner.container.append("log", b"x")
        reader = await made.open_reader(right)
        seen = await reader.health()
        await reader.close()
        await made.crash(owner)
        owner = await made.open(environment=right, takeover=True)
        for health in (seen, inside.parts(owner.container).health.look()):
            assert (HealthReason.CLOCK_BEHIND in health.reasons) == (ahead_s > 60)
            assert health.clock_behind_s == pytest.approx(ahead_s, abs=1.0)
            assert health.state is HealthState.OK
        await owner.container.close()
