"""Backups and checks of imports in tasks of Spark: the results of threads, whatever is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import siltstone
from siltstone.cli.main import run
from siltstone.core.constants import KIB
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.migration.files.import_files import ImportChoices, import_files
from siltstone.migration.files.import_plan import plan_files
from siltstone.migration.files.verify_files import verify_files
from siltstone.migration.legacy.examine import examine
from siltstone.migration.legacy.importer import bring
from siltstone.migration.legacy.locate import located
from siltstone.migration.legacy.plan import Way, plan_migration
from siltstone.migration.legacy.verify import verify
from siltstone.migration.source.range_compare import DIFFERS
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.owned_store import owned_store
from siltstone.pipelines.record_sums import plan_sums, record_sums
from siltstone.pipelines.scrub import scrub
from siltstone.pipelines.store_view import store_view
from siltstone.pipelines.work import OK, Executor, Item, ItemOutcome, Step, Work
from siltstone.spark.executor import SparkExecutor
from tests.support.migration.backups import damage, noise
from tests.support.stores import make_store

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dying:
    """Kills its process in the first attempt of each task, after the first item."""

    work: Work

    @property
    def rate(self) -> int | None:
        return self.work.rate

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        with self.work.open(openings) as step:

            def dying(item: Item) -> ItemOutcome:
                outcome = step(item)
                context = TaskContext.get()
                if context is not None and context.attemptNumber() == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return outcome

            yield dying


class Killing:
    """Tasks of Spark; the first attempts of those of the first run are killed."""

    def __init__(self, spark: SparkSession) -> None:
        self.inner = SparkExecutor(spark)
        self.workers = self.inner.workers
        self.runs = 0

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        self.runs += 1
        return self.inner.run(Dying(work=work) if self.runs == 1 else work, packs)

    def close(self) -> None:
        pass


def fragments(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.rglob("*.chunk.*")}


def restored(place: Path, new: Path, executor: Executor) -> None:
    assert restore_backup(place, new, executor=executor).missing == {}
    with siltstone.open(new, read_only=True) as store:
        assert list(store.check(deep=True)) == []
        assert [info.length for info in store.list()] == [130 * KIB] * 4


def chunks(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "chunks" / "data").rglob("*.chunk")}


def test_a_backup_is_the_same_on_threads_and_in_tasks_that_are_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = make_store(tmp_path / "store", chunk_bytes=64 * KIB, containers=2)
    with siltstone.open(folder) as store:
        for number in range(4):
            store.create(f"s{number}").append(noise(130 * KIB))
        store.flush()
        threads = create_backup(folder, tmp_path / "threads")
        killing = Killing(spark)
        tasks = create_backup(folder, tmp_path / "tasks", executor=killing)
    assert killing.runs == 2, "what the killed ones left was copied again"
    assert tasks.copied_bytes == threads.copied_bytes == 4 * 130 * KIB
    assert fragments(tmp_path / "tasks") == fragments(tmp_path / "threads")
    assert verify_backups(tmp_path / "tasks", executor=SparkExecutor(spark)).findings == ()
    first, second, *_ = sorted((tmp_path / "tasks").rglob("*.chunk.*"))
    damage(first, 77)
    second.unlink()
    restored(tmp_path / "threads", tmp_path / "by threads", LocalExecutor(2))
    killing = Killing(spark)
    restored(tmp_path / "threads", tmp_path / "by tasks", killing)
    assert killing.runs == 2, "what the killed ones left was brought again"
    assert chunks(tmp_path / "by tasks") == chunks(tmp_path / "by threads")
    found = verify_backups(tmp_path / "tasks", executor=SparkExecutor(spark, threads=2))
    assert found == verify_backups(tmp_path / "tasks", executor=LocalExecutor(2))
    assert {(one.subject.rpartition("/")[2], one.status) for one in found.findings} == {
        (first.name, "damaged"),
        (second.name, "missing"),
    }


def brought(folder: Path, old: Path, executor: Executor) -> list[ItemOutcome]:
    with located(str(old), folder) as place, siltstone.open(folder) as store:
        layout = examine(place.place)
        plan = plan_migration(layout, {}, migration=place.migration, way=Way.COPY, under="")
        return list(bring(plan, place.for_workers(store.uuid), store, executor, None))


def compared(folder: Path, old: Path, executor: Executor) -> list[ItemOutcome]:
    with located(str(old), folder) as place, store_view(folder) as view:
        found = list(verify(place, view, executor))
    return sorted(found, key=lambda outcome: outcome.subject)


def test_an_import_is_compared_and_summed_up_the_same_in_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = make_store(tmp_path / "store")
    old = folder / "chunks" / "old"
    old.mkdir(parents=True)
    for number in range(5):
        (old / f"s{number}$offset.0").write_bytes(noise(40 * KIB))
        (old / f"s{number}$offset.40960").write_bytes(noise(7 * KIB + number))
        header = f"maxsize=40960&0=s{number}$offset.0&40960=s{number}$offset.40960&"
        (old / f"s{number}$header").write_text(header)
    # All is killed once and tried again: what the first tries left is garbage of the session.
    assert {one.status for one in brought(folder, old, Killing(spark))} == {OK}
    assert {one.status for one in compared(folder, old, Killing(spark))} == {OK}
    files = [old / "s1$offset.0", old / "s1$offset.40960"]
    with siltstone.open(folder) as store:
        chosen = plan_files("files/{path}", [old])
        made = import_files(store, folder, chosen, ImportChoices(), executor=Killing(spark))
        assert len(list(made)) == 15
    with store_view(folder) as view:
        same = list(verify_files(view, chosen, LocalExecutor(2)))
    assert [one.status for one in same] == [OK] * 15
    with store_view(folder) as view:
        planned = plan_files("s1", files)
        same = list(verify_files(view, planned, SparkExecutor(spark, threads=2), rate=1 << 30))
    assert [(one.subject, one.status, one.length) for one in same] == [("s1", OK, 47 * KIB + 1)]
    damage(old / "s1$offset.0", 30 * KIB)
    (old / "s3$offset.40960").write_bytes(b"cut")
    tasks = compared(folder, old, SparkExecutor(spark, threads=2))
    assert tasks == compared(folder, old, LocalExecutor(2))
    wrong = {one.subject: one for one in tasks if one.status != OK}
    assert {name: one.status for name, one in wrong.items()} == {"s1": DIFFERS, "s3": DIFFERS}
    assert "s1$offset.0" in wrong["s1"].message
    other = make_store(tmp_path / "other")
    place = other / "chunks" / "old"
    place.mkdir(parents=True)
    (place / "x").write_bytes(noise(300 * KIB))
    taken = ["import", "x", str(place / "x"), "--in-place", "--no-verify"]
    assert run(["--store", str(other), "--quiet", *taken]) == 0
    with owned_store(other) as owned, store_view(other) as view:
        items = plan_sums(view, view.segments())
        assert [one.status for one in record_sums(view, owned, Killing(spark), items)] == [OK]
    with store_view(other) as view:
        assert {one.status for one in scrub(view, LocalExecutor(2))} == {OK}
