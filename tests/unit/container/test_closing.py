"""A close completes although its caller is cancelled, and the caller hears of the cancelling."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.container.container_world import pattern, world

pytestmark = pytest.mark.virtual_time


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(12))
async def test_cancelling_a_close_is_not_lost(steps: int) -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", pattern(1, 9_000))
        closing = asyncio.create_task(owner.container.close())
        for _ in range(steps):
            await asyncio.sleep(0)
        ended = closing.done()
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled() is not ended
        if steps:
            again = await made.open()
            assert (await again.container.info("a")).length == 9_000
            await again.container.close()
