"""A close completes although its caller is cancelled, and all who call meanwhile get an answer."""

from __future__ import annotations

import asyncio

import pytest

from siltstone.core.errors import ClosedError
from siltstone.testing.virtual_time import jittered
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


async def test_all_who_call_while_a_container_closes_get_an_answer() -> None:
    async with world(latency=jittered(0.01)) as made:
        owner = await made.open()
        await owner.container.create("a")
        acknowledged = 0

        async def append() -> None:
            nonlocal acknowledged
            while True:
                try:
                    await owner.container.append("a", b"x")
                except ClosedError:
                    return
                acknowledged += 1

        clients = [asyncio.create_task(append()) for _ in range(3)]
        await made.environment.sleep(0.5)
        await owner.container.close()
        await asyncio.wait(clients, timeout=100)
        assert all(client.done() for client in clients)
        again = await made.open()
        assert (await again.container.info("a")).length == acknowledged
        await again.container.close()
