"""A keyspace that was destroyed is gone, however often that was interrupted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

import siltstone
from siltstone import objects
from siltstone.container.models.segments import RemoveRange
from siltstone.objects.space_names import space_names
from siltstone.objects.space_removal import remove_space
from siltstone.store.system_table import for_keyspaces
from tests.support.objects.rebuilt import all_sealed
from tests.support.objects.small_segments import NAME, small_keyspace, store_for_keyspaces
from tests.support.objects.space_check import look

NAMES = space_names(NAME)


async def fill(keyspace: objects.AsyncKeyspace) -> None:
    for number in range(60):
        await keyspace.put("b", f"k{number}", b"v" * 50, index={"f": ["t"]}, ttl_s=1_000)


async def left(store: siltstone.AsyncStore) -> list[object]:
    rows = [key async for key, _ in store.table(NAMES.ledger).scan()]
    return [*rows, *[info.name async for info in store.list("objects/")]]


async def test_nothing_is_left_and_the_name_can_be_used_again(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, _):
        await fill(keyspace)
        await objects.create_async(store, "other")
        removed = await objects.destroy_async(store, NAME)
        assert removed.segments >= 3
        assert removed.length > 60 * 50
        assert await left(store) == ["objects/{other}/values/00000001"]
        assert [name async for name in objects.names_async(store)] == ["other"]
        with pytest.raises(objects.KeyspaceNotFoundError):
            await objects.open_async(store, NAME)
        again = await objects.create_async(store, NAME)
        assert (await again.put("b", "k1", b"new")).replaced is None
        assert [key async for key in again.keys("b")] == ["k1"]
        assert (await look(store, NAMES)).state.next_sqn == 2


async def test_a_repeat_does_no_harm_and_a_name_that_never_was_is_told(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, _, _):
        await objects.destroy_async(store, NAME)
        again = await objects.destroy_async(store, NAME)
        assert (again.segments, again.length) == (0, 0)
        with pytest.raises(objects.KeyspaceNotFoundError, match="keyspace=none"):
            await objects.destroy_async(store, "none")
        with pytest.raises(objects.KeyspaceNameError):
            await objects.destroy_async(store, "a/b")


async def test_handles_are_closed_and_what_was_asked_for_is_settled(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, _):
        await fill(keyspace)
        snapshot = await keyspace.snapshot()
        puts = [keyspace.put("b", "k", b"") for _ in range(10)]
        await objects.destroy_async(store, NAME)
        assert len({put.result().sqn for put in puts}) == 10
        with pytest.raises(siltstone.ClosedError):
            await keyspace.put("b", "k", b"")
        with pytest.raises(siltstone.SnapshotExpiredError):
            await snapshot.head("b", "k1")
        assert await left(store) == []


async def test_it_is_refused_while_a_compaction_runs_and_where_nothing_may_change(
    tmp_path: Path,
) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (store, keyspace, space):
        await fill(keyspace)
        for number in range(60):
            await keyspace.delete("b", f"k{number}")
        await all_sealed(space)
        await store.flush()
        compaction = asyncio.ensure_future(keyspace.compact())
        await asyncio.sleep(0)
        with pytest.raises(objects.CompactionBusyError, match=f"keyspace={NAME}"):
            await objects.destroy_async(store, NAME)
        assert (await compaction).run
    async with await siltstone.open_async(folder, read_only=True) as reader:
        with pytest.raises(siltstone.ReadOnlyError):
            await objects.destroy_async(reader, NAME)
        assert [name async for name in objects.names_async(reader)] == [NAME]


@pytest.mark.parametrize("then", ["destroy", "create"])
async def test_what_an_interrupted_one_left_is_removed(tmp_path: Path, then: str) -> None:
    """It ended after the rows and one segment were gone."""
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder) as (_, keyspace, _):
        await fill(keyspace)
    async with await siltstone.open_async(folder) as store:
        found = [info.name async for info in store.list(NAMES.prefix)]
        with pytest.raises(StoppedError):
            await remove_space(cast("siltstone.AsyncStore", Stopping(for_keyspaces(store))), NAMES)
        assert len([info async for info in store.list(NAMES.prefix)]) == len(found) - 1
    async with await siltstone.open_async(folder) as store:
        assert [name async for name in objects.names_async(store)] == []
        with pytest.raises(objects.KeyspaceNotFoundError):
            await objects.open_async(store, NAME)
        if then == "destroy":
            assert (await objects.destroy_async(store, NAME)).segments == len(found) - 1
            assert await left(store) == []
        else:
            keyspace = await objects.create_async(store, NAME)
            assert [bucket async for bucket in keyspace.buckets()] == []
            assert [info.name async for info in store.list("objects/")] == [NAMES.value_segment(1)]
            assert (await look(store, NAMES)).state.next_sqn == 1


class StoppedError(Exception):
    """The process ended here."""


class Stopping:
    """A store whose process ends when the second segment is to be deleted."""

    def __init__(self, store: siltstone.AsyncStore) -> None:
        self._store = store
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def segment(self, name: str) -> siltstone.AsyncSegment:
        self._count += 1
        if self._count == 2:
            raise StoppedError
        return self._store.segment(name)


async def test_values_whose_ledger_was_lost_are_kept_until_they_are_destroyed(
    tmp_path: Path,
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, keyspace, space):
        await fill(keyspace)
        await space.close()
        await store.commit([RemoveRange(NAMES.ledger)])
        with pytest.raises(objects.KeyspaceExistsError, match="rebuild it, or destroy it"):
            await objects.create_async(store, NAME)
        await objects.rebuild_async(store, NAME, tags={"o": "recovr", "log": "retain"})
        rebuilt = await objects.open_async(store, NAME)
        assert len([key async for key in rebuilt.keys("b")]) == 60
        await store.commit([RemoveRange(NAMES.ledger)])
        assert (await objects.destroy_async(store, NAME)).segments >= 3
        assert await left(store) == []


async def test_creates_and_removals_at_once_leave_one_or_none(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (store, _, _):
        calls = [
            objects.destroy_async(store, NAME) if number % 2 else objects.create_async(store, NAME)
            for number in range(8)
        ]
        told = await asyncio.gather(*calls, return_exceptions=True)
        refused = [each for each in told if isinstance(each, BaseException)]
        kinds = (objects.KeyspaceExistsError, objects.KeyspaceNotFoundError)
        assert all(isinstance(each, kinds) for each in refused)
        names = [name async for name in objects.names_async(store)]
        if names:
            await (await objects.open_async(store, NAME)).put("b", "k", b"")
            assert (await look(store, NAMES)).state.next_sqn == 2
        else:
            assert await left(store) == []
