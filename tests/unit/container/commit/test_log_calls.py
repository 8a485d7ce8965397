"""Calls are made on threads that nothing else in the process had before, however alike it is."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import TypeVar

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.commit.log_calls import LogCalls
from siltstone.core.environment import Pool, SystemEnvironment
from siltstone.core.storage.async_storage import AsyncChunkStorage

T = TypeVar("T")

OWNERS = 50
"""Each is freed before the next is made, so that many have the ``id`` of an earlier one."""


class NotingEnvironment(SystemEnvironment):
    """Makes each call at once and notes its pool."""

    def __init__(self) -> None:
        super().__init__()
        self.pools: list[Pool] = []

    def run_blocking(self, pool: Pool, call: Callable[[], T]) -> asyncio.Future[T]:
        """Make the call."""
        self.pools.append(pool)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        future.set_result(call())
        return future


async def test_no_later_owner_gets_the_thread_of_one_that_is_gone() -> None:
    environment = NotingEnvironment()
    for _ in range(OWNERS):
        calls = LogCalls(environment)
        await calls.run(int)
        del calls
        await asyncio.sleep(0)
        gc.collect()
    assert len(set(environment.pools)) == OWNERS


async def test_no_later_bridge_to_storage_gets_the_threads_of_one_that_is_gone() -> None:
    environment = NotingEnvironment()
    for _ in range(OWNERS):
        storage = AsyncChunkStorage(MemoryChunkStorage(), environment)
        await storage.used_space()
        del storage
        await asyncio.sleep(0)
        gc.collect()
    assert len(set(environment.pools)) == OWNERS
