"""The layers of an owner are made as its settings say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.container.boot import storage_layers
from siltstone.container.boot.storage_layers import bridged, packing_storage, segment_storage
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.segments.settings import SegmentStorageSettings
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support import inside
from tests.support.oracles.memory_layout_store import MemoryLayoutStore

SETTINGS = ContainerSettings(
    chunk_bytes=12_345,
    verify_reads="always",
    read_back=True,
    prefetch_bytes=77,
    storage_threads=3,
    storage_deadline_s=9.0,
    storage_rate_min=54_321,
    background_rate=99,
    slow_call_s=4.0,
)


def test_the_segment_layer_is_made_as_the_settings_say() -> None:
    environment, storage = VirtualEnvironment(), MemoryChunkStorage(Bucket())
    chosen = SegmentStorageSettings(
        chunk_bytes=12_345, verify_reads="always", read_back=True, prefetch_bytes=0
    )
    layouts = MemoryLayoutStore()

    async def made(bridge: AsyncChunkStorage) -> None:
        for segments, prefetch_bytes in (
            (segment_storage(bridge, layouts, environment, SETTINGS), 0),
            (
                segment_storage(bridge, layouts, environment, SETTINGS, prefetch_bytes=5),
                5,
            ),
            (packing_storage(bridge, layouts, environment, SETTINGS), 77),
        ):
            context = inside.context(segments)
            assert context.settings == replace(chosen, prefetch_bytes=prefetch_bytes)
            assert context.storage is bridge
            assert context.layouts is layouts
            assert context.blocks._half_s == chosen.remember_s / 2
            assert context.blocks._now() == environment.monotonic()

    async def over_a_bridge() -> None:
        await made(AsyncChunkStorage(storage, environment))

    with environment.runner() as runner:
        runner.run(over_a_bridge())


def test_the_bridge_is_made_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}

    def bridge(storage: object, environment: object, **choices: Any) -> object:
        made.update(choices, storage=storage, environment=environment)
        return made

    monkeypatch.setattr(storage_layers, "AsyncChunkStorage", bridge)
    environment, storage = VirtualEnvironment(), MemoryChunkStorage(Bucket())
    assert bridged(storage, environment, SETTINGS) is cast(Any, made)
    limits = made.pop("limits")
    assert made.pop("metrics").enabled is False
    assert made.pop("background")._rate == 99
    assert made == {
        "storage": storage,
        "environment": environment,
        "threads": 3,
        "deadline_s": 9.0,
        "rate_min": 54_321,
    }
    assert limits.slow_s == 4.0
    assert (limits.circuit.failures_max, limits.circuit.probe_s) == (5, 5.0)
    metrics = cast(Any, object())
    bridged(storage, environment, SETTINGS, metrics)
    assert made["metrics"] is metrics
