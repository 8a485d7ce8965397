"""Keyspaces of two stores: what differs, what goes from one to the other, and making them equal."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import objects
from siltstone.core.errors import ReadOnlyError
from siltstone.objects.async_exchange import range_of
from siltstone.objects.comparison import Comparison, CountedSide
from siltstone.objects.sync import Sync
from siltstone.objects.tree_side import OwnSide, own_side
from tests.support import inside
from tests.support.objects.small_segments import small_keyspace, store_for_keyspaces

TAGS = {"o": "recovr", "x": "retain"}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[siltstone.Store]]:
    """Two of them."""
    with ExitStack() as stack:
        opened = []
        for name in ("left", "right"):
            folder = tmp_path_factory.mktemp("stores") / name
            siltstone.init(folder, containers=1)
            opened.append(stack.enter_context(siltstone.open(folder)))
        yield opened


Pair = tuple[objects.Keyspace, objects.Keyspace]


@pytest.fixture
def pair(stores: list[siltstone.Store], request: pytest.FixtureRequest) -> Pair:
    """A new keyspace in each store."""
    left, right = (objects.create(store, request.node.name, tags=TAGS) for store in stores)
    return left, right


def shown(keyspace: Any, tag: str = "o") -> dict[tuple[str, str], Any]:
    """All of the objects of a tag that is to be the same on both sides."""
    return {
        (each.head.bucket, each.head.key): (
            each.value,
            each.head.metadata,
            each.head.index,
            each.head.value_hash,
            each.head.expires,
            each.head.modified,
        )
        for each in keyspace.objects(tag=tag)
    }


def names(found: Any) -> list[tuple[str, str, str]]:
    return [(each.tag, each.bucket, each.key) for each in found]


def test_exactly_what_differs_is_told_with_both_heads(pair: Pair) -> None:
    left, right = pair
    for keyspace in pair:
        for number in range(50):
            keyspace.put("b", str(number), b"%d" % number, tag="ox"[number % 2])
        keyspace.put("deleted", "k", b"")
        keyspace.delete("deleted", "k")
    assert list(left.differences(right)) == []
    left.put("b", "only left", b"1")
    right.put("b", "4", b"other", metadata=b"m")
    right.put("b", "5", b"5", tag="x", index={"f": ["t"]})
    right.put("c", "only right", b"2", tag="x")
    left.put("b", "6", b"6", ttl_s=1000)
    left.put("b", "8", b"8")  # the same once more
    found = list(left.differences(right))
    assert names(found) == [
        ("o", "b", "4"),
        ("o", "b", "6"),
        ("o", "b", "only left"),
        ("x", "b", "5"),
        ("x", "c", "only right"),
    ]
    assert [(each.ours is None, each.theirs is None) for each in found] == [
        (False, False),
        (False, False),
        (False, True),
        (False, False),
        (True, False),
    ]
    assert found[0].ours == left.head("b", "4")
    assert found[0].theirs == right.head("b", "4")
    back = list(right.differences(left))
    assert [(each.ours, each.theirs) for each in back] == [(e.theirs, e.ours) for e in found]


def test_a_bucket_a_range_or_a_tag_is_compared_alone(pair: Pair) -> None:
    left, right = pair
    for bucket in ("a", "b"):
        for tag in ("o", "x"):
            for key in ("k", "l", "m"):
                left.put(bucket, key, b"", tag=tag)
    assert len(list(left.differences(right))) == 12
    assert names(left.differences(right, "b")) == [
        ("o", "b", "k"),
        ("o", "b", "l"),
        ("o", "b", "m"),
    ]
    assert names(left.differences(right, "b", tag="x", start="l", end="m")) == [("x", "b", "l")]
    assert len(list(left.differences(right, tag="x"))) == 6
    assert list(left.differences(right, "b", start="m", end="k")) == []
    assert left.sync(right, "a", prefer="left", start="l").copied_to_right == 2
    assert sorted(shown(right)) == [("a", "l"), ("a", "m")]
    with pytest.raises(ValueError, match="bucket"):
        left.differences(right, start="k")
    with pytest.raises(objects.UnsupportedError):
        left.differences(right, tag="y")


async def test_few_differences_of_many_keys_take_few_bytes(tmp_path: Path) -> None:
    """Also where one side has none of them, pages follow one another."""
    await asyncio.to_thread(siltstone.init, tmp_path / "s")
    async with await siltstone.open_async(tmp_path / "s") as store:
        left, right, empty = [
            await objects.create_async(store, name) for name in ("left", "right", "empty")
        ]
        wrong = {7, 2_000, 3_600}
        for keyspace in (left, right):
            puts = [
                keyspace.put("b", f"{n:06}", b"x" if keyspace is right and n in wrong else b"")
                for n in range(4_000)
            ]
            await asyncio.gather(*puts)
        found = left.differences(right)
        assert [each.key async for each in found] == [f"{n:06}" for n in sorted(wrong)]
        assert 5_000 < found.exchanged_bytes < 50_000, "all hashes are 140,000 bytes"
        await asyncio.gather(*(left.put("b", f"{n:06}", b"x") for n in wrong))
        assert [each async for each in found] == []
        assert found.exchanged_bytes < 200, "a branch"
        missing = [each.key async for each in empty.differences(right)]
        assert missing == [f"{n:06}" for n in range(4_000)]
        assert [each.key async for each in right.differences(empty)] == missing


def test_a_sync_carries_all_that_an_object_is(pair: Pair) -> None:
    left, right = pair
    index = {"city": ["oslo", "rome"], "day": [""]}
    left.put("b", "k", b"value", metadata=b"note", index=index, ttl_s=5_000)
    left.put("b", "l", bytes(200_000), value_hash=b"12345678", tag="x")
    left.put(b"\xff\0", b"\0", b"")
    right.put("c", "r", b"right", index={"city": ["bern"]})
    report = left.sync(right, prefer="newest")
    assert report.exchanged_bytes > 200_000
    assert (report.differences, report.copied_to_left, report.copied_to_right) == (4, 1, 3)
    for tag in TAGS:
        assert shown(left, tag) == shown(right, tag)
    assert list(right.index("b", "city")) == [("oslo", "k"), ("rome", "k")]
    assert list(left.index("c", "city")) == [("bern", "r")]
    assert list(left.differences(right)) == []
    assert left.sync(right, prefer="newest").differences == 0


@pytest.mark.parametrize("prefer", ["left", "right", "newest"])
def test_the_preferred_version_is_on_both_sides(pair: Pair, prefer: Any) -> None:
    left, right = pair
    right.put("b", "k", b"right")
    before = right.head("b", "k")
    while before is not None:
        left.put("b", "k", b"left, and newer")
        head = left.head("b", "k")
        if head is not None and head.modified > before.modified:
            break
    left.put("b", "left", b"1")
    right.put("b", "right", b"2")
    left.sync(right, prefer=prefer)
    assert shown(left) == shown(right)
    found = left.get("b", "k")
    assert found is not None
    assert found.value == (b"right" if prefer == "right" else b"left, and newer")
    assert sorted(shown(left)) == [("b", "k"), ("b", "left"), ("b", "right")]


def test_absence_counts_only_if_it_is_said(pair: Pair) -> None:
    left, right = pair
    for keyspace in pair:
        keyspace.put("b", "k", b"")
    left.delete("b", "k")
    right.put("b", "other", b"")
    left.put("b", "ours", b"")
    report = left.sync(right, prefer="left", deletes=True)
    assert (report.removed_from_right, report.copied_to_right) == (2, 1)
    assert sorted(shown(left)) == sorted(shown(right)) == [("b", "ours")]
    right.delete("b", "ours")
    assert left.sync(right, prefer="right", deletes=True).removed_from_left == 1
    assert shown(left) == shown(right) == {}


def test_large_values_go_part_by_part(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = pair
    value = random.Random(7).randbytes(9 * 2**20 + 5)
    left.put("b", "large", value, metadata=b"m", index={"f": ["t"]}, ttl_s=5_000)
    right.put("b", "large", value[1:])
    right.put("b", "other", value[2:])
    parts: list[int] = []
    part = OwnSide.part

    async def seen(side: OwnSide, row_key: bytes, row: bytes, offset: int) -> bytes | None:
        found = await part(side, row_key, row, offset)
        parts.append(len(found or b""))
        return found

    monkeypatch.setattr(OwnSide, "part", seen)
    report = left.sync(right, prefer="left")
    assert (report.copied_to_right, report.copied_to_left) == (1, 1)
    assert sum(parts) == 2 * len(value) - 2
    assert max(parts) <= 4 * 2**20
    assert shown(left) == shown(right)
    found = right.get("b", "large")
    assert found is not None
    assert found.value == value
    assert list(left.differences(right)) == []


async def test_an_upload_for_an_object_that_changed_leaves_nothing(tmp_path: Path) -> None:
    await asyncio.to_thread(siltstone.init, tmp_path / "s", containers=1)
    async with await siltstone.open_async(tmp_path / "s") as store:
        left = await objects.create_async(store, "left")
        right = await objects.create_async(store, "right")
        await left.put("b", "k", bytes(5 * 2**20))
        spaces = [inside.open_space(each) for each in (left, right)]
        which = range_of(spaces[0].parts, spaces[1].parts, None, None, None, None)
        async with left.sides(which, spaces[1]) as sides:
            await right.put("b", "k", b"newer")
            report = await Sync(*sides, "left", deletes=False).run()
        assert (report.changed, report.copied_to_right) == (1, 0)
        names = [info.name async for info in store.list("objects/{right}/large/")]
        assert names == []


async def test_what_has_expired_by_the_time_of_a_comparison_is_absent(tmp_path: Path) -> None:
    await asyncio.to_thread(siltstone.init, tmp_path / "s", containers=1)
    async with await siltstone.open_async(tmp_path / "s") as store:
        left = await objects.create_async(store, "left")
        right = await objects.create_async(store, "right")
        await left.put("b", "expires", b"", ttl_s=5_000)
        await left.put("b", "stays", b"")
        spaces = [inside.open_space(each) for each in (left, right)]
        which = range_of(spaces[0].parts, spaces[1].parts, None, None, None, None)
        for later_s, expected in ((0, 2), (9_000, 1)):
            now_s = store.environment.time() + later_s
            ours, theirs = [await own_side(space, which, now_s) for space in spaces]
            pages = Comparison(ours, CountedSide(theirs), which).pages()
            assert sum([len(page) async for page in pages]) == expected
            await ours.end()
            await theirs.end()


async def test_what_changes_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    await asyncio.to_thread(siltstone.init, tmp_path / "s")
    async with await siltstone.open_async(tmp_path / "s") as store:
        left = await objects.create_async(store, "left")
        right = await objects.create_async(store, "right")
        for key in ("changed", "deleted", "made", "same"):
            await left.put("b", key, b"left")
            if key != "made":
                await right.put("b", key, b"right")
        spaces = [inside.open_space(each) for each in (left, right)]
        which = range_of(spaces[0].parts, spaces[1].parts, None, None, None, None)
        async with left.sides(which, spaces[1]) as sides:
            await right.put("b", "changed", b"newer")
            await right.put("b", "made", b"newer")
            await right.delete("b", "deleted")
            report = await Sync(*sides, "left", deletes=False).run()
        assert (report.changed, report.copied_to_right, report.differences) == (3, 1, 4)
        values = {each.head.key: each.value async for each in right.objects("b")}
        assert values == {"changed": b"newer", "made": b"newer", "same": b"left"}


def test_a_source_may_be_read_only(stores: list[siltstone.Store], tmp_path: Path) -> None:
    siltstone.init(tmp_path / "s", containers=1)
    with siltstone.open(tmp_path / "s") as store:
        source = objects.create(store, "source")
        source.put("b", "k", b"source")
        source.put("b", "l", b"source")
    target = objects.create(stores[0], "target")
    target.put("b", "k", b"target")
    target.put("b", "m", b"target")
    with siltstone.open(tmp_path / "s", read_only=True) as store:
        source = objects.open(store, "source")
        for keyspace, other, prefer in (
            (source, target, "right"),
            (source, target, "newest"),
            (target, source, "left"),
            (target, source, "newest"),
        ):
            with pytest.raises(ReadOnlyError):
                keyspace.sync(other, prefer=prefer)  # type: ignore[arg-type]
        report = source.sync(target, prefer="left")
        assert (report.copied_to_right, report.left_out, report.differences) == (2, 1, 3)
        assert names(target.differences(source)) == [("o", "b", "m")]
        report = target.sync(source, prefer="right", deletes=True)
        assert (report.removed_from_left, report.differences) == (1, 1)
        assert shown(target) == shown(source)


def test_entries_of_heads_only_are_compared_and_made_equal(stores: list[siltstone.Store]) -> None:
    """S30 and S31: pairs of both modes."""
    left, right = (objects.create(each, "heads", head_only="with_lookup") for each in stores)
    blind = objects.create(stores[1], "blind", head_only="no_lookup")
    entries = [("add", "b", f"k{n % 40}", f"{n}", b"%d" % n) for n in range(400)]
    for keyspace in (left, right, blind):
        keyspace.mput(entries)
    left.mput([("add", "b", "k1", "1", b"left"), ("remove", "b", "k2", "2")])
    right.mput([("add", "c", "k", "s", b"right")], ttl_s=5_000)
    found = [(e.bucket, e.key, e.subkey) for e in left.differences(right)]
    assert found == [("b", "k1", "1"), ("b", "k2", "2"), ("c", "k", "s")]
    assert len(list(left.differences(blind))) == 2
    preferences: list[tuple[Any, Any, Any]] = [
        (left, blind, "left"),
        (left, blind, "newest"),
        (blind, left, "right"),
    ]
    for keyspace, other, prefer in preferences:
        with pytest.raises(objects.UnsupportedError, match="look-up"):
            keyspace.sync(other, prefer=prefer)
    assert left.sync(right, prefer="left", deletes=True).removed_from_right == 2
    assert list(left.differences(right)) == []
    assert right.sync(blind, prefer="right").copied_to_left == 2
    head = right.head("b", "k1", "1")
    assert head is not None
    assert head.metadata == b"1"
    assert list(right.differences(blind)) == []
    left.mput([("add", "t", "k", "s", b"v")], ttl_s=4_000)
    left.sync(right, prefer="left")
    ours, theirs = left.head("t", "k", "s"), right.head("t", "k", "s")
    assert ours is not None
    assert theirs is not None
    for each in ("metadata", "expires", "modified", "value_hash"):
        assert getattr(ours, each) == getattr(theirs, each)


def test_keyspaces_of_two_kinds_are_not_compared(stores: list[siltstone.Store]) -> None:
    values = objects.create(stores[0], "kinds", tags={"h": "recovr"})
    heads = objects.create(stores[1], "kinds", head_only="with_lookup")
    with pytest.raises(objects.UnsupportedError, match="heads only"):
        values.differences(heads)
    other = objects.create(stores[1], "other", tags={"h": "recovr", "o": "recovr"})
    with pytest.raises(objects.UnsupportedError, match="different tags"):
        values.sync(other, prefer="left")
    values.put("b", "k", b"1", tag="h")
    assert values.sync(other, prefer="left", tag="h").copied_to_right == 1


def test_a_value_that_is_lost_is_counted_and_others_are_copied(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            small_keyspace(store_for_keyspaces(tmp_path / "a")) as (store, left, space),
            small_keyspace(store_for_keyspaces(tmp_path / "b")) as (_, right, _other),
        ):
            for number in range(30):
                await left.put("b", f"{number:02}", bytes(300))
            await store.flush()
            first = space.parts.names.value_segment(1)
            while not (await store.segment(first).info()).sealed:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await store.segment(first).delete()
            report = await left.sync(right, prefer="left")
            assert report.lost > 5
            assert report.copied_to_right == 30 - report.lost
            assert len([each async for each in right.heads()]) == report.copied_to_right

    asyncio.run(work())


def test_a_comparison_that_is_left_lets_go_of_its_snapshots(pair: Pair) -> None:
    left, right = pair
    for number in range(20):
        left.put("b", str(number), b"")
    for _ in range(20):  # more than a container may have
        for _found in left.differences(right):
            break


def test_an_object_that_is_too_long_for_its_target_is_named_and_others_are_copied(
    tmp_path: Path, stores: list[siltstone.Store]
) -> None:
    settings = siltstone.init(tmp_path / "small", containers=1)
    text = settings.read_text(encoding="utf-8")
    settings.write_text(
        text.replace("path: ./tier1", "path: ./tier1\n    file_bytes: 256KiB"), encoding="utf-8"
    )
    left = objects.create(stores[0], "of all sizes")
    terms = {"f": [f"{number}".zfill(2_000) for number in range(30)]}
    for key in ("k0", "k1 long", "k2", "k3 long", "k4"):
        long = key.endswith("long")
        left.put(
            "b",
            key,
            key.encode(),
            metadata=bytes(65_000 if long else 9),
            index=terms if long else None,
        )
    with siltstone.open(settings) as store:
        right = objects.create(store, "of all sizes")
        told = left.sync(right, prefer="left", dry_run=True)
        assert (told.copied_to_right, list(right.keys("b"))) == (5, [])
        for _ in range(2):  # a repeat ends as the first one
            report = left.sync(right, prefer="left")
            assert report.too_long == 2
            assert report.too_long_names == (("o", "b", "k1 long"), ("o", "b", "k3 long"))
        assert list(right.keys("b")) == ["k0", "k2", "k4"]
        assert names(left.differences(right)) == list(report.too_long_names)
