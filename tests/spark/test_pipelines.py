"""Jobs in tasks of Spark: the outcomes of threads, and one message when nothing can begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from uuid import uuid4

import pyarrow
import pytest
from pyspark.sql import SparkSession

import siltstone
from siltstone.collections.place import CollectionSettings
from siltstone.container.compact.compaction import CompactionRules
from siltstone.core.errors import SettingsError
from siltstone.pipelines import work as pipeline_work
from siltstone.pipelines.compact import compact
from siltstone.pipelines.copy_segments import copy
from siltstone.pipelines.export import export, plan_export
from siltstone.pipelines.export_layout import Form, Records
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.scrub import DAMAGED, MISSING, scrub
from siltstone.pipelines.scrub_collections import scrub_collections
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.verify_copy import plan_verify_copy, verify_copy
from siltstone.pipelines.verify_export import plan_verify_export, verify_export
from siltstone.pipelines.work import OK, Executor, ItemOutcome, PipelineError, Step, share_of
from siltstone.spark.executor import SparkExecutor
from tests.support.stores import chunk_path, flip, make_store

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def jobs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with some segments, closed."""
    folder = make_store(tmp_path_factory.mktemp("jobs") / "store")
    with siltstone.open(folder) as store:
        for number in range(6):
            line = f"segment {number} line %06d\n"
            store.create(f"s/{number}").append(b"".join(line.encode() % n for n in range(1_500)))
        store.flush()
    return folder


class FramesAlone:
    """A session that has no context, as one of Spark Connect."""

    def __init__(self, spark: SparkSession) -> None:
        self.createDataFrame = spark.createDataFrame
        self.range = spark.range


@pytest.fixture(params=["by its context", "by data frames alone"])
def jobs(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    """A session for an executor, of either kind."""
    if request.param == "by its context":
        return spark
    return cast("SparkSession", FramesAlone(spark))


def outcomes(folder: Path, executor: Executor) -> list[ItemOutcome]:
    with store_view(folder) as view:
        return by_subject(scrub(view, executor))


def by_subject(outcomes: Iterable[ItemOutcome]) -> list[ItemOutcome]:
    return sorted(outcomes, key=lambda outcome: outcome.subject)


def test_a_scrub_finds_the_same_on_threads_and_in_tasks(
    jobs_folder: Path, jobs: SparkSession, tmp_path: Path
) -> None:
    with siltstone.open(jobs_folder, read_only=True) as store:
        names = [chunk.chunk for chunk in store.segment("s/3").chunks()]
    good = chunk_path(jobs_folder, names[2]).read_bytes()
    gone = chunk_path(jobs_folder, names[3])
    flip(chunk_path(jobs_folder, names[2]), 77)
    gone.rename(tmp_path / "gone")
    try:
        local = outcomes(jobs_folder, LocalExecutor(2))
        tasks = outcomes(jobs_folder, SparkExecutor(jobs, threads=3))
    finally:
        chunk_path(jobs_folder, names[2]).write_bytes(good)
        (tmp_path / "gone").rename(gone)
    assert local == tasks
    wrong = {outcome.subject: outcome.status for outcome in tasks if outcome.status != OK}
    assert wrong == {names[2]: DAMAGED, names[3]: MISSING}


def test_tasks_read_the_objects_of_one_collection(
    jobs_folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where a run continues an earlier one, those that are left."""
    monkeypatch.setattr(pipeline_work, "PACK_BYTES_MIN", 1_000)
    columns = pyarrow.schema([("n", pyarrow.int64())])
    settings = CollectionSettings(compacts=False)
    with siltstone.open_collections(jobs_folder, settings=settings) as collections:
        made = collections.create(uuid4().hex, columns, key=["n"], times="count")
        for number in range(12):
            made.append(pyarrow.table({"n": range(number, number + 2_000)}))
        parts = {one for one in collections.stored_parts() if made.info().id in one}
        try:
            flip(jobs_folder / "chunks" / min(parts), 77)
            with store_view(jobs_folder) as view:
                executor = SparkExecutor(spark, threads=3)
                tasks = list(scrub_collections(view, executor))
                local = list(scrub_collections(view, LocalExecutor(2)))
                done = {one.subject: one.length for one in tasks if one.status == OK}
                again = list(scrub_collections(view, executor, done))
        finally:
            collections.drop(made.name)
    assert len(parts) == 12
    assert by_subject(tasks) == by_subject(local)
    wrong = {one.subject: one.status for one in tasks if one.status != OK}
    assert wrong == {min(parts): DAMAGED}
    assert {one.subject for one in again} == {min(parts), "collections/"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """An item."""

    value: int
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """Work that cannot begin, or that ends with an unforeseen error."""

    error: str
    rate: int | None = None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        if self.error == "settings":
            raise SettingsError("siltstone.yaml:3: ${KEY} is not set")

        def step(item: Number) -> ItemOutcome:
            if self.error == "defect" and item.value == 7:
                raise RuntimeError("this is a defect")
            return ItemOutcome(subject=f"{item.value}", status=OK, length=item.value)

        yield step


def test_a_worker_without_settings_is_one_clear_message(jobs: SparkSession) -> None:
    executor = SparkExecutor(jobs)
    with pytest.raises(PipelineError) as caught:
        list(executor.run(Failing(error="settings"), [[Number(value=1)]]))
    message = str(caught.value)
    assert message == (
        "a worker could not begin: SettingsError: siltstone.yaml:3: ${KEY} is not set"
    )


def test_a_defect_fails_the_job_with_its_last_line(jobs: SparkSession) -> None:
    executor = SparkExecutor(jobs)
    with pytest.raises(PipelineError, match=r"a job of Spark failed: .*this is a defect"):
        list(executor.run(Failing(error="defect"), [[Number(value=7)]]))


def test_more_packs_than_one_wave_all_come_back(jobs: SparkSession) -> None:
    executor = SparkExecutor(jobs, workers=1)
    packs = [[Number(value=10 * pack + item) for item in range(3)] for pack in range(11)]
    found = list(executor.run(Failing(error=""), packs))
    assert sorted(outcome.length for outcome in found) == sorted(
        item.value for pack in packs for item in pack
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Work with a rate; an outcome tells which opening it is of, and of how many."""

    rate: int | None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        opening = uuid4().hex
        yield lambda item: ItemOutcome(
            subject=opening, status=OK, length=share_of(self.rate, openings) or 0
        )


@pytest.mark.parametrize("threads", [1, 3])
def test_tasks_in_flight_share_the_rate_and_are_no_more_than_workers(
    jobs: SparkSession, threads: int
) -> None:
    executor = SparkExecutor(jobs, threads=threads, workers=2)
    packs = [[Number(value=item) for item in range(5)] for _ in range(11)]
    shares = {one.subject: one.length for one in executor.run(Sharing(rate=1_001), packs)}
    assert list(shares.values()) == [500, 500]
    free = {one.subject for one in executor.run(Sharing(rate=None), packs)}
    assert len(free) == 4, "without a rate the task that is done first takes more"
    few = {one.subject for one in executor.run(Sharing(rate=None), packs[:8])}
    assert len(few) == 2, "few packs are a task for each worker"


def exported(folder: Path, out: Path, executor: Executor) -> dict[str, bytes]:
    with store_view(folder) as view:
        items = plan_export(view, view.segments(), out, Form.PARQUET, Records.LINES, 20_000)
        assert {outcome.status for outcome in export(view, executor, items)} == {OK}
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in out.rglob("*")
        if path.suffix == ".parquet"
    }


def test_an_export_is_the_same_on_threads_and_in_tasks(
    jobs_folder: Path, spark: SparkSession, tmp_path: Path
) -> None:
    tasks = exported(jobs_folder, tmp_path / "tasks", SparkExecutor(spark))
    assert tasks == exported(jobs_folder, tmp_path / "threads", LocalExecutor(2))
    frame = spark.read.parquet(str(tmp_path / "tasks"))
    assert frame.where("segment = 's/4'").count() == 1_500
    assert {row.segment for row in frame.select("segment").distinct().collect()} == {
        f"s/{number}" for number in range(6)
    }
    with store_view(jobs_folder) as view:
        items, known = plan_verify_export(view, tmp_path / "tasks")
        found = list(verify_export(view, SparkExecutor(spark), items))
    assert known == []
    assert {outcome.status for outcome in found} == {OK}


def test_spark_reads_the_names_of_segments_from_an_export(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = {"žluť/a b", "日本", "50%", "%C5%BE", "x=1", "q'\"{*}?:"}
    folder = make_store(tmp_path / "store")
    with siltstone.open(folder) as store:
        for name in names:
            store.create(name).append(b"a line\n")
    exported(folder, tmp_path / "out", LocalExecutor(1))
    found = spark.read.parquet(str(tmp_path / "out")).select("segment").collect()
    assert {row.segment for row in found} == names


def test_a_compaction_and_a_copy_in_tasks_keep_every_byte(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = make_store(tmp_path / "store", chunk_bytes=1_024)
    data = {f"s/{number}": bytes([number]) * (900 * number + 77) for number in range(8)}
    with siltstone.open(folder) as store:
        for name, content in data.items():
            store.create(name).append(content)
        store.flush()
    settings = folder / "siltstone.yaml"
    text = settings.read_text()
    settings.write_text(text.replace("chunk_size: 1024", "chunk_size: 65536"))
    executor = SparkExecutor(spark)
    rules = CompactionRules(small_bytes=8_192, chunk_bytes=65_536, count_min=2)
    with owned_store(folder) as owned:
        assert {outcome.status for outcome in compact(owned, executor, rules)} == {OK}
    target = make_store(tmp_path / "target")
    with store_view(folder) as view:
        assert len([row for row in view.chunk_rows() if row.chunk.name.startswith("data/")]) <= 4
        with owned_store(target) as owned:
            found = list(copy(view, owned, executor, view.segments()))
        assert {outcome.status for outcome in found} == {OK}
        with store_view(target) as other:
            items, known = plan_verify_copy(view, other, view.segments())
            compared = list(verify_copy(view, other, executor, items))
        assert known == []
        assert {outcome.status for outcome in compared} == {OK}
    with siltstone.open(target, read_only=True) as store:
        for name, content in data.items():
            assert store.segment(name).read(0, 100_000) == content
