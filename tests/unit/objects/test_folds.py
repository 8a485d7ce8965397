"""Folds show a keyspace as it was at one moment, in the order that they promise."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import objects
from siltstone.objects import AsyncKeyspace, ObjectLimitError, UnsupportedError
from siltstone.objects.async_folds import Order
from tests.support.objects.small_segments import small_keyspace, store_for_keyspaces

NAMES = ("a", "a\0", "a\0b", "ab", "b", "\udcff", "é")
"""Keys whose parts are hard to tell apart; one is no UTF-8."""


def in_order(names: tuple[str, ...]) -> list[str]:
    return sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape"))


async def test_heads_and_buckets_come_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        await asyncio.gather(
            *(keyspace.put(bucket, key, b"v") for bucket in NAMES for key in reversed(NAMES))
        )
        found = [(head.bucket, head.key) async for head in keyspace.heads()]
        assert found == [(bucket, key) for bucket in in_order(NAMES) for key in in_order(NAMES)]
        assert [bucket async for bucket in keyspace.buckets()] == in_order(NAMES)
        for start in NAMES:
            for end in NAMES:
                keys = [key async for key in keyspace.keys("a\0", start=start, end=end)]
                first, after = (name.encode("utf-8", "surrogateescape") for name in (start, end))
                assert keys == [
                    name
                    for name in in_order(NAMES)
                    if first <= name.encode("utf-8", "surrogateescape") < after
                ]


async def test_the_heads_of_a_fold_are_those_that_are_looked_up(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        index = {"city": ["oslo", "rom"], "day": [""]}
        for name in NAMES:
            await keyspace.put("a\0", name, b"v" * len(name), metadata=b"note", index=index)
        await keyspace.put("b", "one", b"w", value_hash=bytes(8), ttl_s=9)
        found = [head async for head in keyspace.heads()]
        looked_up = [await keyspace.head(head.bucket, head.key) for head in found]
        assert found == looked_up
        assert [head.size for head in found] == [*map(len, in_order(NAMES)), 1]
        assert found[-1].value_hash == bytes(8)
        assert found[-1].expires is not None
        assert list(map(hash, found)) == list(map(hash, looked_up))
        again = [head async for head in keyspace.heads()]
        assert [seen(head) for head in again] == [seen(head) for head in looked_up if head]


def seen(head: objects.ObjectHead) -> tuple[Any, ...]:
    of_value = (head.size, head.value_hash, head.metadata, head.index)
    return (repr(head), head.tag, head.sqn, head.modified, head.expires, *of_value)


async def test_a_bucket_without_objects_is_none(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        for bucket in ("x", "y", "z"):
            await keyspace.put(bucket, "k", b"v")
        await keyspace.delete("y", "k")
        assert [bucket async for bucket in keyspace.buckets()] == ["x", "z"]
        await keyspace.delete("x", "k")
        await keyspace.delete("z", "k")
        assert [bucket async for bucket in keyspace.buckets()] == []


async def test_an_index_is_that_of_the_newest_versions(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        for number in range(40):
            index = {"day": [f"{number % 7}", f"x{number}"], "other": ["1"]}
            await keyspace.put("b", f"k{number:02}", b"v", index=index)
        for number in range(0, 40, 2):
            await keyspace.put("b", f"k{number:02}", b"w", index={"day": ["9"]})
        await keyspace.delete("b", "k01")
        await keyspace.put("c", "k", b"v", index={"day": ["1"]})
        odd = [number for number in range(1, 40, 2) if number != 1]
        terms = [(f"{number % 7}", f"k{number:02}") for number in odd]
        terms += [("9", f"k{number:02}") for number in range(0, 40, 2)]
        found = [each async for each in keyspace.index("b", "day", "0", "x")]
        assert found == sorted(terms)
        found = [each async for each in keyspace.index("b", "day", pattern="^x.[13]$")]
        assert found == [(f"x{n}", f"k{n}") for n in odd if n > 9 and n % 10 in (1, 3)]
        assert [each async for each in keyspace.index("b", "none")] == []
        values = [(term, each.value) async for term, each in keyspace.indexed("b", "day", "9", "x")]
        assert values == [("9", b"w")] * 20


@pytest.mark.parametrize("order", ["key", "sqn"])
async def test_a_snapshot_shows_its_moment_whatever_comes_later(
    tmp_path: Path, order: Order
) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        numbers = range(60)
        for number in numbers:
            await keyspace.put("b", f"k{number:02}", b"%d" % number)
        async with await keyspace.snapshot() as before:
            for number in numbers:
                if number % 3:
                    await keyspace.put("b", f"k{number:02}", b"new", index={"f": ["t"]})
                else:
                    await keyspace.delete("b", f"k{number:02}")
            values = [each.value async for each in before.objects("b", order=order)]
            assert values == [b"%d" % number for number in numbers]
            assert [each async for each in before.index("b", "f")] == []
            seen = await before.get("b", "k00")
            assert seen is not None
            assert seen.value == b"0"
            assert await keyspace.get("b", "k00") is None
        values = [each.value async for each in keyspace.objects("b", order=order)]
        assert values == [b"new"] * 40


async def test_values_in_the_order_of_their_changes(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        for number in range(100):
            await keyspace.put("b", f"k{number * 37 % 50:02}", b"%d" % number)
        found = [each async for each in keyspace.objects("b", order="sqn")]
        assert [each.value for each in found] == [b"%d" % number for number in range(50, 100)]
        sqns = [each.head.sqn for each in found]
        assert sqns == sorted(sqns)
        some = [each.head.key async for each in keyspace.objects("b", order="sqn", end="k10")]
        assert len(some) == 10
        assert set(some) == {f"k{number:02}" for number in range(10)}


async def test_leaving_a_fold_ends_its_snapshot(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, space):
        for number in range(50):
            await keyspace.put("b", f"k{number:02}", b"v", index={"f": [f"{number}"]})
        folds: tuple[Any, ...] = (
            keyspace.heads("b"),
            keyspace.keys("b"),
            keyspace.buckets(),
            keyspace.index("b", "f"),
            keyspace.objects("b"),
            keyspace.objects("b", order="sqn"),
            keyspace.indexed("b", "f"),
        )
        for fold in folds:
            await anext(fold)
            assert space.parts.snapshots.oldest is not None
            await fold.aclose()
            assert space.parts.snapshots.oldest is None
        await keyspace.put("b", "after", b"v")


async def test_snapshots_of_one_version_are_one(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        await keyspace.put("b", "k", b"v")
        taken = [await keyspace.snapshot() for _ in range(100)]  # a container has 16
        for each in taken[:-1]:
            await each.close()
        seen = await taken[-1].get("b", "k")
        assert seen is not None
        assert seen.value == b"v"
        await taken[-1].close()
        with pytest.raises(siltstone.SnapshotExpiredError):
            await taken[-1].head("b", "k")


async def test_a_snapshot_ends_with_its_time_and_with_its_store(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        await keyspace.put("b", "k", b"v")
        short = await keyspace.snapshot(ttl_s=0.01)
        await asyncio.sleep(0.05)
        with pytest.raises(siltstone.SnapshotExpiredError):
            await short.head("b", "k")
        held = await keyspace.snapshot()
        for seconds in (0, -1, 43_201):
            with pytest.raises(ValueError, match="ttl_s"):
                await keyspace.snapshot(ttl_s=seconds)
    with pytest.raises(siltstone.SnapshotExpiredError):
        await held.head("b", "k")


async def test_a_fold_tells_what_it_cannot_do(tmp_path: Path) -> None:
    async def take(keyspace: AsyncKeyspace, **wanted: object) -> None:
        async for _ in keyspace.heads(**wanted):  # type: ignore[arg-type]
            pass

    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, space):
        with pytest.raises(UnsupportedError, match="no tag 'x', only log, o"):
            await take(keyspace, tag="x")
        with pytest.raises(ObjectLimitError):
            await take(keyspace, bucket="")
        with pytest.raises(ValueError, match="in a bucket"):
            await take(keyspace, start="k")
        with pytest.raises(ValueError, match="regular expression"):
            await anext(keyspace.index("b", "f", pattern="("))
        with pytest.raises(ValueError, match="order"):
            await anext(keyspace.objects("b", order="size"))  # type: ignore[arg-type]
        assert space.parts.snapshots.oldest is None


async def test_objects_of_another_tag_are_others(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        await keyspace.put("b", "k", b"v", index={"f": ["t"]})
        await keyspace.put("b", "k", b"w", tag="log", index={"f": ["t"]})
        assert [each.value async for each in keyspace.objects()] == [b"v"]
        assert [each.value async for each in keyspace.objects(tag="log")] == [b"w"]
        assert [each async for each in keyspace.index("b", "f", tag="log")] == [("t", "k")]
        await keyspace.delete("b", "k")
        assert [each async for each in keyspace.index("b", "f")] == []
        assert await keyspace.head("b", "k", tag="log") is not None


async def test_heads_of_a_time(tmp_path: Path) -> None:
    async with small_keyspace(store_for_keyspaces(tmp_path)) as (_, keyspace, _):
        await keyspace.put("b", "old", b"v")
        old = await keyspace.head("b", "old")
        await asyncio.sleep(0.01)
        await keyspace.put("b", "new", b"v")
        new = await keyspace.head("b", "new")
        assert old is not None
        assert new is not None
        assert old.modified < new.modified
        assert [head.key async for head in keyspace.heads("b", since=new.modified)] == ["new"]
        assert [head.key async for head in keyspace.heads("b", until=new.modified)] == ["old"]


def test_a_store_that_is_read_only_has_folds(tmp_path: Path) -> None:
    folder = store_for_keyspaces(tmp_path)
    with siltstone.open(folder) as store:
        keyspace = objects.create(store, "seen")
        for number in range(10):
            keyspace.put("b", f"k{number}", b"%d" % number, index={"f": [f"{number % 2}"]})
        with siltstone.open(folder, read_only=True) as reader:
            seen = objects.open(reader, "seen")
            assert [head.key for head in seen.heads("b")] == [f"k{number}" for number in range(10)]
            assert [each.value for each in seen.objects("b", order="sqn")] == [
                b"%d" % number for number in range(10)
            ]
            assert list(seen.keys("b", start="k8")) == ["k8", "k9"]
            assert list(seen.buckets()) == ["b"]
            assert list(seen.index("b", "f", "1")) == [("1", f"k{n}") for n in range(1, 10, 2)]
            assert [term for term, _ in seen.indexed("b", "f", "1")] == ["1"] * 5
            with seen.snapshot() as taken:
                keyspace.put("b", "k0", b"later")
                found = taken.get("b", "k0")
                assert found is not None
                assert found.value == b"0"
            with pytest.raises(siltstone.ReadOnlyError):
                seen.put("b", "k", b"v")
            with pytest.raises(siltstone.ReadOnlyError):
                seen.compact()
