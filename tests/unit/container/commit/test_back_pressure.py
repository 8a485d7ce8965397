"""Back-pressure: the bound, the order of the waiters, and what a withdrawal gives back."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.container.commit.back_pressure import SEGMENTS_MIN, Pressure
from siltstone.core.errors import BackPressureError
from tests.support import inside
from tests.support.container.container_world import with_settings, world

pytestmark = pytest.mark.virtual_time


async def test_below_the_bound_no_append_waits() -> None:
    pressure = Pressure(bound=10, deadline_s=1)
    for _ in range(3):
        await pressure.admit(4)
    assert (pressure.held_bytes, pressure.open, pressure.over) == (12, False, True)
    pressure.release(4)
    assert (pressure.held_bytes, pressure.open, pressure.over) == (8, True, False)


async def test_first_in_first_out() -> None:
    pressure = Pressure(bound=10, deadline_s=100)
    pressure.add(10)
    admitted: list[int] = []

    async def admit(number: int) -> None:
        await pressure.admit(6)
        admitted.append(number)

    tasks = [asyncio.create_task(admit(number)) for number in range(4)]
    await asyncio.sleep(1)
    assert not admitted
    pressure.release(1)
    await asyncio.sleep(1)
    assert admitted == [0]
    tasks[1].cancel()
    await asyncio.sleep(1)
    pressure.release(9)
    await asyncio.sleep(1)
    assert admitted == [0, 2]
    pressure.release(12)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert admitted == [0, 2, 3]
    assert pressure.held_bytes == 6


async def test_deadline_and_failure_count_nothing() -> None:
    pressure = Pressure(bound=10, deadline_s=3)
    pressure.add(10)
    with pytest.raises(BackPressureError):
        await pressure.admit(5)
    waiting = asyncio.create_task(pressure.admit(5))
    await asyncio.sleep(1)
    pressure.fail(RuntimeError("the end"))
    with pytest.raises(RuntimeError, match="the end"):
        await waiting
    assert pressure.held_bytes == 10


async def test_an_append_that_is_admitted_and_cancelled_at_once_gives_it_back() -> None:
    pressure = Pressure(bound=10, deadline_s=3)
    pressure.add(10)
    waiting = asyncio.create_task(pressure.admit(5))
    await asyncio.sleep(0)
    pressure.release(10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (pressure.held_bytes, pressure.open) == (0, True)


async def test_many_segments_with_few_bytes_are_pressure_as_well() -> None:
    segments = SEGMENTS_MIN - 1
    pressure = Pressure(bound=10, deadline_s=3, segments=lambda: segments)
    pressure.add(1)
    assert (pressure.over, pressure.open) == (False, True)
    segments += 1
    pressure.add(1)
    assert (pressure.over, pressure.open) == (True, False)
    waiter = asyncio.create_task(pressure.admit(1))
    await asyncio.sleep(0)
    assert not waiter.done()
    segments -= 1
    pressure.release(1)
    await waiter
    assert (pressure.over, pressure.open) == (False, True)
    segments += 1
    pressure.add(1)
    with pytest.raises(BackPressureError, match=f"segments={SEGMENTS_MIN}"):
        await pressure.admit(1)


async def test_an_owner_never_has_many_more_dirty_segments_than_its_bound_allows() -> None:
    async with world(settings=with_settings(flush_age_s=1e6, unflushed_bytes_max=100_000)) as made:
        owner = await made.open()
        names = [f"s{number}" for number in range(4 * SEGMENTS_MIN)]
        most = 0
        for begin in range(0, len(names), 100):
            some = names[begin : begin + 100]
            await asyncio.gather(*map(owner.container.create, some))
            await asyncio.gather(*(owner.container.append(name, b"x") for name in some))
            most = max(most, len(inside.parts(owner.container).pipeline.replica.dirty))
        assert most <= SEGMENTS_MIN + 100
        await owner.container.close(flush="always")
        again = await made.open()
        assert await again.container.read(names[-1], 0, 9) == b"x"
        await again.container.close()
