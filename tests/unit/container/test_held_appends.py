"""Appends that a concat holds back end with it, whatever becomes of the container."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.errors import SiltstoneError
from tests.unit.container.container_world import (
    World,
    pattern,
    small_slices,
    with_settings,
    world,
)


def test_a_held_append_ends_when_the_container_is_closed() -> None:
    async def story(made: World) -> None:
        container = (await made.open()).container
        for name in ("a", "b"):
            await container.create(name)
            await container.append(name, pattern(1, 2_000))
        await container.seal("b")
        made.environment.latency = lambda pool, _: 10.0 if pool.name.startswith("chunks-") else 0.0
        joining = asyncio.create_task(container.concat("a", "b"))
        await made.environment.sleep(1)
        held = asyncio.ensure_future(container.append("a", b"held"))
        await made.environment.sleep(1)
        assert not held.done()
        await container.close()
        await asyncio.wait([joining, held], timeout=200)
        with pytest.raises(SiltstoneError):
            await held
        with pytest.raises(SiltstoneError):
            await joining

    with small_slices(100), world(settings=with_settings(flush_age_s=1e6)) as made:
        made.run(story(made))
