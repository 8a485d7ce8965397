"""A cancelled close continues to its end: no task is left, and no caller waits for an answer."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.container.container_world import world

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("ticks", range(1, 40, 3))
async def test_a_cancelled_close_ends_everything(ticks: int) -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        append = asyncio.ensure_future(owner.container.append("a", b"bytes"))
        await asyncio.sleep(0)
        closing = asyncio.create_task(owner.container.close())
        for _ in range(ticks):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert owner.container._pipeline_task.done()
        assert await append == 0
        again = await made.open()
        assert await again.container.read("a", 0, 10) == b"bytes"
        await again.container.close()
