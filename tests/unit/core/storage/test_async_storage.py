"""The bridge to blocking calls: deadlines, cancelling, and what the caller may conclude."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import (
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.storage.async_storage import AsyncChunkStorage


class Gate:
    """A blocking call that lasts until it is released."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.left = threading.Event()

    def __call__(self, _: ChunkStorage) -> str:
        self.entered.set()
        assert self.open.wait(120), "the test releases every call"
        self.left.set()
        return "done"


def is_healthy(storage: AsyncChunkStorage) -> bool:
    """The answer of the storage now; it may be another one a moment later."""
    return storage.healthy


@asynccontextmanager
async def opened_storage(
    *, threads: int = 2, deadline_s: float = 120.0
) -> AsyncIterator[AsyncChunkStorage]:
    environment = SystemEnvironment()
    storage = AsyncChunkStorage(
        MemoryChunkStorage(), environment, threads=threads, deadline_s=deadline_s
    )
    try:
        yield storage
    finally:
        await asyncio.to_thread(environment.close)


async def test_a_call_returns_its_result_or_its_error() -> None:
    async with opened_storage() as storage:
        await storage.create("a", [b"x"])
        assert (await storage.stat("a")).length == 1
        with pytest.raises(ChunkNotFoundError):
            await storage.stat("b")


async def test_a_whole_create_is_passed_on() -> None:
    async with opened_storage() as storage:
        assert storage.capabilities.whole
        await storage.create_whole("a", [b"fi", b"rst"])
        with pytest.raises(ChunkExistsError):
            await storage.create_whole("a", [b"second"])
        assert await storage.read_all("a", 100) == b"first"


async def test_a_late_call_is_answered_with_an_unknown_outcome_and_makes_the_pool_unhealthy() -> (
    None
):
    async with opened_storage(deadline_s=0.05) as storage:
        gates = [Gate(), Gate()]
        results = await asyncio.gather(
            *(storage.run("write", "a", gate) for gate in gates), return_exceptions=True
        )
        for result in results:
            assert isinstance(result, ChunkUnavailableError)
            assert result.outcome is Outcome.UNKNOWN
        assert not is_healthy(storage)
        for gate in gates:
            gate.open.set()
        for _ in range(10_000):
            if is_healthy(storage):
                break
            await asyncio.sleep(0.001)
        assert is_healthy(storage)


async def test_a_cancelled_caller_leaves_only_when_its_call_has_ended() -> None:
    async with opened_storage() as storage:
        gate = Gate()
        caller = asyncio.ensure_future(storage.run("write", "a", gate))
        await asyncio.to_thread(gate.entered.wait, 120)
        for _ in range(3):
            caller.cancel()
            await asyncio.sleep(0.005)
            assert not caller.done()
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert gate.left.is_set()


@pytest.mark.slow
async def test_a_cancelled_caller_leaves_at_the_deadline_of_a_call_that_hangs() -> None:
    async with opened_storage(deadline_s=2.0) as storage:  # it is cancelled long before that
        gate = Gate()
        caller = asyncio.ensure_future(storage.run("write", "a", gate))
        await asyncio.to_thread(gate.entered.wait, 120)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not gate.left.is_set()
        gate.open.set()


async def test_a_call_that_finds_no_thread_in_time_was_never_sent() -> None:
    async with opened_storage(threads=1) as storage:
        first, second = Gate(), Gate()
        busy = asyncio.ensure_future(storage.run("write", "a", first))
        await asyncio.to_thread(first.entered.wait, 120)
        waiting = asyncio.ensure_future(storage.run("write", "b", second))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting  # it leaves at once, for nothing was sent
        first.open.set()
        assert await busy == "done"
        await storage.list("")
        assert not second.entered.is_set()
