"""Uploads of large values: what is left when they end early, and who deletes it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from siltstone.core.errors import BackPressureError, ReadOnlyError, SnapshotExpiredError
from siltstone.objects.large_upload import begin_upload
from siltstone.objects.records.keys import LargeStatus
from tests.support import inside
from tests.support.container.container_world import World
from tests.support.objects.small_segments import (
    small_keyspace,
    store_for_keyspaces,
    values_of,
)
from tests.support.objects.space_world import open_owner, open_reader
from tests.support.objects.streams_to_put import LARGE, left, stuttering

LIVE_ALONE = ({LargeStatus.LIVE}, 1)


async def test_the_opening_deletes_what_is_left_of_uploads(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder, LARGE) as (_, photos, space):
        await photos.put("b", "k", bytes(2_000))
        upload = await begin_upload(space.parts, space.batches)
        await upload.push(bytes(3_000))
        assert await left(space) == ({LargeStatus.LIVE, LargeStatus.UPLOADING}, 2)
    async with small_keyspace(folder, LARGE) as (_, _, space):
        assert await left(space) == LIVE_ALONE


async def test_a_close_settles_large_puts_that_were_asked_for(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder, LARGE) as (_, photos, _):
        puts = [photos.put("b", f"k{number}", bytes([number]) * 5_000) for number in range(9)]
    assert sorted([(await put).sqn for put in puts]) == list(range(1, 10))
    async with small_keyspace(folder, LARGE) as (_, photos, _):
        values = await values_of(photos)
        assert values == {f"k{number}": bytes([number]) * 5_000 for number in range(9)}


@pytest.mark.virtual_time
async def test_what_an_upload_cannot_delete_is_deleted_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(_: object) -> None:
        raise BackPressureError("injected: no room")

    def breaks(count: int) -> None:
        if count > 3_000:
            raise OSError("the stream is broken")

    monkeypatch.setattr("siltstone.objects.large_upload.do_large_tasks", refused)
    async with World() as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace(LARGE)
        space = inside.open_space(photos)
        await photos.put("b", "k", bytes(2_000))
        with pytest.raises(OSError, match="broken"):
            await photos.put_from("b", "k", stuttering(bytes(5_000), 300, breaks))
        assert await left(space) == ({LargeStatus.LIVE, LargeStatus.UPLOADING}, 2)
        await world.environment.sleep(61)
        assert await left(space) == LIVE_ALONE
        await opened.store.close()


@pytest.mark.virtual_time
async def test_a_large_value_that_expires_goes_with_what_is_left_of_it() -> None:
    async with World() as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace(LARGE)
        space = inside.open_space(photos)
        await photos.put("b", "k", bytes(2_000), ttl_s=5)
        opened_value = await photos.open_value("b", "k")
        assert opened_value is not None
        await world.environment.sleep(70)
        assert await photos.get("b", "k") is None
        assert await left(space) == ({LargeStatus.DEAD}, 1)
        assert await opened_value.read(0, 2_000) == bytes(2_000)
        await opened_value.close()
        await world.environment.sleep(61)
        assert await left(space) == (set(), 0)
        await opened.store.close()


@pytest.mark.virtual_time
async def test_a_reader_of_another_process_is_told_that_the_owner_deleted_the_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("siltstone.objects.large_values.READ_BYTES", 256)
    async with World() as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace(LARGE)
        await photos.put("b", "k", bytes(5_000))
        reader = await open_reader(world)
        found = await reader.keyspace(LARGE)
        value = await found.open_value("b", "k")
        assert value is not None
        assert await value.read(100, 200) == bytes(200)
        await photos.delete("b", "k")
        await world.environment.sleep(70)
        assert await left(inside.open_space(photos)) == (set(), 0)
        assert await found.open_value("b", "k") is None
        with pytest.raises(SnapshotExpiredError, match="the object was changed"):
            await value.read(4_000, 200)
        with pytest.raises(ReadOnlyError):
            await found.put_from("b", "k", io.BytesIO(bytes(5_000)))
        await value.close()
        await reader.store.close()
        await opened.store.close()
