"""Reads that are under way while their store continues: optimiser, truncation, seal, join, garbage.

A read is stopped after its first rows. Then an owner with a busy optimiser merges what is small,
others change what the read has still to come to, and garbage is deleted at once. A read of
``silt://`` must show what it was planned with, for its pin holds it. The data source has no pin: it
must look chunks up again, and find truncated bytes as long as ``garbage.delay`` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

import siltstone
from siltstone.spark import files
from siltstone.store.blocking.segment import Segment
from tests.spark.conftest import Sizes

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

RANGE_BYTES = 6_000
QUIET = "\nsegments:\n  chunk_size: 2KiB\nflush:\n  age: 1h\noptimiser:\n  enabled: false\n"
BUSY = QUIET.replace("2KiB", "64KiB").replace("enabled: false", "enabled: true")


def lines_of(name: str) -> list[str]:
    return [f"{name} {number}" for number in range(1_000)]


def fill(store: siltstone.Store, name: str) -> Segment:
    """A segment in small chunks."""
    segment = store.create(name)
    data = "".join(line + "\n" for line in lines_of(name)).encode()
    for begin in range(0, len(data), 3_000):
        segment.append(data[begin : begin + 3_000])
        segment.flush()
    return segment


def new_store(folder: Path, garbage_delay: str, names: list[str]) -> None:
    with siltstone.init(folder).open("a", encoding="utf-8") as file:
        file.write(f"{QUIET}garbage:\n  delay: {garbage_delay}\n")
    with siltstone.open(folder) as store:
        for name in names:
            fill(store, name)


@contextmanager
def busy_owner(folder: Path) -> Iterator[siltstone.Store]:
    """A newer owner, whose optimiser is on."""
    settings = folder / "siltstone.yaml"
    settings.write_text(settings.read_text(encoding="utf-8").replace(QUIET, BUSY), encoding="utf-8")
    with siltstone.open(folder) as store:
        yield store


def chunks_of(folder: Path, name: str) -> set[str]:
    with siltstone.open(folder, read_only=True) as store:
        return {one.chunk for one in store.segment(name).chunks()}


def wait_until_merged(store: siltstone.Store, name: str, old: set[str]) -> None:
    """Let the optimiser do its rounds at once; the deadline of the test is the limit."""
    while old & {one.chunk for one in store.segment(name).chunks()}:
        for slot in store._store._slots:
            store._loop.run(slot.container._parts.optimiser.round())
        store.collect()


def merge_and_collect(folder: Path, store: siltstone.Store, name: str, old: set[str]) -> set[str]:
    """Merge, and delete what may be deleted; return which of the old chunks are still there."""
    wait_until_merged(store, name, old)
    store.flush()
    store.collect()
    assert store.collect() == 0
    return {chunk for chunk in old if (folder / "chunks" / chunk).exists()}


def started(frame: DataFrame) -> tuple[list[str], Iterator[str]]:
    """The first row of a read, and the others, which come a partition at a time."""
    assert frame.rdd.getNumPartitions() > 1
    rows = (row.value for row in frame.toLocalIterator())
    return [next(rows)], rows


def load(spark: SparkSession, folder: Path, *names: str) -> DataFrame:
    reader = spark.read.format("siltstone").option("store", str(folder))
    return reader.options(segments=json.dumps(names), range_bytes=str(RANGE_BYTES)).load()


def expected(names: Mapping[str, object] | list[str]) -> list[str]:
    return [line for name in names for line in lines_of(name)]


@pytest.mark.usefixtures("silt")
def test_files_that_are_being_read_stay_as_they_were(
    spark: SparkSession, sizes: Sizes, tmp_path: Path
) -> None:
    names = ["deleted", "joined", "merged", "sealed", "truncated"]
    new_store(tmp_path, "0s", names)
    old = {name: chunks_of(tmp_path, name) for name in names}
    sizes(RANGE_BYTES)
    first, rest = started(spark.read.text(files(spark, tmp_path, names)))
    with busy_owner(tmp_path) as store:
        found = {name: store.segment(name) for name in names}
        found["truncated"].truncate(found["truncated"].info().length - 3)
        found["deleted"].delete()
        found["sealed"].append(b"more\n")
        found["sealed"].seal()
        found["joined"].seal()
        target = fill(store, "target")
        target.concat(found["joined"])
        target.truncate(target.info().length)
        assert merge_and_collect(tmp_path, store, "merged", old["merged"]) == old["merged"]
        assert sum(status.held for status in store.garbage()) > 2 * len(old["merged"])
        assert sorted([*first, *rest]) == sorted(expected(names))


def test_rows_are_found_where_their_bytes_went(spark: SparkSession, tmp_path: Path) -> None:
    """The chunks of the plan are gone before the tasks come that read them."""
    names = ["merged", "joined", "sealed"]
    new_store(tmp_path, "0s", [*names, "truncated"])
    old = {name: chunks_of(tmp_path, name) for name in names}
    first, rest = started(load(spark, tmp_path, *names))
    truncated, too_late = started(load(spark, tmp_path, "truncated"))
    with busy_owner(tmp_path) as store:
        store.segment("sealed").append(b"more\n")
        store.segment("sealed").seal()
        store.segment("truncated").truncate(len("".join(lines_of("truncated"))))
        for name in names:
            assert not merge_and_collect(tmp_path, store, name, old[name])
        assert [*first, *rest] == expected(names)
        with pytest.raises(Py4JJavaError, match="offset was truncated"):
            truncated += too_late
    assert truncated == lines_of("truncated")[: len(truncated)]


def test_rows_that_were_truncated_or_deleted_are_found_for_a_while(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = ["truncated", "deleted"]
    new_store(tmp_path, "1h", names)
    first, rest = started(load(spark, tmp_path, *names))
    with busy_owner(tmp_path) as store:
        store.segment("truncated").truncate(store.segment("truncated").info().length)
        store.segment("deleted").delete()
        store.flush()
        assert store.collect() == 0
        assert [*first, *rest] == expected(names)
