"""The slow storage takes the time that was set, and repeats from a seed."""

from __future__ import annotations

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.errors import ChunkNotFoundError
from siltstone.testing.faults.slow_chunk_storage import SlowChunkStorage, Slowness
from siltstone.testing.virtual_time import VirtualEnvironment


def times(slowness: Slowness, seed: int = 0, count: int = 400) -> list[float]:
    environment = VirtualEnvironment(seed)
    storage = SlowChunkStorage(MemoryChunkStorage(), environment, slowness)
    found = []
    for number in range(count):
        begun = environment.monotonic()
        storage.create(f"{number}", [bytes(1_000)])
        found.append(environment.monotonic() - begun)
    return found


def test_latency_and_rate_add_up() -> None:
    assert times(Slowness(latency_s=0.5, rate=1_000.0), count=2) == pytest.approx([1.5, 1.5])


def test_jitter_is_spread_and_repeats_from_its_seed() -> None:
    slowness = Slowness(latency_s=1.0, jitter_s=1.0)
    found = times(slowness)
    assert min(found) >= 1.0
    assert max(found) <= 2.0
    assert 1.4 < sum(found) / len(found) < 1.6
    assert found == times(slowness)
    assert found != times(slowness, seed=1)


def test_some_calls_stall() -> None:
    found = times(Slowness(stalls=0.1, stall_s=9.0))
    assert 10 < sum(time_s == 9.0 for time_s in found) < 80
    assert {0.0, 9.0} == set(found)


def test_an_effect_comes_in_the_middle_and_a_failure_takes_time_too() -> None:
    environment = VirtualEnvironment()
    memory = MemoryChunkStorage()
    seen = []
    storage = SlowChunkStorage(memory, environment, Slowness(latency_s=2.0))
    memory_stat = memory.stat

    def stat(name: str) -> object:
        seen.append(environment.monotonic())
        return memory_stat(name)

    memory.stat = stat  # type: ignore[method-assign, assignment]
    with pytest.raises(ChunkNotFoundError):
        storage.stat("a")
    assert seen == [1.0]
    storage.close()
