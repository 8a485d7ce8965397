"""What is measured of a keyspace, compared with what was done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

import siltstone
from siltstone.container.models.health import HealthReason
from siltstone.core.errors import ChunkUnavailableError
from siltstone.objects.value_compaction import ValueCompaction
from tests.support.objects.damaged_segments import damage, head_of, sealed_rows, spot
from tests.support.objects.small_segments import small_keyspace, store_for_keyspaces


def sample(store: siltstone.AsyncStore, name: str, **labels: str) -> float | None:
    found = {"store": store.uuid, "container": "0", "keyspace": "small", **labels}
    return REGISTRY.get_sample_value(f"siltstone_{name}", found)


async def reasons(store: siltstone.AsyncStore) -> tuple[HealthReason, ...]:
    (found,) = await store.health()
    return found.reasons


def measured(tmp_path: Path) -> Path:
    folder = store_for_keyspaces(tmp_path)
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("metrics: {enabled: true}\nobjects: {head_checks: 0}\n")
    return folder


async def test_changes_and_values_that_are_read_are_counted(tmp_path: Path) -> None:
    async with small_keyspace(measured(tmp_path)) as (store, keyspace, space):
        for number in range(5):
            await keyspace.put("b", f"k{number}", b"v" * 100)
        await keyspace.delete("b", "k0")
        await keyspace.delete("b", "k0")
        await asyncio.gather(*(keyspace.put("b", f"k{number}", b"w") for number in range(20)))
        assert sample(store, "object_changes_total", change="put") == 25
        assert sample(store, "object_changes_total", change="delete") == 1
        batches = sample(store, "object_batches_total")
        assert batches is not None
        assert 8 <= batches < 27
        rows = (await space.parts.manifest.now()).rows
        state = await space.parts.ledger.state()
        assert state is not None
        written = sum(row.length for row in rows) + state.state.length
        assert sample(store, "object_bytes_total", direction="written") == written
        await keyspace.get("b", "k1")
        await keyspace.get("b", "absent")
        assert [each.head.key async for each in keyspace.objects("b", start="k2", end="k4")] == [
            "k2",
            "k3",
        ]
        assert sample(store, "object_gets_total") == 3
        assert sample(store, "object_bytes_total", direction="read") == 3
        assert sample(store, "object_queue_bytes") == 0
    assert sample(store, "object_queue_bytes") is None, "it is only true while it is open"
    assert sample(store, "object_gets_total") == 3


async def test_the_queue_is_measured(tmp_path: Path) -> None:
    async with small_keyspace(measured(tmp_path)) as (store, keyspace, _):
        puts = [keyspace.put("b", f"k{number}", bytes(1_000_000)) for number in range(12)]
        first = await puts[0]
        assert first.sqn == 1
        queued = sample(store, "object_queue_bytes")
        assert queued is not None
        assert queued > 1_000_000
        await asyncio.gather(*puts)
        assert sample(store, "object_queue_bytes") == 0


async def test_compactions_and_what_is_needed_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise ChunkUnavailableError("no answer", chunk="", operation="create")

    async with small_keyspace(measured(tmp_path)) as (store, keyspace, space):
        for number in range(100):
            key = f"kept{number}" if number % 20 == 0 else f"k{number % 3}"
            await keyspace.put("b", key, b"v" * 100)
        await sealed_rows(space)
        await store.flush()
        with monkeypatch.context() as patch:
            patch.setattr(ValueCompaction, "run", fails)
            with pytest.raises(ChunkUnavailableError):
                await keyspace.compact()
        done = 0
        while (await keyspace.compact()).run:
            ratio = sample(store, "value_live_ratio")
            assert ratio is not None
            assert done or 0 < ratio < 0.1
            done += 1
        assert done
        found = [
            sample(store, "value_compactions_total", outcome=outcome)
            for outcome in ("failed", "done", "needless")
        ]
        assert found == [1, done, 1]


async def test_lost_objects_are_counted_and_told_by_health(tmp_path: Path) -> None:
    folder = measured(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await keyspace.put("b", "k", b"v" * 100)
        await store.flush()
        place = await spot(space, 1, (await head_of(space, "k")).length - 5)
    damage(folder, place)
    async with small_keyspace(folder) as (store, keyspace, _):
        assert HealthReason.OBJECTS_LOST not in await reasons(store)
        for _ in range(2):
            with pytest.raises(siltstone.CorruptDataError):
                await keyspace.get("b", "k")
        assert sample(store, "objects_lost_total") == 2
        assert HealthReason.OBJECTS_LOST in await reasons(store)
        await keyspace.put("b", "k", b"again")
        assert HealthReason.OBJECTS_LOST not in await reasons(store)
