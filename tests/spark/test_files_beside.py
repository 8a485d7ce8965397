"""A frame held while its store continues: writer, truncation, merging, garbage; pins hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import siltstone
from siltstone.container.compact.compaction import CompactionRules
from siltstone.core.constants import KIB
from siltstone.pipelines.compact import compact
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.work import OK
from siltstone.spark import files
from siltstone.store.blocking.segment import Segment
from tests.spark.hadoop import Hadoop

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("silt"),
]

DATA = b"".join(b"line %d\n" % number for number in range(2_000))


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, siltstone.Store]]:
    """A store that deletes at once what it may, and whose segments are in small chunks."""
    folder = tmp_path_factory.mktemp("eager")
    settings = siltstone.init(folder)
    with settings.open("a", encoding="utf-8") as file:
        file.write("\nsegments:\n  chunk_size: 4KiB\ngarbage:\n  delay: 0s\nflush:\n  age: 1h\n")
    with siltstone.open(folder) as store:
        yield folder, store


def filled(store: siltstone.Store, name: str, data: bytes = DATA) -> Segment:
    segment = store.create(name)
    for begin in range(0, len(data), 3_000):
        segment.append(data[begin : begin + 3_000])
        segment.flush()
    return segment


def truncate(_: siltstone.Store, segment: Segment) -> None:
    segment.truncate(len(DATA) - 10)


def delete(_: siltstone.Store, segment: Segment) -> None:
    segment.delete()


def seal_and_concat(store: siltstone.Store, segment: Segment) -> None:
    target = filled(store, "target", b"before\n")
    segment.seal()
    target.concat(segment)
    target.truncate(target.info().length - 1)


def append_more(_: siltstone.Store, segment: Segment) -> None:
    segment.append(b"more\n" * 5_000)
    segment.flush()


@pytest.mark.parametrize("change", [truncate, delete, seal_and_concat, append_more])
def test_what_a_frame_shows_stays_while_its_pin_lives(
    spark: SparkSession,
    eager: tuple[Path, siltstone.Store],
    change: Callable[[siltstone.Store, Segment], None],
) -> None:
    folder, store = eager
    hadoop = Hadoop(spark)
    segment = filled(store, change.__name__)
    (path,) = files(spark, folder, segment.name)
    change(store, segment)
    store.flush()
    store.collect()
    assert store.collect() == 0
    assert hadoop.read(path) == DATA
    held = sum(status.held for status in store.garbage())
    assert held > 0 or change is append_more


def test_chunks_that_were_merged_into_others_stay(spark: SparkSession, tmp_path: Path) -> None:
    settings = siltstone.init(tmp_path)
    with settings.open("a", encoding="utf-8") as file:
        file.write("\nsegments:\n  chunk_size: 4KiB\ngarbage:\n  delay: 0s\n")
    with siltstone.open(tmp_path) as store:
        filled(store, "a")
    (path,) = files(spark, tmp_path, "a")
    rules = CompactionRules(small_bytes=8 * KIB, chunk_bytes=64 * KIB, count_min=2, share=False)
    # From now on chunks may be larger.
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("chunk_size: 4KiB", "chunk_size: 64KiB"), encoding="utf-8")
    with owned_store(tmp_path) as owned:
        found = list(compact(owned, LocalExecutor(1), rules))
    assert {outcome.status for outcome in found} == {OK}
    with siltstone.open(tmp_path) as store:
        store.flush()
        assert store.collect() == 0
        assert store.garbage()[0].held > 3
        (later,) = files(spark, store, "a")
        assert len(list(store.segment("a").chunks())) < 4
    hadoop = Hadoop(spark)
    assert hadoop.read(path) == hadoop.read(later) == DATA


def test_what_was_pinned_goes_when_the_pin_expires(spark: SparkSession, tmp_path: Path) -> None:
    settings = siltstone.init(tmp_path)
    with settings.open("a", encoding="utf-8") as file:
        file.write("\nsegments:\n  chunk_size: 4KiB\ngarbage:\n  delay: 0s\n")
    with siltstone.open(tmp_path) as store:
        segment = filled(store, "a")
        (path,) = files(spark, store, "a", ttl=1.0)
        segment.delete()
        store.flush()
        wait_for_deletion(store, tmp_path / "chunks" / "data")
    with pytest.raises(Exception, match="file manifest expired"):
        spark.read.text(path).count()


def wait_for_deletion(store: siltstone.Store, chunks: Path) -> None:
    """Collect until nothing is left; the deadline of the test is the limit."""
    while any(path.is_file() for path in chunks.rglob("*")):
        store.collect()


def test_a_segment_in_a_shared_chunk(
    spark: SparkSession, eager: tuple[Path, siltstone.Store]
) -> None:
    _, store = eager
    for number in range(60):
        store.create(f"packed/{number}").append(b"x\ny\n" * number)
    store.flush()
    assert "/_shared/" in next(iter(store.segment("packed/7").chunks())).chunk
    paths = files(spark, store, "packed/", match="prefix")
    hadoop = Hadoop(spark)
    found = {path.rpartition("/")[2]: hadoop.read(path) for path in paths}
    assert found == {str(number): b"x\ny\n" * number for number in range(60)}
    assert spark.read.text(paths).count() == sum(2 * number for number in range(60))
