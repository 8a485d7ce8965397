"""What happens in the background and when; all on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from siltstone.container.models.settings import ContainerSettings
from siltstone.core.chunk_names import data_prefix
from siltstone.core.errors import BackPressureError
from siltstone.testing.faults.faulty_chunk_storage import Fate
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

NEVER = 1e6
QUIET = with_settings(
    flush_bytes=1 << 40,
    flush_age_s=NEVER,
    table_flush_age_s=NEVER,
    checkpoint_age_s=NEVER,
    garbage_interval_s=NEVER,
    garbage_delay_s=0.0,
)


@asynccontextmanager
async def owned(settings: ContainerSettings) -> AsyncIterator[tuple[World, Owner]]:
    async with world(settings=settings) as made:
        owner = await made.open()
        await owner.container.create("a")
        yield made, owner
        assert owner.container.failure is None
        await owner.container.close()


async def first_time(made: World, seconds: float, what: Callable[[], bool]) -> float:
    """Seconds until ``what`` holds, checked twenty times a second."""
    start = made.environment.monotonic()
    while not what():
        assert made.environment.monotonic() < start + seconds, "it never happened"
        await made.environment.sleep(0.05)
    return made.environment.monotonic() - start


def replaced(**changes: Any) -> ContainerSettings:
    return replace(QUIET, **changes)


@pytest.mark.slow
@pytest.mark.parametrize("age", [2.0, 30.0, 600.0])
async def test_flush_by_age(age: float) -> None:
    async with owned(replaced(flush_age_s=age)) as (made, owner):
        await owner.container.append("a", b"bytes")
        waited = await first_time(made, 2 * age, lambda: bool(made.names(data_prefix(0))))
        assert age <= waited <= age + max(1.0, age / 4) + 0.2


async def test_flush_by_size() -> None:
    async with owned(replaced(flush_bytes=1_000)) as (made, owner):
        await owner.container.append("a", pattern(1, 900))
        await made.environment.sleep(100)
        assert not made.names(data_prefix(0))
        await owner.container.append("a", pattern(2, 200))
        await first_time(made, 0.2, lambda: bool(made.names(data_prefix(0))))


@pytest.mark.parametrize("age", [2.0, 60.0])
async def test_table_flush_by_age(age: float) -> None:
    async with owned(replaced(table_flush_age_s=age)) as (made, owner):
        stats = owner.container.stats
        assert stats().unflushed_table_bytes
        waited = await first_time(made, 2 * age, lambda: not stats().unflushed_table_bytes)
        assert age - 0.5 <= waited <= age + max(1.0, age / 4) + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("age", [4.0, 600.0])
async def test_checkpoint_by_age_if_anything_changed(age: float) -> None:
    async with owned(replaced(checkpoint_age_s=age)) as (made, owner):
        stats = owner.container.stats
        waited = await first_time(made, 2 * age, lambda: stats().checkpoint_version > 0)
        assert age - 0.5 <= waited <= age + 1.2
        version, frames = stats().checkpoint_version, made.shared_log.end
        await made.environment.sleep(3 * age)
        assert (stats().checkpoint_version, made.shared_log.end) == (version, frames)


@pytest.mark.parametrize("delay", [0.0, 50.0])
async def test_garbage_waits_for_its_delay(delay: float) -> None:
    async with owned(replaced(garbage_delay_s=delay, garbage_interval_s=1.0)) as (made, owner):
        container = owner.container
        await container.append("a", pattern(1, 9_000))
        await container.flush()
        await container.truncate("a", 9_000)
        await made.environment.sleep(0.1)
        await container.flush()
        waited = await first_time(made, 100, lambda: not made.names(data_prefix(0)))
        assert delay - 0.5 <= waited <= delay + 5


async def test_back_pressure_has_a_deadline_and_an_order() -> None:
    async with owned(replaced(unflushed_bytes_max=10_000, append_deadline_s=7.0)) as (made, owner):
        container = owner.container
        owner.storage.plan = lambda call: Fate.REFUSED
        await container.append("a", bytes(10_000))
        start = made.environment.monotonic()
        with pytest.raises(BackPressureError):
            await container.append("a", b"late")
        assert made.environment.monotonic() - start == pytest.approx(7.0, abs=0.01)
        assert (await container.info("a")).length == 10_000

        async def append(number: int) -> int:
            return await container.append("a", b"%d" % number)

        waiting = [asyncio.create_task(append(number)) for number in range(5)]
        await made.environment.sleep(0.5)
        owner.storage.plan = lambda call: Fate.DONE
        assert await asyncio.gather(*waiting) == [10_000 + number for number in range(5)]


async def test_failed_flushes_wait_longer_each_time() -> None:
    async with owned(replaced(flush_age_s=1.0)) as (made, owner):
        owner.storage.plan = lambda call: Fate.REFUSED
        await owner.container.append("a", b"bytes")
        before = len(owner.storage.calls)
        await made.environment.sleep(300)
        assert 5 <= len(owner.storage.calls) - before <= 60
        assert owner.container.stats().last_error is not None
        owner.storage.plan = lambda call: Fate.DONE
        await first_time(made, 60, lambda: bool(made.names(data_prefix(0))))
        await made.environment.sleep(2)
        assert owner.container.stats().last_error is None
