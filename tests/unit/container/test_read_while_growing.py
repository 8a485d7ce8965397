"""A long read of a segment whose last chunk grows meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.container.container_world import pattern, with_settings, world

pytestmark = pytest.mark.virtual_time


async def test_the_last_chunk_grows_while_the_others_are_read() -> None:
    """More chunks than are read at a time, so that the last one is read late."""
    async with world(settings=with_settings(chunk_bytes=2_000)) as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        data = b"".join(pattern(number, 1_000) for number in range(21))
        for begin in range(0, len(data), 1_000):
            await container.append("a", data[begin : begin + 1_000])
        await container.flush("a")
        chunks = await container.chunks("a")
        assert len(chunks) == 11
        assert chunks[-1].chunk_length == 1_000
        made.environment.latency = lambda pool, _: 1.0 if pool.name.startswith("chunks-") else 0.0
        reading = asyncio.create_task(container.read("a", 0, len(data)))
        await made.environment.sleep(0.1)
        await container.append("a", pattern(99, 500))
        made.environment.latency = lambda pool, _: 0.0
        await container.flush("a")
        assert (await container.chunks("a"))[-1].chunk_length == 1_500
        assert not reading.done()
        assert await reading == data
        await container.close()
