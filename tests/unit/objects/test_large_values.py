"""Large values: segments of their own, which are put and read without having them in memory."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import siltstone
from siltstone import objects
from siltstone.core.errors import ClosedError, ConditionFailedError
from siltstone.objects import LostObjectError
from siltstone.objects.changes import hash_of
from siltstone.objects.large_tasks import do_large_tasks
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.keys import LargeStatus
from siltstone.objects.space_names import space_names
from tests.support.objects.small_segments import (
    NAME,
    small_keyspace,
    store_for_keyspaces,
    values_of,
)
from tests.support.objects.space_check import look
from tests.support.objects.streams_to_put import LARGE, left, stuttering
from tests.support.stores import chunk_path, flip

LENGTHS = (0, 1, 255, 999, 1_000, 1_001, 1_023, 1_024, 1_025, 5_000)
NOTHING: tuple[set[LargeStatus], int] = (set(), 0)


def data(length: int) -> bytes:
    return Random(length).randbytes(length)


async def test_values_over_the_limit_are_segments_whichever_way_they_came(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (store, photos, space):
        model: dict[str, bytes] = {}
        for length in LENGTHS:
            name, value = f"{length:05}", data(length)
            result = await photos.put_from(
                "b", name, io.BytesIO(value), metadata=b"note", index={"f": [name]}
            )
            assert result == objects.PutResult(result.sqn, None, pause=False)
            stutter = stuttering(value, 7 + length // 50)
            assert (await photos.put_from("b", f"{name} slow", stutter)).replaced is None
            await photos.put("b", f"{name} put", value)
            model |= dict.fromkeys((name, f"{name} slow", f"{name} put"), value)
        assert await values_of(photos) == model
        by_sqn = {each.head.key: each.value async for each in photos.objects("b", order="sqn")}
        assert by_sqn == model
        indexed = [(term, each.value) async for term, each in photos.indexed("b", "f")]
        assert indexed == [(f"{length:05}", data(length)) for length in LENGTHS]
        for name, value in model.items():
            found = await photos.get("b", name)
            assert found is not None
            assert found.value == value
            assert (found.head.size, found.head.key) == (len(value), name)
            assert found.head.value_hash == hash_of(value, found.head.metadata)
        seen = await look(store, space.parts.names)
        large = {key.key.decode() for key, each in seen.objects.items() if each.head.large}
        assert large == {name for name, value in model.items() if len(value) > 1_000}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[siltstone.Store]:
    """One whose keyspaces have the same limits, for blocking callers."""
    monkeypatch.setattr("siltstone.objects.open_spaces.RollLimits", lambda **_: LARGE)
    with siltstone.open(store_for_keyspaces(tmp_path)) as opened:
        yield opened


@pytest.fixture
def photos(store: siltstone.Store) -> objects.Keyspace:
    return objects.create(store, NAME)


@pytest.mark.parametrize("length", LENGTHS)
def test_blocking_callers_put_and_read_the_same(photos: objects.Keyspace, length: int) -> None:
    value = data(length)
    photos.put_from("b", "k", stuttering(value, 99), value_hash=b"8 bytes!")
    photos.put_from("b", "hashed", io.BytesIO(value), metadata=b"m")
    photos.put("b", "put", value, value_hash=b"8 bytes!")
    hashes = {"k": b"8 bytes!", "hashed": hash_of(value, b"m"), "put": b"8 bytes!"}
    for key, expected in hashes.items():
        found = photos.get("b", key)
        assert found is not None
        assert (found.value, found.head.value_hash) == (value, expected)
        opened = photos.open_value("b", key)
        assert opened is not None
        with opened:
            assert (opened.head, opened.size) == (found.head, length)
            assert opened.read() == value
            assert opened.read() == b""


def test_an_open_value_is_a_file(photos: objects.Keyspace) -> None:
    value, random = data(5_000), Random(1)
    photos.put("b", "k", value)
    opened = photos.open_value("b", "k")
    assert opened is not None
    assert opened.readable()
    assert opened.seekable()
    assert not opened.writable()
    for _ in range(300):
        whence, offset = random.randrange(3), random.randrange(-5_200, 5_200)
        expected = offset + (0, opened.tell(), len(value))[whence]
        if expected < 0:
            with pytest.raises(ValueError, match="negative"):
                opened.seek(offset, whence)
            continue
        assert opened.seek(offset, whence) == expected
        count = random.randrange(1, 700)
        found = opened.read(count)
        assert found == value[expected : expected + len(found)]
        assert found or expected >= len(value)
        assert opened.tell() == expected + len(found)
    opened.seek(0)
    with io.BufferedReader(opened, 64) as buffered:
        buffered.seek(300)
        assert buffered.read(2_000) == value[300:2_300]
        assert buffered.peek(1)[:1] == value[2_300:2_301]
    assert opened.closed
    calls = (opened.read, opened.tell, lambda: opened.seek(0), lambda: opened.readinto(bytearray()))
    for call in calls:
        with pytest.raises(ValueError, match="closed"):
            call()
    opened.close()
    assert photos.open_value("b", "absent") is None


async def test_any_part_of_an_open_value_can_be_read(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (store, photos, _):
        random = Random(2)
        for length in (500, 1_025, 5_000):
            value = data(length)
            await photos.put("b", "k", value)
            await store.flush()
            opened = await photos.open_value("b", "k")
            assert opened is not None
            async with opened:
                for _ in range(100):
                    start, count = random.randrange(length + 300), random.randrange(length)
                    assert await opened.read(start, count) == value[start : start + count]
                several = [opened.read(start, 1_000) for start in range(0, 4_000, 500)]
                parts = [value[start : start + 1_000] for start in range(0, 4_000, 500)]
                assert await asyncio.gather(*several) == parts
                with pytest.raises(ValueError, match="between 0 and"):
                    await opened.read(-1, 1)
            await opened.close()
            with pytest.raises(ClosedError):
                await opened.read(0, 1)
        assert await photos.open_value("b", "absent") is None


async def test_an_open_value_stays_as_it_was(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (_, photos, space):
        value = data(5_000)
        await photos.put("b", "k", value)
        opened = await photos.open_value("b", "k")
        assert opened is not None
        await photos.put("b", "k", data(3_000))
        await photos.delete("b", "k")
        assert await do_large_tasks(space.parts) == 1, "the one that is not open"
        assert await opened.read(0, 5_000) == value
        await opened.close()
        assert await do_large_tasks(space.parts) == 1
        assert await left(space) == NOTHING


async def test_a_snapshot_keeps_large_values_until_it_ends(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (_, photos, space):
        model = {"k": data(5_000), "l": data(2_000), "small": b"s"}
        for key, value in model.items():
            await photos.put("b", key, value)
        before = await photos.snapshot()
        await photos.put("b", "k", data(3_000))
        await photos.delete("b", "l")
        async with await photos.snapshot() as later:
            await photos.delete("b", "k")
            assert await do_large_tasks(space.parts) == 0
            assert await values_of(photos) == {"small": b"s"}
            found = await later.get("b", "k")
            assert found is not None
            assert found.value == data(3_000)
        for order in ("key", "sqn"):
            values = {each.head.key: each.value async for each in before.objects("b", order=order)}
            assert values == model
        assert await do_large_tasks(space.parts) == 0, "the older one shows no more, but may"
        opened = [await before.open_value("b", key) for key in model]
        assert await before.open_value("b", "absent") is None
        await before.close()
        assert await do_large_tasks(space.parts) == 1, "the others are open"
        for each, value in zip(opened, model.values(), strict=True):
            assert each is not None
            assert await each.read(0, 5_000) == value
            await each.close()
        assert await do_large_tasks(space.parts) == 2
        assert await left(space) == NOTHING


def test_blocking_callers_read_what_a_snapshot_shows_by_parts(photos: objects.Keyspace) -> None:
    photos.put("b", "k", data(5_000))
    with photos.snapshot() as before:
        photos.delete("b", "k")
        opened = before.open_value("b", "k")
        assert before.open_value("b", "absent") is None
    assert opened is not None
    with opened:
        opened.seek(-10, io.SEEK_END)
        assert opened.read(20) == data(5_000)[-10:]


async def test_what_replaces_or_removes_a_large_value_lets_it_go(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (store, photos, space):
        await photos.put("b", "k", data(5_000))
        await photos.put("b", "k", data(4_000))  # by a large one
        await photos.put("b", "k", b"small")
        await photos.put("b", "l", data(3_000))
        await photos.delete("b", "l")
        assert await do_large_tasks(space.parts) == 3
        assert await left(space) == NOTHING
        await look(store, space.parts.names)


async def test_dead_values_are_deleted_by_the_next_opening(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder, LARGE) as (_, photos, _):
        await photos.put("b", "k", data(5_000))
        await photos.put("b", "k", data(4_000))
        await photos.snapshot()
    async with small_keyspace(folder, LARGE) as (_, photos, space):
        assert await left(space) == ({LargeStatus.LIVE}, 1)
        assert await values_of(photos) == {"k": data(4_000)}


class BrokenError(Exception):
    """A stream cannot be read any more."""


async def test_a_stream_that_fails_leaves_the_object_as_it_was(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (_, photos, space):
        await photos.put("b", "k", data(2_000))
        for end in (0, 500, 1_200, 4_000):

            def breaks(count: int, end: int = end) -> None:
                if count > end:
                    raise BrokenError

            with pytest.raises(BrokenError):
                await photos.put_from("b", "k", stuttering(data(5_000), 300, breaks))
            assert await values_of(photos) == {"k": data(2_000)}
            assert await left(space) == ({LargeStatus.LIVE}, 1)


def test_a_stream_that_fails_a_blocking_caller_leaves_the_object_as_it_was(
    store: siltstone.Store, photos: objects.Keyspace
) -> None:
    photos.put("b", "k", data(2_000))

    def breaks(count: int) -> None:
        if count > 3_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        photos.put_from("b", "k", stuttering(data(5_000), 300, breaks))
    found = photos.get("b", "k")
    assert found is not None
    assert found.value == data(2_000)
    assert len(list(store.list(space_names(NAME).large_values))) == 1


async def test_a_caller_that_is_cancelled_leaves_the_object_as_it_was(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (_, photos, space):
        await photos.put("b", "k", data(2_000))
        reached, go_on = threading.Event(), threading.Event()

        def waits(count: int) -> None:
            if count > 3_000:
                reached.set()
                go_on.wait()

        putting = asyncio.ensure_future(
            photos.put_from("b", "k", stuttering(data(5_000), 300, waits))
        )
        await asyncio.to_thread(reached.wait)
        assert await left(space) == ({LargeStatus.LIVE, LargeStatus.UPLOADING}, 2)
        assert await do_large_tasks(space.parts) == 0, "it goes on"
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        go_on.set()
        assert await values_of(photos) == {"k": data(2_000)}
        assert await left(space) == ({LargeStatus.LIVE}, 1)


async def test_a_condition_that_fails_leaves_the_object_as_it_was(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (_, photos, space):
        put = await photos.put("b", "k", data(2_000))
        other = photos.put("b", "other", b"o")
        with pytest.raises(ConditionFailedError) as caught:
            await photos.put_from("b", "k", io.BytesIO(data(5_000)), expected=None)
        assert caught.value.current == put.sqn
        assert (await other).replaced is None
        assert await left(space) == ({LargeStatus.LIVE}, 1)
        again = await photos.put("b", "k", data(5_000), expected=put.sqn)
        assert again.replaced == put.sqn
        assert await values_of(photos) == {"k": data(5_000), "other": b"o"}


async def test_what_no_put_can_be_is_told_before_the_stream_is_read(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (_, photos, _):
        stream = io.BytesIO(data(5_000))
        with pytest.raises(objects.ObjectLimitError):
            await photos.put_from("b", "k", stream, metadata=bytes(2**17))
        with pytest.raises(objects.UnsupportedError):
            await photos.put_from("b", "k", stream, tag="none")
        with pytest.raises(TypeError, match="a stream is a file"):
            await photos.put_from("b", "k", b"bytes")  # type: ignore[arg-type]
        assert stream.tell() == 0


async def test_specs_and_a_generator_of_terms_are_taken_once(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (_, photos, _):
        terms = (term for term in ("a", "b"))
        await photos.put_from("b", "k", io.BytesIO(b"small"), index={"f": terms})
        specs = (spec for spec in [("remove", "f", "a"), ("add", "f", "c")])
        await photos.put_from("b", "k", io.BytesIO(data(2_000)), specs=specs)
        assert [term async for term, _ in photos.index("b", "f")] == ["b", "c"]


PARTS = {"value": 700, "last piece": 4_990, "sums": 5_001, "last sum": 5_000 + 4 * 19 + 1}


@pytest.mark.parametrize("part", PARTS)
async def test_damaged_bytes_are_lost_and_no_others(tmp_path: Path, part: str) -> None:
    folder = store_for_keyspaces(tmp_path)
    async with small_keyspace(folder, LARGE) as (store, photos, space):
        await photos.put("b", "k", data(5_000))
        await photos.put("b", "other", data(2_000))
        await store.flush()
        name = await large_name(space, 5_000)
        place = PARTS[part]
        async for each in store.segment(name).chunks(place):
            chunk, offset = each.chunk, place - each.start + each.chunk_offset
            break
    flip(chunk_path(folder, chunk), offset)
    async with small_keyspace(folder, LARGE) as (_, photos, _):
        with pytest.raises(LostObjectError) as caught:
            await photos.get("b", "k")
        assert (caught.value.key, caught.value.sqn) == ("k", 1)
        other = await photos.get("b", "other")
        assert other is not None
        assert other.value == data(2_000)
        if "sum" in part:
            with pytest.raises(LostObjectError):
                await photos.open_value("b", "k")
            return
        opened = await photos.open_value("b", "k")
        assert opened is not None
        with pytest.raises(LostObjectError):
            await opened.read(place, 1)
        assert await opened.read(1_024, 1_024) == data(5_000)[1_024:2_048]


async def test_a_value_whose_segment_is_gone_is_lost(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path), LARGE) as (store, photos, space):
        await photos.put("b", "k", data(5_000))
        opened = await photos.open_value("b", "k")
        assert opened is not None
        await store.segment(await large_name(space, 5_000)).delete()
        for call in (photos.get("b", "k"), photos.open_value("b", "k"), opened.read(0, 1)):
            with pytest.raises(LostObjectError):
                await call


async def large_name(space: OpenSpace, size: int) -> str:
    """The segment of the one large value that has so many bytes."""
    parts = space.parts
    seen = await look(parts.store, space_names(NAME))
    (number,) = [
        each.head.large.number
        for each in seen.objects.values()
        if each.head.large is not None and each.head.size == size
    ]
    return parts.names.large_segment(number)
