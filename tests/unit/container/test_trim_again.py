"""A truncation that arrives at any moment while the previous one is carried out."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.container.container_world import World, pattern, with_settings, world

SETTINGS = with_settings(
    flush_age_s=1e6, table_flush_age_s=1e6, garbage_interval_s=1e6, chunk_bytes=1_000
)
STEP_S = 0.5
"""Half of what a frame takes here, so that every wait of the round is met."""


async def overlapping(made: World, steps: int) -> bool:
    """Truncate ``steps`` steps after a round begins; return whether the round still ran."""
    container = (owner := await made.open()).container
    await container.create("a")
    for number in range(4):
        await container.append("a", pattern(number, 1_000))
        await container.flush("a")
        await made.environment.sleep(20)
    await container.truncate("a", 2_000)
    made.environment.latency = lambda pool, _: 2 * STEP_S if pool.name.startswith("log") else 0.0
    round_ = asyncio.create_task(container.collect())
    await made.environment.sleep(steps * STEP_S)
    met = not round_.done()
    await container.truncate("a", 3_000)
    await round_
    made.environment.latency = lambda pool, _: 0.0
    await container.collect()
    assert [chunk.start for chunk in await container.chunks("a")] == [3_000]
    await made.check(owner)
    await container.close()
    return met


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(14))
def test_no_moment_of_a_round_loses_a_truncation(steps: int) -> None:
    with world(settings=SETTINGS) as made:
        met = made.run(overlapping(made, steps))
    assert met == (steps < 7), "the round runs at first and is over in the end"
