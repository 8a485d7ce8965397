"""A call that hangs in the service ends for its caller at the deadline, through all layers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.core.metrics import Metrics
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.bandwidth import Bandwidth
from siltstone.core.storage.block_cache import SLOT_BYTES, BlockCache
from siltstone.core.storage.cached import CachedChunkStorage
from siltstone.core.storage.limited import Bandwidths, LimitedChunkStorage
from siltstone.core.storage.metered import MeteredChunkStorage
from siltstone.core.storage.retries import Retries, RetryingChunkStorage
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from siltstone.testing.faults.slow_chunk_storage import SlowChunkStorage, Slowness

Wrap = Callable[[ChunkStorage, SystemEnvironment, Path], ChunkStorage]


def cached(storage: ChunkStorage, environment: SystemEnvironment, folder: Path) -> ChunkStorage:
    cache = BlockCache(folder, 4 * SLOT_BYTES, bytes(16))
    return CachedChunkStorage(storage, cache, lambda name: True)


def limited(storage: ChunkStorage, environment: SystemEnvironment, folder: Path) -> ChunkStorage:
    rate = Bandwidth(environment, 10)
    return LimitedChunkStorage(storage, environment, Bandwidths(up=rate, down=rate, longest_s=0.02))


def metered(storage: ChunkStorage, environment: SystemEnvironment, folder: Path) -> ChunkStorage:
    return MeteredChunkStorage(storage, environment, Metrics())


def retrying(storage: ChunkStorage, environment: SystemEnvironment, folder: Path) -> ChunkStorage:
    return RetryingChunkStorage(storage, environment, Retries(attempts=9, deadline_s=0.02))


def slow(storage: ChunkStorage, environment: SystemEnvironment, folder: Path) -> ChunkStorage:
    return SlowChunkStorage(storage, environment, Slowness(latency_s=0.002))


def together(storage: ChunkStorage, environment: SystemEnvironment, folder: Path) -> ChunkStorage:
    for wrap in (metered, limited, retrying, cached):
        storage = wrap(storage, environment, folder)
    return storage


CALLS: dict[str, Callable[[AsyncChunkStorage], Awaitable[object]]] = {
    "create": lambda storage: storage.create("b", [b"x"]),
    "write": lambda storage: storage.write("a", 1, [b"x"]),
    "read_into": lambda storage: storage.read_into("a", 0, bytearray(1)),
    "stat": lambda storage: storage.stat("a"),
    "list": lambda storage: storage.list(""),
    "delete": lambda storage: storage.delete("a"),
    "concat": lambda storage: storage.concat("b", [("a", 1)]),
}


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("wrap", [cached, limited, metered, retrying, slow, together])
async def test_a_call_that_hangs_ends_for_its_caller(
    wrap: Wrap, operation: str, tmp_path: Path
) -> None:
    gate = threading.Event()

    def wait(verb: str, name: str) -> None:
        if verb == operation:
            assert gate.wait(120), "the test releases every call"

    memory = MemoryChunkStorage()
    memory.create("a", [b"x"])
    environment = SystemEnvironment()
    storage = AsyncChunkStorage(
        wrap(FaultyChunkStorage(memory, before=wait), environment, tmp_path),
        environment,
        threads=1,
        deadline_s=0.05,
    )
    try:
        with pytest.raises(ChunkUnavailableError) as caught:
            await CALLS[operation](storage)
        assert caught.value.outcome is Outcome.UNKNOWN
    finally:
        gate.set()
        await asyncio.to_thread(environment.close)
