"""An owner knows of no snapshots of readers: what it deletes ends them, by an error of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import siltstone
from siltstone.core.errors import SnapshotExpiredError
from siltstone.objects import AsyncKeyspace, AsyncKeyspaceSnapshot, LostObjectError
from siltstone.objects.large_tasks import do_large_tasks
from siltstone.objects.open_space import OpenSpace
from tests.support.objects.rebuilt import all_sealed
from tests.support.objects.small_segments import (
    small_keyspace,
    small_space,
    store_for_keyspaces,
    values_of,
)
from tests.support.objects.streams_to_put import LARGE

NAMES = [f"k{number}" for number in range(20)]


async def replaced(store: siltstone.AsyncStore, keyspace: AsyncKeyspace, space: OpenSpace) -> None:
    """Replace all objects, and compact until the segments of the old ones are gone."""
    for _ in range(5):
        for name in NAMES:
            await keyspace.put("b", name, b"new" * 40)
    await all_sealed(space)
    await store.flush()
    while (await keyspace.compact()).run:
        pass
    await store.flush()
    await store.collect()


async def all_by_key(taken: AsyncKeyspaceSnapshot) -> None:
    async for _ in taken.objects("b"):
        pass


async def all_by_sqn(taken: AsyncKeyspaceSnapshot) -> None:
    async for _ in taken.objects("b", order="sqn"):
        pass


async def one(taken: AsyncKeyspaceSnapshot) -> None:
    await taken.get("b", "k3")


@asynccontextmanager
async def opened(
    tmp_path: Path,
) -> AsyncIterator[tuple[siltstone.AsyncStore, AsyncKeyspace, OpenSpace, AsyncKeyspace]]:
    """A store, its keyspace of old values with what its handles share, and that of a reader."""
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        for name in NAMES:
            await keyspace.put("b", name, b"old" * 40)
        await store.flush()
        async with await siltstone.open_async(folder, read_only=True) as other:
            reader = AsyncKeyspace(await small_space(other))
            yield store, keyspace, space, reader


@pytest.mark.parametrize("read", [all_by_key, all_by_sqn, one])
async def test_a_snapshot_whose_segments_the_owner_deleted_has_expired(
    tmp_path: Path, read: Callable[[AsyncKeyspaceSnapshot], Awaitable[None]]
) -> None:
    async with opened(tmp_path) as (store, keyspace, space, reader):
        taken = await reader.snapshot()
        await replaced(store, keyspace, space)
        with pytest.raises(SnapshotExpiredError, match="deleted"):
            await read(taken)
        assert await values_of(reader) == dict.fromkeys(NAMES, b"new" * 40)
        found = await reader.get("b", "k3")
        assert found is not None
        assert found.value == b"new" * 40


async def test_a_segment_that_is_gone_and_still_named_is_lost(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, keyspace, space, _):
        taken = await keyspace.snapshot()
        segment = store.segment(space.parts.names.value_segment(1))
        await segment.seal()
        await segment.delete()
        with pytest.raises(LostObjectError, match="k3"):
            await one(taken)


async def by_parts(taken: AsyncKeyspaceSnapshot) -> None:
    await taken.open_value("b", "k3")


@pytest.mark.parametrize("read", [all_by_key, all_by_sqn, one, by_parts])
async def test_a_snapshot_whose_large_value_the_owner_deleted_has_expired(
    tmp_path: Path, read: Callable[[AsyncKeyspaceSnapshot], Awaitable[None]]
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder, LARGE) as (store, keyspace, space):
        await keyspace.put("b", "k3", bytes(5_000))
        await store.flush()
        async with await siltstone.open_async(folder, read_only=True) as other:
            reader = AsyncKeyspace(await small_space(other, LARGE))
            taken = await reader.snapshot()
            await keyspace.put("b", "k3", b"new")
            assert await do_large_tasks(space.parts) == 1
            await store.flush()
            await store.collect()
            with pytest.raises(SnapshotExpiredError, match="deleted"):
                await read(taken)
            assert await values_of(reader) == {"k3": b"new"}
