"""A round of garbage collection while the container is closed."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.errors import SiltstoneError
from tests.support.container.container_world import pattern, with_settings, world

pytestmark = pytest.mark.virtual_time


async def test_a_collection_hears_plainly_that_the_container_was_closed() -> None:

    quiet = with_settings(
        flush_age_s=1e6, table_flush_age_s=1e6, garbage_interval_s=1e6, pack_bytes=1
    )
    async with world(settings=quiet) as made:
        container = (await made.open()).container
        for number in range(12):
            await container.create(f"s{number}")
            await container.append(f"s{number}", pattern(number, 2_000))
            await container.flush()
            await container.delete(f"s{number}")
        await container.flush()
        await container.garbage.run()
        await container.flush()
        await made.environment.sleep(10)
        made.environment.latency = lambda pool, _: 10.0 if pool.name.startswith("chunks-") else 0.0
        collecting = asyncio.create_task(container.collect())
        await made.environment.sleep(32)
        assert not collecting.done()
        await container.close()
        with pytest.raises(SiltstoneError):
            await collecting
