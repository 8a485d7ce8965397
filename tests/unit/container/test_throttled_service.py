"""A container on a service that takes two calls at a time; on virtual time.

What must hold: everything is flushed and read, the owner lives, health says slow
as long as it is slow, and everything is as before a minute later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

import pytest

from siltstone.container.models.health import HealthReason, HealthState
from siltstone.core.environment import Pool
from siltstone.core.errors import ChunkThrottledError
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from tests.support.container.container_world import World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

T = TypeVar("T")
SEGMENTS = 24
SETTINGS = with_settings(flush_parallel=8, pack_bytes=1)


class Door:
    """Refuses chunk calls while more than ``takes`` are in flight, and counts them."""

    def __init__(self, made: World) -> None:
        self.takes = 1_000
        self.refused = 0
        self.in_flight = 0
        environment, run = made.environment, made.environment.run_blocking

        def latency(pool: Pool, chance: Random) -> float:
            return 0.1 + 0.1 * chance.random() if pool.name.startswith("chunks-") else 0.0

        async def counted(pool: Pool, call: Callable[[], T]) -> T:
            is_chunks = pool.name.startswith("chunks-")
            self.in_flight += is_chunks
            try:
                return await run(pool, call)
            finally:
                self.in_flight -= is_chunks

        environment.run_blocking = counted  # type: ignore[method-assign]

        def hook(storage: FaultyChunkStorage) -> None:
            storage.before = self

        environment.latency = latency
        made.storage_hook = hook

    def __call__(self, operation: str, name: str) -> None:
        if self.in_flight > self.takes:
            self.refused += 1
            raise ChunkThrottledError("slow down", chunk=name, operation=operation)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_a_flush_and_reads_drain_through_a_service_that_throttles(seed: int) -> None:
    async with world(seed, settings=SETTINGS) as made:
        door = Door(made)
        owner = await made.open()
        container = owner.container
        names = [f"s{number}" for number in range(SEGMENTS)]
        for name in names:
            await container.create(name)
        await container.flush()
        door.takes = 2
        await asyncio.gather(
            *(container.append(name, pattern(number, 9_000)) for number, name in enumerate(names))
        )
        await container.flush()
        assert door.refused > 0
        found = await container.health()
        assert (found.state, found.reasons) == (HealthState.SLOW, (HealthReason.THROTTLED,))
        assert found.throttled_calls > 0
        assert found.unanswered == 0
        refused = door.refused
        reads = await asyncio.gather(*(container.read(name, 0, 9_000) for name in names))
        assert reads == [pattern(number, 9_000) for number in range(SEGMENTS)]
        assert door.refused > refused
        door.takes = 1_000
        await made.environment.sleep(70)
        await asyncio.gather(*(container.read(name, 0, 9_000) for name in names))
        assert (await container.health()).state is HealthState.OK
        assert container.failure is None
        await made.check(owner, strict=True)
        await container.close()
