"""The state of storage as a function of measurements, and the throttle that follows from it."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.models.health import (
    HealthLimits,
    HealthReason,
    HealthState,
    Signs,
    judge,
    throttle_s,
)
from siltstone.core.errors import BackPressureError
from siltstone.core.storage.call_stats import RecentCalls

pytestmark = pytest.mark.virtual_time

LIMITS = HealthLimits(late_s=60.0, late_s_max=600.0, throttle_s_max=2.0)
R, S = HealthReason, HealthState


@pytest.mark.parametrize(
    ("count", "unanswered", "slow", "silent", "stuck", "late_s", "state", "reasons"),
    [
        (0, 0, 0, False, False, 0, S.OK, []),
        (100, 2, 0, False, False, 59.9, S.OK, []),
        (20, 2, 2, False, False, 0, S.OK, []),
        (31, 3, 0, False, False, 0, S.OK, []),
        (30, 3, 0, False, False, 0, S.DEGRADED, [R.FAILING]),
        (3, 3, 3, False, False, 0, S.DEGRADED, [R.FAILING, R.SLOW]),
        (7, 0, 3, False, False, 0, S.OK, []),
        (6, 0, 3, False, False, 0, S.SLOW, [R.SLOW]),
        (0, 0, 0, False, False, 60, S.DEGRADED, [R.LATE]),
        (0, 0, 0, True, False, 0, S.UNAVAILABLE, [R.SILENT]),
        (0, 0, 0, False, True, 0, S.UNAVAILABLE, [R.STUCK]),
        (9, 9, 9, True, True, 99, S.UNAVAILABLE, [R.SILENT, R.STUCK, R.FAILING, R.LATE, R.SLOW]),
    ],
)
def test_states(
    count: int,
    unanswered: int,
    slow: int,
    silent: bool,
    stuck: bool,
    late_s: float,
    state: HealthState,
    reasons: list[HealthReason],
) -> None:
    recent = RecentCalls(count=count, unanswered=unanswered, slow=slow, latency_s=0.1)
    signs = Signs(recent=recent, silent=silent, stuck=stuck, lateness_s=late_s)
    assert judge(signs, LIMITS) == (state, tuple(reasons))


def test_one_call_that_the_service_throttled_makes_it_slow() -> None:
    recent = RecentCalls(count=500, unanswered=0, slow=0, latency_s=0.1, throttled=1)
    signs = Signs(recent=recent, silent=False, stuck=False, lateness_s=0)
    assert judge(signs, LIMITS) == (HealthState.SLOW, (HealthReason.THROTTLED,))


@pytest.mark.parametrize(
    ("late_s", "throttled_s"),
    [(0, 0), (60, 0), (87, 0.1), (330, 1.0), (600, 2.0), (1e9, 2.0)],
)
def test_the_throttle_grows_with_the_lateness(late_s: float, throttled_s: float) -> None:
    assert throttle_s(late_s, LIMITS) == pytest.approx(throttled_s)


def is_open(pressure: Pressure) -> bool:
    """Its answer now; it may be another one a moment later."""
    return pressure.open


async def test_a_throttle_holds_everybody_back_in_their_order() -> None:
    loop = asyncio.get_running_loop()
    pressure = Pressure(bound=100, deadline_s=10)
    pressure.throttle(2.0)
    assert not is_open(pressure)
    assert not pressure.over, "there is room: nothing needs a flush"
    admitted: list[tuple[int, float]] = []

    async def admit(number: int) -> None:
        await pressure.admit(1)
        admitted.append((number, loop.time()))

    tasks = []
    for number in range(4):
        tasks.append(asyncio.create_task(admit(number)))
        await asyncio.sleep(0.5)
    tasks[1].cancel()
    await asyncio.sleep(0.75)
    assert admitted == [(0, 2.0)]
    await asyncio.sleep(0.5)
    assert admitted == [(0, 2.0), (2, 3.0)]
    pressure.throttle(0.0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert admitted == [(0, 2.0), (2, 3.0), (3, 3.25)]
    assert is_open(pressure)
    assert pressure.held_bytes == 3


async def test_a_throttle_makes_no_room() -> None:
    pressure = Pressure(bound=10, deadline_s=3)
    pressure.throttle(1.0)
    pressure.add(10)
    assert pressure.over
    with pytest.raises(BackPressureError):
        await pressure.admit(1)
    assert pressure.held_bytes == 10
    waiting = asyncio.create_task(pressure.admit(1))
    await asyncio.sleep(2)
    pressure.release(1)
    await waiting
    assert pressure.held_bytes == 10
