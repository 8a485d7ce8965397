"""A reader pins what it shows: nothing of that is deleted while the pin lives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from siltstone.container.reader.read_container import ReadContainer
from siltstone.container.reads.pins import list_pins
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(garbage_delay_s=10.0, garbage_interval_s=1e6)


@asynccontextmanager
async def with_reader() -> AsyncIterator[tuple[World, Owner, ReadContainer]]:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", pattern(1, 9_000))
        await owner.container.flush()
        reader = await made.open_reader()
        yield made, owner, reader
        await reader.close()
        await made.check(owner)
        await owner.container.close()


async def drop_all(owner: Owner) -> None:
    await owner.container.truncate("a", (await owner.container.info("a")).length)
    await owner.container.collect()
    await owner.container.flush()


def names(made: World) -> list[str]:
    return made.names("data/")


async def test_what_is_shown_after_a_pin_stays() -> None:
    async with with_reader() as (made, owner, reader):
        # The reader has not refreshed since: only the pin's own look shows these.
        await owner.container.append("a", pattern(2, 20_000))
        await owner.container.flush()
        pin = await reader.pin(100)
        shown = {chunk.chunk for chunk in await reader.chunks("a")}
        await drop_all(owner)
        await made.environment.sleep(50)
        assert await owner.container.garbage.run() == 0
        assert shown <= set(names(made))
        await made.environment.sleep(100)
        assert pin.pin.expires_ms < made.environment.time() * 1000
        assert await owner.container.garbage.run() == len(shown)


async def test_a_pin_that_is_renewed_holds_on_and_leaves_one_object() -> None:
    async with with_reader() as (made, owner, reader):
        pin = await reader.pin(30)
        await drop_all(owner)
        for _ in range(4):
            await made.environment.sleep(20)
            pin = await reader.renew(pin, 30)
            assert await owner.container.garbage.run() == 0
        assert made.names("system/pins/") == [pin.name]


async def test_what_a_pin_held_goes_when_it_is_given_back() -> None:
    async with with_reader() as (made, owner, reader):
        pin = await reader.pin(1e6)
        await drop_all(owner)
        await made.environment.sleep(50)
        assert await owner.container.garbage.run() == 0
        await reader.unpin(pin)
        await reader.unpin(pin)
        assert not await list_pins(reader._storage, 0)
        assert await owner.container.garbage.run() == 1
