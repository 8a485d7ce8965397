"""Keyspaces through Spark itself, compared with a dictionary, also when tasks fail."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow
import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import siltstone
from siltstone import objects
from siltstone.objects.space_names import space_names
from siltstone.pipelines.check_keyspace import check_keyspace
from siltstone.pipelines.compact_keyspace import compact_keyspace
from siltstone.pipelines.value_copy_work import ValueCopyWork
from siltstone.pipelines.work import Item, ItemOutcome, PipelineError, Step
from siltstone.spark.executor import SparkExecutor
from tests.support.objects.small_segments import NAME as SMALL
from tests.support.objects.small_segments import small_keyspace, store_for_keyspaces
from tests.support.pipelines.seen_items import SeenItems
from tests.support.stores import chunk_path, flip

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NAME = "photos"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keyspaces")
    siltstone.init(path, containers=1)
    return path


@pytest.fixture(scope="module")
def values(place: Path) -> Iterator[dict[tuple[str, str], bytes]]:
    """What a keyspace of a store has that is open meanwhile."""
    with siltstone.open(place) as store:
        photos = objects.create(store, NAME)
        wanted = {}
        for number in range(100):
            bucket, key, value = f"b{number % 2}", f"k{number:02}", b"%d" % number * 1_000
            index = {"city": [f"c{number % 7}", "ås"]}
            photos.put(bucket, key, value, index=index, ttl_s=None if number % 3 else 9_999)
            wanted[bucket, key] = value
            if number == 50:
                store.flush()
        wanted["b0", "large"] = bytes(range(256)) * 20_000
        photos.put("b0", "large", wanted["b0", "large"])
        yield wanted


def read(spark: SparkSession, place: Path, **options: object) -> DataFrame:
    reader = spark.read.format("siltstone")
    for name, value in {"store": place, "keyspace": NAME, **options}.items():
        reader = reader.option(name, str(value))
    return reader.load()


def once_more(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Fail the first attempt of each task after it has read some."""
    for batch in batches:
        yield batch
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        if context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")


def test_heads_objects_and_index_are_those_of_a_dictionary(
    spark: SparkSession, place: Path, values: dict[tuple[str, str], bytes]
) -> None:
    heads = read(spark, place)
    assert {(row.bucket, row.key): row.size for row in heads.collect()} == {
        name: len(value) for name, value in values.items()
    }
    assert heads.where("expires IS NOT NULL AND modified < expires").count() == 34
    assert heads.where("array_contains(index['city'], 'ås')").count() == 100
    frame = read(spark, place, fold="objects", range_bytes="100KiB")
    assert frame.rdd.getNumPartitions() > 2
    again = frame.select("bucket", "key", "value").mapInArrow(
        once_more, "bucket STRING, key STRING, value BINARY"
    )
    assert {(row.bucket, row.key): bytes(row.value) for row in again.collect()} == values
    terms = read(spark, place, fold="index", bucket="b1", field="city", start="c1", end="c3")
    assert sorted((row.term, row.key) for row in terms.collect()) == sorted(
        (f"c{number % 7}", f"k{number:02}") for number in range(1, 100, 2) if number % 7 in (1, 2)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fold": "index", "bucket": "b"}, "option 'field' is missing"),
        ({"keyspace": "none"}, "no such keyspace keyspace=none"),
        ({"tag": "log"}, "the keyspace has no tag 'log', only o"),
    ],
)
def test_what_is_wrong_is_named(
    spark: SparkSession,
    place: Path,
    values: dict[tuple[str, str], bytes],
    options: dict[str, object],
    message: str,
) -> None:
    assert values
    with pytest.raises(PySparkException) as caught:
        read(spark, place, **options).collect()
    assert message in str(caught.value)


def test_a_deep_check_in_tasks_says_what_one_process_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    async def filled() -> None:
        async with small_keyspace(folder) as (store, keyspace, _):
            for number in range(60):
                await keyspace.put("b", f"k{number:02}", b"value %02d " % number * 20)
            await store.flush()

    folder = store_for_keyspaces(tmp_path / "store")
    asyncio.run(filled())
    needle = b"value 07 value"
    for path in (folder / "chunks" / "data").rglob("*"):
        if path.is_file() and needle in path.read_bytes():
            name = str(path.relative_to(folder / "chunks"))
            flip(chunk_path(folder, name), path.read_bytes().index(needle))
    executor = SeenItems(SparkExecutor(spark))
    with siltstone.open(folder, read_only=True) as store:
        settings = str(folder / "siltstone.yaml")
        found = list(check_keyspace(settings, store, SMALL, executor))
        assert found == list(objects.check(store, SMALL, deep=True))
    assert [each.severity for each in found] == ["damage"]
    assert {outcome.status for outcome in executor.outcomes} == {"ok", "damaged"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFails:
    """Work whose tasks fail once, after they have done some; or find no settings file.

    Attributes:
        work: what is done.
    """

    work: ValueCopyWork

    @property
    def rate(self) -> int | None:
        return self.work.rate

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        with self.work.open(openings) as step:

            def one(item: Any) -> ItemOutcome:
                outcome = step(item)
                context = TaskContext.get()
                assert context is not None, "it runs in a task"
                if context.attemptNumber() == 0:
                    raise RuntimeError("the first attempt fails after a write")
                return outcome

            yield one


class FailingOnce(SparkExecutor):
    """Tasks that fail once."""

    def run(self, work: Any, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        yield from super().run(FirstFails(work=work), packs)


def test_a_compaction_in_tasks_that_fail_does_what_one_process_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    async def filled() -> None:
        async with small_keyspace(folder) as (store, keyspace, _):
            for number in range(200):
                tag = "log" if number % 5 == 0 else "o"
                await keyspace.put("b", f"k{number % 23:02}", b"%d" % number * 30, tag=tag)
            await store.flush()

    folder = store_for_keyspaces(tmp_path / "store")
    asyncio.run(filled())
    other = copytree(folder, tmp_path / "other")
    names = space_names(SMALL)

    def rows(store: siltstone.Store) -> dict[bytes, bytes]:
        return {key: row.value for key, row in store.table(names.ledger).scan()}

    with siltstone.open(other) as store:
        small = objects.open(store, SMALL)
        alone: list[objects.CompactionReport] = []
        while not alone or alone[-1].run:
            alone.append(small.compact())
        here = rows(store)
    settings = folder / "siltstone.yaml"
    with siltstone.open(folder) as store:
        executor = SeenItems(FailingOnce(spark))
        found = list(compact_keyspace(settings, store, SMALL, executor, item_bytes=500))
        assert found == alone
        assert rows(store) == here
        assert list(objects.open(store, SMALL).check(deep=True)) == []
    assert {outcome.status for outcome in executor.outcomes} == {"ok"}
    assert len(executor.outcomes) > len(found)


def test_executors_that_find_no_store_end_a_compaction_and_say_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    async def filled() -> None:
        async with small_keyspace(folder) as (store, keyspace, _):
            for number in range(60):
                await keyspace.put("b", f"k{number % 7}", b"v" * 100)
            await keyspace.put("b", "needed", b"v")
            for number in range(60):
                await keyspace.put("b", f"k{number % 7}", b"v" * 100)
            await store.flush()

    folder = store_for_keyspaces(tmp_path / "store")
    asyncio.run(filled())
    nowhere = tmp_path / "nowhere.yaml"
    with siltstone.open(folder) as store:
        small = objects.open(store, SMALL)
        before = list(small.objects("b"))
        with pytest.raises(PipelineError, match=r"a worker could not begin: .*nowhere"):
            list(compact_keyspace(nowhere, store, SMALL, SparkExecutor(spark)))
        assert list(small.objects("b")) == before
        assert small.compact().made
