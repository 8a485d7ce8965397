"""A segment that is about to be deleted is not flushed, and no loop spins until it is gone."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import inside
from tests.support.container.container_world import pattern, with_settings, world

pytestmark = pytest.mark.virtual_time


async def test_a_flush_waits_for_the_deletion_that_is_on_its_way() -> None:
    async with world(settings=with_settings(flush_age_s=1e6)) as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        await container.append("a", pattern(1, 3_000))
        made.environment.latency = lambda pool, _: 10.0 if pool.name.startswith("log-") else 0.0
        begin = made.environment.monotonic()
        deleting = asyncio.create_task(container.delete("a"))
        await made.environment.sleep(1)
        await inside.parts(container).segment_flusher.flush(
            inside.parts(container).reading.segment("a")
        )
        assert made.environment.monotonic() - begin >= 10
        await deleting
        assert not made.names("data/")
        made.environment.latency = lambda pool, _: 0.0
        await container.close()
