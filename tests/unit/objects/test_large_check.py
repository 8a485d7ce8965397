"""A check looks at large values: their rows, their segments, and on request all of their bytes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import siltstone
from siltstone import objects
from siltstone.container.models.segments import RemoveRange
from siltstone.objects.records.head import decode_head, encode_head
from siltstone.objects.records.keys import LargeStatus, ObjectKey, head_key, large_key
from siltstone.objects.records.large_row import LargeRow, encode_large_row
from siltstone.objects.space_names import space_names
from tests.support.objects.small_segments import NAME, small_keyspace, store_for_keyspaces
from tests.support.objects.streams_to_put import LARGE
from tests.support.stores import chunk_path, flip

NAMES = space_names(NAME)
FILM = f"keyspace={NAME} tag=o bucket=b key=film"
HEAD = head_key(ObjectKey(b"o", b"b", b"film"))


async def fill(keyspace: objects.AsyncKeyspace) -> None:
    """Put a large value, one that is replaced, and a small one."""
    await keyspace.put("b", "small", b"s")
    await keyspace.put_from("b", "film", io.BytesIO(b"f" * 5_000), index={"f": ["t"]})
    await keyspace.put_from("b", "old", io.BytesIO(b"o" * 5_000))
    await keyspace.put("b", "old", b"replaced")


async def found(store: siltstone.AsyncStore, *, deep: bool = True) -> list[tuple[str, str, str]]:
    return [
        (each.severity, each.where, each.message)
        async for each in objects.check_async(store, NAME, deep=deep)
    ]


async def number_of(store: siltstone.AsyncStore) -> int:
    """The number of the value of the film."""
    row = await store.table(NAMES.ledger).get(HEAD)
    assert row is not None
    place = decode_head(row.value, where="film").large
    assert place is not None
    return place.number


async def test_what_is_whole_has_no_findings_and_is_counted(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder, LARGE) as (store, keyspace, _):
        await fill(keyspace)
        assert await found(store) == []
        info = await keyspace.stat()
        assert (info.large, info.large_bytes, info.value_bytes) == (1, 5_000, 5_009)
        assert (info.waiting, info.waiting_bytes) == (1, 5_000 + 4 * 20)
    async with await siltstone.open_async(folder, read_only=True) as reader:
        assert await found(reader) == []


@pytest.mark.parametrize("wrong", ["missing", "dead", "another"])
async def test_a_row_that_does_not_keep_a_large_value_is_told(tmp_path: Path, wrong: str) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (store, keyspace, _):
        await fill(keyspace)
        number, table = await number_of(store), store.table(NAMES.ledger)
        row = large_key(LargeStatus.LIVE, number)
        if wrong == "another":
            await table.put(row, encode_large_row(LargeRow(sqn=9, size=5_000)))
        else:
            await table.remove(row)
        if wrong == "dead":
            await table.put(large_key(LargeStatus.DEAD, number), encode_large_row(LargeRow()))
        told = await found(store, deep=False)
        assert told[0][:2] == ("damage", FILM)
        assert ("another one's" if wrong == "another" else "no row keeps") in told[0][2]


async def test_rows_and_segments_that_no_object_has_are_told(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (store, keyspace, _):
        await fill(keyspace)
        number, table = await number_of(store), store.table(NAMES.ledger)
        await table.put(large_key(LargeStatus.LIVE, 77), encode_large_row(LargeRow(1, 1)))
        await store.create(NAMES.large_segment(1))
        await store.create(f"{NAMES.large_values}film")
        other = head_key(ObjectKey(b"o", b"b", b"twin"))
        row = await table.get(HEAD)
        assert row is not None
        head = decode_head(row.value, where="film")
        await table.put(other, encode_head(head._replace(entries=())))
        twin = FILM.replace("film", "twin")
        assert await found(store, deep=False) == [
            ("damage", twin, f"another object has its large value number={number}"),
            ("warning", NAMES.large_segment(77), "it is kept, and no object has it"),
            ("garbage", NAMES.large_segment(1), "no row names it"),
            ("warning", f"{NAMES.large_values}film", "it is no large value"),
        ]


@pytest.mark.parametrize("harm", ["gone", "cut", "damaged", "sums"])
async def test_a_large_value_that_is_lost_is_told_by_its_object(tmp_path: Path, harm: str) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder, LARGE) as (store, keyspace, _):
        await fill(keyspace)
        await store.flush()
        segment = store.segment(NAMES.large_segment(await number_of(store)))
        at = 400 if harm == "damaged" else 5_003
        chunk = [each async for each in segment.chunks() if each.start <= at][-1]
        if harm in ("gone", "cut"):
            await segment.delete()
        if harm == "cut":
            await (await store.create(segment.name)).append(b"f" * 5_000)
    if harm in ("damaged", "sums"):
        flip(chunk_path(folder, chunk.chunk), chunk.chunk_offset + at - chunk.start)
    async with await siltstone.open_async(folder) as store:
        ((severity, where, message),) = await found(store)
        assert (severity, where) == ("damage", FILM)
        told = {"gone": "is gone", "cut": "is cut: length=5000 wanted=5080"}
        assert told.get(harm, "value is lost") in message
        assert await found(store, deep=False) == (
            [(severity, where, message)] if harm in told else []
        )


async def test_an_interrupted_removal_of_large_values_is_ended(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder, LARGE) as (store, keyspace, space):
        await fill(keyspace)
        await space.close()
        number = await number_of(store)
        dead = large_key(LargeStatus.DEAD, number)
        await store.commit([RemoveRange(NAMES.ledger)])
        for info in [info async for info in store.list(NAMES.prefix)]:
            if info.name != NAMES.large_segment(number):
                await store.segment(info.name).delete()
        with pytest.raises(objects.KeyspaceExistsError, match="large"):
            await objects.create_async(store, NAME)
        await store.table(NAMES.ledger).put(dead, encode_large_row(LargeRow()))
        await objects.create_async(store, NAME)
        assert [info async for info in store.list(NAMES.large_values)] == []
        await objects.destroy_async(store, NAME)
        assert [info async for info in store.list("objects/")] == []


@pytest.mark.parametrize("mode", ["with_lookup", "no_lookup"])
async def test_a_keyspace_of_heads_only_is_checked_counted_and_destroyed(
    tmp_path: Path, mode: str
) -> None:
    async with await siltstone.open_async(store_for_keyspaces(tmp_path)) as store:
        clocks = await objects.create_async(store, NAME, head_only=mode)
        await clocks.mput([("add", "b", f"k{number}", "s", b"v") for number in range(50)])
        await clocks.mput([("remove", "b", "k3", "s", None)])
        assert await found(store) == []
        info = await clocks.stat()
        assert info.objects == 49
        await objects.destroy_async(store, NAME)
        assert [info async for info in store.list("objects/")] == []
