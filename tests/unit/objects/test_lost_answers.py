"""What readers are told of objects whose values are lost, and how losses are noticed early."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.objects import AsyncKeyspace, LostObjectError
from siltstone.objects.async_folds import Order
from siltstone.objects.open_space import OpenSpace
from tests.support import inside
from tests.support.objects.damaged_segments import Spot, damage, head_of, spot
from tests.support.objects.rebuilt import bytes_at
from tests.support.objects.small_segments import small_keyspace, store_for_keyspaces
from tests.support.objects.streams_to_put import LARGE
from tests.support.stores import make_store

KEYS = [f"k{number}" for number in range(6)]
LOST = "k3"


def value(key: str) -> bytes:
    return key.encode() * 700


@asynccontextmanager
async def photos_in(
    folder: Path, **settings: object
) -> AsyncIterator[tuple[AsyncKeyspace, OpenSpace]]:
    """The keyspace in a store whose settings have these keys of ``objects``."""
    text = "".join(f"  {key}: {each}\n" for key, each in settings.items())
    file = folder / "siltstone.yaml"
    plain = file.read_text(encoding="utf-8")
    file.write_text(f"{plain}\nobjects:\n{text}" if text else plain, encoding="utf-8")
    async with await siltstone.open_async(folder) as store:
        keyspace = await objects.open_async(store, "photos")
        yield keyspace, inside.open_space(keyspace)
    file.write_text(plain, encoding="utf-8")


async def with_a_loss(tmp_path: Path, *, header: bool = False) -> Path:
    """A store with a keyspace of which one record is damaged, in its value or its header."""
    folder = make_store(tmp_path, containers=1)
    async with await siltstone.open_async(folder) as store:
        keyspace = await objects.create_async(store, "photos")
        for key in KEYS:
            await keyspace.put("b", key, value(key), index={"f": ["t"]})
        await store.flush()
        space = inside.open_space(keyspace)
        head = await head_of(space, LOST)
        at = head.offset + (20 if header else head.length - 5)
        place: Spot = await spot(space, head.number, at)
    damage(folder, place)
    return folder


async def test_a_lost_object_is_absent_to_readers_where_the_settings_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = await with_a_loss(tmp_path)
    rest = [key for key in KEYS if key != LOST]
    async with photos_in(folder, lost="missing") as (keyspace, space):
        assert await keyspace.get("b", LOST) is None
        orders: tuple[Order, ...] = ("key", "sqn")
        for order in orders:
            found = [each async for each in keyspace.objects("b", order=order)]
            assert [each.head.key for each in found] == rest
        found_by = [each.head.key async for _, each in keyspace.indexed("b", "f")]
        assert found_by == rest
        async with await keyspace.snapshot() as taken:
            assert await taken.get("b", LOST) is None
            assert [each.head.key async for each in taken.objects("b")] == rest
        assert await keyspace.head("b", LOST) is not None, "nothing is read for that"
        assert space.parts.losses.current(space.parts.ledger) == 1
        assert sum(LOST in record.getMessage() for record in caplog.records) == 1
        await keyspace.put("b", LOST, b"again")
        assert space.parts.losses.current(space.parts.ledger) == 0
        again = await keyspace.get("b", LOST)
        assert again is not None
        assert again.value == b"again"


async def test_a_lost_object_is_an_error_otherwise(tmp_path: Path) -> None:
    folder = await with_a_loss(tmp_path)
    async with photos_in(folder) as (keyspace, space):
        with pytest.raises(LostObjectError):
            await keyspace.get("b", LOST)
        orders: tuple[Order, ...] = ("key", "sqn")
        for order in orders:
            with pytest.raises(LostObjectError, match=LOST):
                [each async for each in keyspace.objects("b", order=order)]
        async with await keyspace.snapshot() as taken:
            with pytest.raises(LostObjectError):
                await taken.get("b", LOST)
        assert space.parts.losses.current(space.parts.ledger) == 1


async def test_in_the_order_of_sqns_no_object_is_told_twice_where_headers_are_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before the damage are told by their records, the others by their heads."""
    folder = await with_a_loss(tmp_path)
    monkeypatch.setattr("siltstone.objects.value_log.SCANNED_MAX", 1)
    monkeypatch.setattr("siltstone.objects.value_log.PIECE_BYTES", 1_000)
    async with photos_in(folder, lost="missing") as (keyspace, _):
        found = [each.head.key async for each in keyspace.objects("b", order="sqn")]
        assert found == [key for key in KEYS if key != LOST]


def test_blocking_callers_are_told_the_same(tmp_path: Path) -> None:
    folder = asyncio.run(with_a_loss(tmp_path))
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("objects: {lost: missing}\n")
    with siltstone.open(folder) as store:
        keyspace = objects.open(store, "photos")
        assert keyspace.get("b", LOST) is None
        assert [each.head.key for each in keyspace.objects("b")] == [
            key for key in KEYS if key != LOST
        ]
        head = keyspace.head("b", LOST, check=True)
        assert head is not None
        assert keyspace.head("b", "other", check=True) is None


@pytest.mark.parametrize("lost", ["error", "missing"])
async def test_a_head_is_compared_with_the_header_of_its_record_when_that_is_asked_for(
    tmp_path: Path, lost: str
) -> None:
    folder = await with_a_loss(tmp_path, header=True)
    async with photos_in(folder, lost=lost) as (keyspace, space):
        for key in KEYS:
            if key != LOST:
                assert await keyspace.head("b", key, check=True) == await keyspace.head("b", key)
        assert space.parts.losses.current(space.parts.ledger) == 0
        if lost == "missing":
            assert await keyspace.head("b", LOST, check=True) is None
        else:
            with pytest.raises(LostObjectError, match=LOST):
                await keyspace.head("b", LOST, check=True)
        assert space.parts.losses.current(space.parts.ledger) == 1
        assert await keyspace.head("b", "other", check=True) is None


async def test_a_damaged_value_is_none_of_the_header(tmp_path: Path) -> None:
    folder = await with_a_loss(tmp_path)
    async with photos_in(folder) as (keyspace, _):
        assert await keyspace.head("b", LOST, check=True) is not None


@pytest.mark.parametrize("every", [3, 0])
async def test_one_in_some_heads_is_compared_after_it_was_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, every: int
) -> None:
    folder = await with_a_loss(tmp_path, header=True)
    caplog.set_level(logging.WARNING)
    async with photos_in(folder, head_checks=every) as (keyspace, space):
        for number in range(1, 4):
            assert await keyspace.head("b", LOST) is not None
            while inside.is_comparing(space):
                await space.parts.store.environment.sleep(0.002)
            found = space.parts.losses.current(space.parts.ledger)
            assert found == (1 if every and number >= every else 0)
        assert sum(LOST in record.getMessage() for record in caplog.records) == found


@pytest.mark.parametrize("lost", ["error", "missing"])
@pytest.mark.parametrize("at", [4_000, 5_003], ids=["value", "sums"])
async def test_a_large_value_that_is_lost_is_told_to_those_who_read_it_by_parts(
    tmp_path: Path, lost: str, at: int
) -> None:
    folder = store_for_keyspaces(tmp_path)
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write(f"objects: {{lost: {lost}}}\n")
    async with small_keyspace(folder, LARGE) as (store, keyspace, space):
        await keyspace.put("b", LOST, bytes(5_000))
        await store.flush()
        large = (await head_of(space, LOST)).large
        assert large is not None
        place = await bytes_at(store, space.parts.names.large_segment(large.number), at)
    damage(folder, place)
    async with small_keyspace(folder, LARGE) as (_, keyspace, space):
        if lost == "missing" and at > 5_000:
            assert await keyspace.open_value("b", LOST) is None
        else:
            with pytest.raises(LostObjectError, match=LOST):
                await read_by_parts(keyspace)
        assert space.parts.losses.current(space.parts.ledger) == 1


async def read_by_parts(keyspace: AsyncKeyspace) -> None:
    opened = await keyspace.open_value("b", LOST)
    assert opened is not None
    async with opened:
        await opened.read(0, 5_000)
