"""Backups and checks of imports in tasks of Spark: the results of threads, whatever is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import siltstone
from siltstone.core.words import KIB
from siltstone.migration.backup import create_backup
from siltstone.migration.verify_backup import verify_backups
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.work import Item, Outcome, Step, Work
from siltstone.spark.executor import SparkExecutor
from tests.unit.migration.backups import damage, noise
from tests.unit.pipelines.stores import make_store

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dying:
    """Kills its process in the first attempt of each task, behind the first item."""

    work: Work

    @contextmanager
    def open(self) -> Iterator[Step]:
        with self.work.open() as step:

            def dying(item: Item) -> Outcome:
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

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Iterator[Outcome]:
        self.runs += 1
        return self.inner.run(Dying(work=work) if self.runs == 1 else work, packs)

    def close(self) -> None:
        pass


def fragments(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.rglob("*.chunk.*")}


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
    found = verify_backups(tmp_path / "tasks", executor=SparkExecutor(spark, threads=2))
    assert found == verify_backups(tmp_path / "tasks", executor=LocalExecutor(2))
    assert {(one.subject.rpartition("/")[2], one.status) for one in found.findings} == {
        (first.name, "damaged"),
        (second.name, "missing"),
    }
