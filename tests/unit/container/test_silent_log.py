"""Tier 1 that does not answer: appends wait; a close and an opening end and say so.

What is injected: calls to the log that hang, before they have an effect. What must hold: what was
acknowledged is there for the next owner, and what was in flight has an unknown outcome.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from siltstone.core.environment import Pool
from siltstone.core.errors import LogError, Outcome, OutcomeUnknownError
from tests.support.container.container_world import world

pytestmark = pytest.mark.virtual_time


def silent(name: str) -> object:
    """The calls of pools with this name prefix hang for ever."""

    def latency(pool: Pool, chance: Random) -> float:
        return float("inf") if pool.name.startswith(name) else 0.0

    return latency


async def test_a_close_ends_although_a_frame_hangs() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.append("a", b"kept")
        heard = made.environment.latency
        made.environment.latency = silent("log-")  # type: ignore[assignment]
        append = asyncio.ensure_future(owner.container.append("a", b"on its way"))
        await made.environment.sleep(1.0)
        assert not append.done()
        with pytest.raises(LogError, match="tier 1 does not answer") as caught:
            await owner.container.close()
        assert caught.value.outcome is Outcome.UNKNOWN
        with pytest.raises(OutcomeUnknownError):
            await append
        made.environment.latency = heard
        newer = await made.open(takeover=True, index="newer")
        assert await newer.container.read("a", 0, 100) == b"kept"
        await newer.container.close()


async def test_a_close_waits_for_frames_of_a_log_that_is_only_slow() -> None:
    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        made.environment.latency = lambda pool, _: 20.0 if pool.name.startswith("log-") else 0.0
        appends = []
        for number in range(4):
            appends.append(asyncio.ensure_future(owner.container.append("a", b"%d" % number)))
            await made.environment.sleep(0.5)
        await owner.container.close()
        assert sorted(await asyncio.gather(*appends)) == [0, 1, 2, 3]


@pytest.mark.parametrize("read_only", [False, True])
async def test_an_opening_ends(*, read_only: bool) -> None:
    async with world() as made:
        await (await made.open()).container.close()
        made.environment.latency = silent("log-boot")  # type: ignore[assignment]
        with pytest.raises(LogError, match="tier 1 does not answer container=0") as caught:
            await (made.open_reader() if read_only else made.open())
        assert caught.value.outcome is Outcome.NOT_APPLIED
