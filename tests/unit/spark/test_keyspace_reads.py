"""Reads of keyspaces by the classes that Spark calls, compared with dictionaries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import siltstone
from siltstone import objects
from siltstone.container.state.segment_map import SegmentMap
from siltstone.core.errors import (
    CapabilityError,
    SegmentNotFoundError,
    SnapshotExpiredError,
    StoreError,
)
from siltstone.objects import LostObjectError, UnsupportedError
from siltstone.objects.open_space import OpenSpace
from siltstone.objects.records.space_rows import ValueStatus
from siltstone.spark import keyspace_plan, value_packs
from siltstone.store.handles.pinned_segments import pinned_segments
from tests.support.objects.small_segments import NAME as SMALL
from tests.support.objects.small_segments import small_keyspace
from tests.support.spark.keyspace_reads import NAME, PlannedRead, rows_of
from tests.support.stores import chunk_path, flip, make_store

LARGE = random.Random(7).randbytes(5_000_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", containers=1)


@pytest.fixture
def store(folder: Path) -> Iterator[siltstone.Store]:
    with siltstone.open(folder) as opened:
        yield opened


@pytest.fixture
def photos(store: siltstone.Store) -> objects.Keyspace:
    return objects.create(store, NAME, tags={"o": "recovr", "log": "retain"})


def filled(photos: objects.Keyspace) -> dict[tuple[str, str], bytes]:
    """Put and replace some objects; return the values that there are."""
    wanted = {}
    for number in range(60):
        bucket, key, value = f"b{number % 3}", f"k{number:02}", bytes([number]) * (50 * number)
        photos.put(bucket, key, b"old" + value, index={"gone": ["x"]})
        index = {"city": ["oslo", f"c{number % 5}"], "day": [f"{number:02}"]}
        photos.put(bucket, key, value, metadata=key.encode(), index=index)
        wanted[bucket, key] = value
    photos.delete("b0", "k03")
    del wanted["b0", "k03"]
    photos.put("b0", "k00", b"of another kind", tag="log")
    return wanted


@pytest.mark.parametrize("flushed", [False, True])
def test_each_fold_shows_what_a_dictionary_has(
    folder: Path, store: siltstone.Store, photos: objects.Keyspace, flushed: bool
) -> None:
    wanted = filled(photos)
    photos.put("b1", "large", LARGE, ttl_s=10_000)
    wanted["b1", "large"] = LARGE
    if flushed:
        store.flush()
    heads = {(row["bucket"], row["key"]): row for row in rows_of(folder)}
    assert {place: row["size"] for place, row in heads.items()} == {
        place: len(value) for place, value in wanted.items()
    }
    for (bucket, key), row in heads.items():
        head = photos.head(bucket, key)
        assert head is not None
        assert (row["sqn"], row["metadata"]) == (head.sqn, head.metadata)
        assert {name: tuple(terms) for name, terms in row["index"]} == head.index
        assert (row["tag"], row["subkey"]) == ("o", "")
        assert row["value_hash"] == head.value_hash
        assert row["modified"].timestamp() == pytest.approx(head.modified)
        when = None if head.expires is None else datetime.fromtimestamp(head.expires, UTC)
        assert row["expires"] == when
    for size in ("1", "20KiB", "64MiB"):
        read = PlannedRead(folder, fold="objects", range_bytes=size)
        rows = read.table().to_pylist()
        assert len(rows) == len(wanted)
        assert {(row["bucket"], row["key"]): row["value"] for row in rows} == wanted
    terms = rows_of(folder, fold="index", bucket="b1", field="city")
    assert [(row["term"], row["key"]) for row in terms] == list(photos.index("b1", "city"))
    assert {(row["bucket"], row["field"], row["tag"]) for row in terms} == {("b1", "city", "o")}


def test_ranges_tags_times_and_patterns_are_those_of_folds(
    folder: Path, photos: objects.Keyspace
) -> None:
    filled(photos)

    def keys(**options: object) -> list[str]:
        return [row["key"] for row in rows_of(folder, **options)]

    some = [head.key for head in photos.heads("b0", start="k10", end="k40")]
    assert keys(bucket="b0", start="k10", end="k40") == some
    assert keys(fold="objects", bucket="b0", start="k10", end="k40", columns="key, value") == some
    assert keys(bucket="b0", start="k40", end="k10") == []
    assert keys(tag="log") == ["k00"]
    head = photos.head("b2", "k50")
    assert head is not None
    assert "k50" in keys(since=f"{head.modified:.3f}")
    assert "k50" not in keys(until=f"{head.modified:.3f}")
    found = rows_of(folder, fold="index", bucket="b0", field="city", start="c1", pattern="[13]$")
    wanted = list(photos.index("b0", "city", "c1", pattern="[13]$"))
    assert wanted
    assert [(row["term"], row["key"]) for row in found] == wanted
    with pytest.raises(UnsupportedError, match="no tag 'x', only log, o"):
        rows_of(folder, tag="x")


def test_names_that_are_no_text_come_as_bytes(folder: Path, photos: objects.Keyspace) -> None:
    photos.put(b"\xff\x00", b"\x00", b"value", index={"f": [b"\xfe\x00"]})
    schema = StructType([StructField(name, BinaryType()) for name in ("key", "bucket")])
    assert rows_of(folder, schema=schema) == [{"key": b"\x00", "bucket": b"\xff\x00"}]
    assert rows_of(folder, columns="size") == [{"size": 5}]
    for column, name in (("bucket", b"\xff\x00"), ("key", b"\x00")):
        (text,) = PlannedRead(folder, columns=column).table()[column].chunks
        assert text.view(pyarrow.binary()).to_pylist() == [name], "as it is, unchecked"
    (index,) = PlannedRead(folder, columns="index").table()["index"].chunks
    assert index.items.values.view(pyarrow.binary()).to_pylist() == [b"\xfe\x00"]


def test_an_empty_keyspace_has_no_rows(folder: Path, photos: objects.Keyspace) -> None:
    assert photos.name == NAME
    for fold in ({}, {"fold": "objects"}, {"fold": "index", "bucket": "b", "field": "f"}):
        assert rows_of(folder, **fold) == []


def test_heads_of_a_read_are_of_one_moment(folder: Path, photos: objects.Keyspace) -> None:
    filled(photos)
    read = PlannedRead(folder, fold="objects", bucket="b1")
    before = {each.head.key: each.value for each in photos.objects("b1")}
    for key in before:
        photos.put("b1", key, b"new")
    assert read.values() == before


def test_a_keyspace_of_heads_only_has_heads_alone(folder: Path, store: siltstone.Store) -> None:
    clocks = objects.create(store, NAME, head_only="no_lookup")
    clocks.mput([("add", "b", "k", f"s{number}", b"%d" % number) for number in range(9)])
    rows = rows_of(folder, columns="key, subkey, metadata, tag, size")
    assert [(row["subkey"], row["metadata"]) for row in rows] == [
        (f"s{number}", b"%d" % number) for number in range(9)
    ]
    assert {(row["key"], row["tag"], row["size"]) for row in rows} == {("k", "h", 0)}
    for options in ({"fold": "objects"}, {"fold": "index", "bucket": "b", "field": "f"}):
        with pytest.raises(UnsupportedError, match="heads only has no fold"):
            rows_of(folder, **options)


def test_a_damaged_value_is_an_error_that_names_it(
    folder: Path, store: siltstone.Store, photos: objects.Keyspace
) -> None:
    wanted = {f"k{number}": b"%d" % number * 300 for number in range(30)}
    for key, value in wanted.items():
        photos.put("b", key, value)
    photos.put("b", "large", LARGE)
    wanted["large"] = LARGE
    store.flush()
    read = PlannedRead(folder, fold="objects", bucket="b")
    damaged = damage(folder, wanted["k7"])
    with pytest.raises(LostObjectError, match="key=k7"):
        read.values()
    flip(*damaged)  # it is whole again
    damage(folder, LARGE[2_000_000:])
    with pytest.raises(LostObjectError, match="key=large"):
        read.values()
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("objects:\n  lost: missing\n")
    del wanted["large"]
    assert read.values() == wanted


def test_a_damaged_value_that_was_replaced_meanwhile_is_lost_too(
    folder: Path, store: siltstone.Store, photos: objects.Keyspace
) -> None:
    wanted = {f"k{number}": b"%d" % number * 300 for number in range(9)}
    for key, value in wanted.items():
        photos.put("b", key, value)
    store.flush()
    read = PlannedRead(folder, fold="objects")
    damage(folder, wanted["k7"])
    photos.put("b", "k7", b"new")
    with pytest.raises(LostObjectError, match="key=k7"):
        read.values()
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("objects:\n  lost: missing\n")
    del wanted["k7"]
    assert read.values() == wanted


def damage(folder: Path, needle: bytes) -> tuple[Path, int]:
    """Flip a bit of the one chunk that has these bytes; return where."""
    (found,) = [
        path
        for path in (folder / "chunks").rglob("*")
        if path.is_file() and needle[:64] in path.read_bytes()
    ]
    path = chunk_path(folder, str(found.relative_to(folder / "chunks")))
    offset = path.read_bytes().index(needle[:64]) + 3
    flip(path, offset)
    return path, offset


@pytest.mark.parametrize(
    ("module", "limit", "message"),
    [
        (keyspace_plan, "VALUE_BYTES_MAX", "a value is too large for a row of Spark.*key=k0"),
        (keyspace_plan, "TAIL_BYTES_MAX", "flush the store first"),
        (keyspace_plan, "ROWS_BYTES_MAX", "read by buckets or by ranges of keys"),
    ],
)
def test_what_is_too_large_for_one_read_is_refused_with_a_way_out(
    folder: Path,
    photos: objects.Keyspace,
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    limit: str,
    message: str,
) -> None:
    photos.put("b", "k0", b"value")
    monkeypatch.setattr(module, limit, 4)
    with pytest.raises(CapabilityError, match=message):
        rows_of(folder, fold="objects")


def test_many_rows_are_cut_into_several_tasks(
    folder: Path, photos: objects.Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = filled(photos)
    monkeypatch.setattr(keyspace_plan, "SPLIT_BYTES", 1)
    monkeypatch.setattr(value_packs, "PACK_ROWS", 7)
    read = PlannedRead(folder, fold="objects")
    assert len(read.tasks) == -(-len(wanted) // 7)
    assert len(read.values()) == len(wanted)


def test_another_store_under_the_path_is_refused(
    folder: Path, photos: objects.Keyspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    photos.put("b", "k", b"value")
    read = PlannedRead(folder, fold="objects")
    other = make_store(tmp_path_factory.mktemp("other"))
    siltstone.open(other).close()
    folder.joinpath("siltstone.yaml").write_text(
        other.joinpath("siltstone.yaml").read_text().replace("./", f"{other}/")
    )
    with pytest.raises(StoreError):
        read.values()


async def small_values(
    keyspace: objects.AsyncKeyspace, store: siltstone.AsyncStore
) -> dict[str, bytes]:
    """Put objects of which two thirds are replaced; return what there is."""
    wanted = {f"k{number:02}": b"first %d" % number * 20 for number in range(40)}
    for key, value in wanted.items():
        await keyspace.put("b", key, value)
    for key in [key for number, key in enumerate(wanted) if number % 3]:
        wanted[key] = b"again" + wanted[key]
        await keyspace.put("b", key, wanted[key])
    await store.flush()
    return wanted


async def compacted(
    store: siltstone.AsyncStore, keyspace: objects.AsyncKeyspace, space: OpenSpace
) -> None:
    """Roll the active segment by other objects, and compact all that is worth it."""
    for number in range(20):
        await keyspace.put("other", f"{number}", b"x" * 300)
    while any(row.status is ValueStatus.ROLLING for row in (await space.parts.manifest.now()).rows):
        await store.environment.sleep(0.005)
    await store.flush()
    assert (await keyspace.compact()).run, "there is something to compact"
    while (await keyspace.compact()).run:
        pass
    for _ in range(3):  # rows of segments first, and chunks when long-term storage has that
        await store.flush()
        await store.collect()


def chunks_of(folder: Path, read: PlannedRead) -> list[Path]:
    """The files that the tasks of a read are to read, those that are there."""
    windows = [window for task in read.tasks for window in task.value.windows.values()]
    names = {run.chunk for window in windows for run in window.runs}
    return [path for path in (folder / "chunks" / name for name in sorted(names)) if path.exists()]


async def until_gone(
    folder: Path, store: siltstone.AsyncStore, read: PlannedRead, before: int
) -> None:
    """Let the owner delete some of the chunks, of which there were so many: no pin keeps them."""
    for _ in range(500):
        await store.flush()
        await store.collect()
        if len(chunks_of(folder, read)) < before:
            return
        await store.environment.sleep(0.01)
    pytest.fail("no chunk was deleted")


def planned(folder: Path, **options: object) -> PlannedRead:
    """A planned read of the values of bucket b of the small keyspace."""
    return PlannedRead(folder, keyspace=SMALL, fold="objects", bucket="b", **options)


async def test_values_that_were_replaced_and_compacted_since_the_plan_stay(folder: Path) -> None:
    async with small_keyspace(folder) as (store, keyspace, space):
        wanted = await small_values(keyspace, store)
        read = await asyncio.to_thread(planned, folder)
        there = chunks_of(folder, read)
        for key in wanted:
            await keyspace.put("b", key, b"new")
        await compacted(store, keyspace, space)
        assert chunks_of(folder, read) == there, "a pin keeps them"
        assert await asyncio.to_thread(read.values) == wanted


async def test_values_that_were_moved_are_found_by_their_sqn(folder: Path) -> None:
    async with small_keyspace(folder) as (store, keyspace, space):
        wanted = await small_values(keyspace, store)
        read = await asyncio.to_thread(planned, folder, ttl="1ms")
        before = len(chunks_of(folder, read))
        await compacted(store, keyspace, space)
        await until_gone(folder, store, read, before)
        assert await asyncio.to_thread(read.values) == wanted


async def test_values_that_are_gone_are_an_error_that_says_so(folder: Path) -> None:
    async with small_keyspace(folder) as (store, keyspace, space):
        wanted = await small_values(keyspace, store)
        read = await asyncio.to_thread(planned, folder, ttl="1ms")
        before = len(chunks_of(folder, read))
        for key in wanted:
            await keyspace.put("b", key, b"new")
        await compacted(store, keyspace, space)
        await until_gone(folder, store, read, before)
        with pytest.raises(SnapshotExpiredError, match="give a longer option 'ttl'"):
            await asyncio.to_thread(read.values)


async def test_values_that_are_compacted_while_a_read_is_planned_are_planned_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []

    async def gone_once(*given: Any) -> dict[str, SegmentMap]:
        found.append(1)
        if len(found) == 1:
            raise SegmentNotFoundError("compacted just now", segment="values")
        return await pinned_segments(*given)

    async with small_keyspace(folder) as (store, keyspace, _):
        wanted = await small_values(keyspace, store)
        monkeypatch.setattr(keyspace_plan, "pinned_segments", gone_once)
        read = await asyncio.to_thread(planned, folder)
        assert await asyncio.to_thread(read.values) == wanted
        assert len(found) == 2
        monkeypatch.setattr(keyspace_plan, "pinned_segments", never)
        with pytest.raises(SnapshotExpiredError, match="while the read was planned; run it again"):
            await asyncio.to_thread(planned, folder)


async def never(*_: Any) -> dict[str, SegmentMap]:
    raise SegmentNotFoundError("compacted just now", segment="values")
