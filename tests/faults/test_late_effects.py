"""Calls of an older owner that take their effect when no caller expects them any more.

What may fail: a call is answered too late, and has its effect later still; an owner is paused
before one, is overtaken, and makes it then. What must hold: bytes that were acknowledged stay as
they are; what arrives late is garbage, is found, and is removed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from siltstone.core.chunk_names import data_prefix
from siltstone.core.environment import Pool
from siltstone.core.errors import SiltstoneError
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.container.container_world import (
    World,
    close_quietly,
    pattern,
    with_settings,
    world,
)
from tests.support.faults.zombie import PausingEnvironment, content

SETTINGS = with_settings(
    chunk_bytes=4_000,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    garbage_interval_s=1e6,
    garbage_delay_s=0.0,
    storage_deadline_s=5.0,
    storage_attempts=1,
    pack_bytes=1,
)
DAYS_S = 3 * 24 * 3600.0


class SlowOnce(VirtualEnvironment):
    """Long-term storage takes very long for one of its calls."""

    def __init__(self, made: World, number: int) -> None:
        super().__init__(3, latency=self._latency_of, clock=made.environment.clock)
        self.number = number
        self.calls = 0

    def _latency_of(self, pool: Pool, chance: object) -> float:
        if not pool.name.startswith("chunks-"):
            return 0.0
        self.calls += 1
        return 120.0 if self.calls == self.number else 0.0


async def late(made: World, number: int) -> int:
    """One call of two owners' work comes a minute late; return how many calls there were."""
    environment = SlowOnce(made, 0)
    owner = await made.open(environment=environment)
    data = b""

    async def work() -> None:
        nonlocal data
        for step in range(4):
            await owner.container.append("a", pattern(step, 1_100))
            data += pattern(step, 1_100)
            with suppress(SiltstoneError):
                await owner.container.flush()
            if step == 2:
                with suppress(SiltstoneError):
                    await owner.container.checkpoint()

    await owner.container.create("a")
    begin = environment.calls
    environment.number = begin + number if number else 0
    failed: SiltstoneError | None = None
    try:
        await work()
    except SiltstoneError as error:
        failed = error
    calls = environment.calls - begin
    if failed is not None:
        # A journal write without an answer may end an owner: what it acknowledged stays.
        await close_quietly(owner)
    await made.crash(owner, keep_index=False)
    newer = await made.open(takeover=True, index="newer")
    before = await content(newer, "a")
    assert before[1].startswith(data)
    await newer.container.append("a", pattern(9, 800))
    await newer.container.flush()
    await made.environment.sleep(100)
    await newer.container.flush()
    assert (await content(newer, "a"))[1] == before[1] + pattern(9, 800)
    await made.check(newer, strict=False)
    await newer.container.close()
    return calls


def test_a_call_takes_effect_long_after_its_deadline() -> None:
    with world(settings=SETTINGS) as made:
        count = int(made.run(late(made, 0)))
    assert count > 15
    for number in range(1, count + 1):
        with world(settings=SETTINGS) as made:
            try:
                made.run(late(made, number))
            except BaseException as error:
                error.add_note(f"call {number} was late")
                raise


async def orphaned(made: World, number: int, *, after: bool) -> int:
    """The older owner makes its chunk when the newer one has swept its epoch already."""
    first = await made.open()
    await first.container.create("a")
    await first.container.append("a", pattern(1, 500))
    await first.container.flush()
    await first.container.close()
    environment = PausingEnvironment(made, 10**9, after=after)
    older = await made.open(index="older", environment=environment)
    begin = environment.calls
    environment._number = begin + number
    await older.container.append("a", pattern(2, 3_000))

    async def flush() -> None:
        with suppress(SiltstoneError):
            await older.container.flush()

    life = asyncio.create_task(flush())
    reached = asyncio.create_task(environment.reached.wait())
    await asyncio.wait([life, reached], return_when=asyncio.FIRST_COMPLETED)
    calls = environment.calls - begin
    environment.stop_now()
    newer = await made.open(takeover=True, index="newer")
    made.environment.clock.now += DAYS_S
    data = pattern(1, 500) + pattern(2, 3_000)
    for _ in range(2):
        async for _finding in newer.container.garbage.sweep(delete=True):
            pass
        await newer.container.garbage.run()
    environment.resume.set()
    await life
    reached.cancel()
    await close_quietly(older)
    assert await content(newer, "a") == (0, data)
    await newer.container.flush()
    made.environment.clock.now += DAYS_S
    async for _finding in newer.container.garbage.sweep(delete=True):
        pass
    await newer.container.garbage.run()
    await newer.container.flush()
    await newer.container.garbage.run()
    named = {chunk.chunk for chunk in await newer.container.chunks("a")}
    assert set(made.names(data_prefix(0))) == named
    assert await content(newer, "a") == (0, data)
    await made.check(newer)
    await newer.container.close()
    return calls


@pytest.mark.parametrize("after", [False, True])
def test_a_chunk_made_after_the_sweep_of_its_epoch_goes_with_the_next(after: bool) -> None:
    with world(settings=SETTINGS) as made:
        count = int(made.run(orphaned(made, 10**8, after=after)))
    assert count >= 4
    for number in range(2, count + 1):
        with world(settings=SETTINGS) as made:
            try:
                made.run(orphaned(made, number, after=after))
            except BaseException as error:
                error.add_note(f"stopped at call {number}")
                raise
