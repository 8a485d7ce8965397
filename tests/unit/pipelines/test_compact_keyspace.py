"""Value compaction as a job does what value compaction by one process does, whatever workers do."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from shutil import copytree
from unittest.mock import patch

import pytest

import siltstone
from siltstone import objects
from siltstone.core.chunk_names import PINS_PREFIX, import_prefix
from siltstone.core.errors import ClosedError, CorruptDataError, ReadOnlyError, StoreNotFoundError
from siltstone.objects import CompactionReport
from siltstone.objects.record_check import headers_of
from siltstone.objects.records.value_record import ValueKind
from siltstone.objects.space_names import space_names
from siltstone.objects.value_segments import RollLimits
from siltstone.pipelines.compact_keyspace import compact_keyspace
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.value_copy_work import DAMAGED
from siltstone.pipelines.work import FAILED, Executor, Item, ItemOutcome, PipelineError, Work
from tests.support.pipelines.seen_items import SeenItems
from tests.support.stores import chunk_path, flip, make_store

NAME = "films"
NAMES = space_names(NAME)
TAGS = {"o": "recovr", "log": "retain", "calc": "recalc"}
ITEM_BYTES = 700
"""Some records: so each new value segment has several items."""

REPORTS_MAX = 50
MARKED = b"a value among others that were changed"

State = dict[str, object]


@pytest.fixture(autouse=True)
def _small_segments() -> Iterator[None]:
    limits = RollLimits(length=3_000, records=20, value=4_096, piece=1_024)
    with patch("siltstone.objects.open_spaces.RollLimits", lambda **_: limits):
        yield


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose keyspace has objects of all strategies, of which most were changed."""
    folder = make_store(tmp_path_factory.mktemp("films") / "store", chunk_bytes=1_000, containers=1)
    limits = RollLimits(length=3_000, records=20, value=4_096, piece=1_024)
    real, random = time.time, Random(7)
    with patch("siltstone.objects.open_spaces.RollLimits", lambda **_: limits):
        with (
            patch("siltstone.core.environment.time.time", lambda: real() - 1_000),
            siltstone.open(folder) as store,
        ):
            films = objects.create(store, NAME, tags=TAGS)
            for number in range(25):
                films.put("b", f"short{number}", b"expires" * 9, ttl_s=60)
                films.put("b", f"kept{number}", b"as long as all is there %d" % number * 3)
        with siltstone.open(folder) as store:
            films = objects.open(store, NAME)
            assert films.reap() == 25
            for number in range(240):
                tag, key = random.choice(list(TAGS)), f"k{random.randrange(12)}"
                if random.random() < 0.15:
                    films.delete("b", key, tag=tag)
                else:
                    value, terms = random.randbytes(random.randrange(400)), [f"t{number % 5}"]
                    films.put("b", key, value, tag=tag, index={"f": terms}, metadata=b"%d" % number)
                if number == 120:
                    films.put("b", "marked", MARKED)
            films.put("b", "large", bytes(range(256)) * 40)
            for segment in films.stat().segments:
                while (
                    segment.status != "active" and not store.segment(segment.segment).info().sealed
                ):
                    time.sleep(0.005)
            store.flush()
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    return copytree(filled, tmp_path / "store")


@pytest.fixture
def local() -> Iterator[LocalExecutor]:
    with closing(LocalExecutor(2)) as made:
        yield made


def compacted(
    store: siltstone.Store, folder: Path, executor: Executor, *, accept_loss: bool = False
) -> list[CompactionReport]:
    job = compact_keyspace(
        folder / "siltstone.yaml",
        store,
        NAME,
        executor,
        accept_loss=accept_loss,
        item_bytes=ITEM_BYTES,
    )
    with closing(job) as reports:
        found = list(islice(reports, REPORTS_MAX + 1))
    assert len(found) <= REPORTS_MAX, "it comes to no end"
    return found


def compacted_alone(
    folder: Path, *, accept_loss: bool = False
) -> tuple[list[CompactionReport], State]:
    """What one process makes of another copy of the store."""
    with siltstone.open(folder) as store:
        films = objects.open(store, NAME)
        reports = [films.compact(accept_loss=accept_loss)]
        while reports[-1].run:
            reports.append(films.compact(accept_loss=accept_loss))
        return reports, state(store)


def state(store: siltstone.Store) -> State:
    """All rows of a keyspace, and all bytes of its full segments, of damaged ones nothing."""
    rows = {key.hex(): row.value for key, row in store.table(NAMES.ledger).scan()}
    segments: State = {}
    for info in store.list(NAMES.prefix):
        if info.sealed:
            with suppress(CorruptDataError):
                segments[info.name] = store.segment(info.name).read(0, info.length)
    return {**rows, **segments}


def made_kinds(store: siltstone.Store, reports: list[CompactionReport]) -> Iterator[ValueKind]:
    """The kinds of records in the segments that compactions made, of those that are there."""
    made = {NAMES.value_segment(number) for report in reports for number in report.made}
    for each in objects.open(store, NAME).stat().segments:
        if each.segment in made:
            data = store.segment(each.segment).read(0, store.segment(each.segment).info().length)
            footer = data[each.length :]
            for found in headers_of(footer, each.length, where=each.segment):
                yield found.header.kind


def shown(store: siltstone.Store) -> list[object]:
    """All objects, by tag, and all terms."""
    films = objects.open(store, NAME)
    found: list[object] = [each for tag in TAGS for each in films.objects("b", tag=tag)]
    return found + [list(films.index("b", "f", tag=tag)) for tag in TAGS]


def check_nothing_left(folder: Path) -> None:
    """Nothing is damaged, and neither chunks lie there that no row names, nor pins."""
    assert not list((folder / "chunks" / PINS_PREFIX).glob("*"))
    with siltstone.open(folder) as store:
        store.flush()
        store.checkpoint()
        store.collect()
        assert [each for each in store.check() if each.severity != "warning"] == []
        found = list(objects.check(store, NAME, deep=True))
        assert [each for each in found if each.severity != "garbage"] == []


def test_rows_and_bytes_are_those_that_one_process_makes(
    folder: Path, filled: Path, tmp_path: Path, local: LocalExecutor
) -> None:
    executor = SeenItems(local)
    with siltstone.open(folder) as store:
        before = shown(store)
        reports = compacted(store, folder, executor)
        there = state(store)
        assert shown(store) == before
        kinds = set(made_kinds(store, reports))
    alone, here = compacted_alone(copytree(filled, tmp_path / "alone"))
    assert reports == alone
    assert there == here
    assert len([report for report in reports if report.made]) > 1
    assert {outcome.status for outcome in executor.outcomes} == {"ok"}
    assert kinds == {ValueKind.STANDARD, ValueKind.KEY_DELTA, ValueKind.TOMBSTONE}
    assert len(executor.outcomes) > 2 * sum(len(report.made) for report in reports)
    check_nothing_left(folder)


def test_progress_is_the_bytes_of_records_that_were_written(
    folder: Path, local: LocalExecutor
) -> None:
    told: list[tuple[int, int]] = []
    with siltstone.open(folder) as store:
        reports = list(
            compact_keyspace(
                folder / "siltstone.yaml",
                store,
                NAME,
                local,
                progress=lambda *done: told.append(done),
            )
        )
    assert told == sorted(told)
    whole = sum(report.kept_bytes for report in reports)
    assert told[-1] == (whole, whole)


@pytest.mark.parametrize("accept_loss", [False, True])
def test_what_workers_find_damaged_is_told_as_by_one_process(
    filled: Path, tmp_path: Path, local: LocalExecutor, accept_loss: bool
) -> None:
    damaged = copytree(filled, tmp_path / "damaged")
    paths = [path for path in (damaged / "chunks" / "data").rglob("*") if path.is_file()]
    (found,) = [path for path in paths if MARKED in path.read_bytes()]
    name = str(found.relative_to(damaged / "chunks"))
    flip(chunk_path(damaged, name), found.read_bytes().index(MARKED))
    folder, executor = copytree(damaged, tmp_path / "job"), SeenItems(local)
    with siltstone.open(folder) as store:
        reports = compacted(store, folder, executor, accept_loss=accept_loss)
        there = state(store)
    alone, here = compacted_alone(damaged, accept_loss=accept_loss)
    assert reports == alone
    assert there == here
    assert {outcome.status for outcome in executor.outcomes} == {"ok", "damaged"}
    dropped = [each.key for report in reports for each in report.dropped]
    assert dropped == (["marked"] if accept_loss else [])
    assert any(report.unreadable for report in reports) != accept_loss


class Late:
    """Does all work once more when that is asked for, as tasks do that were given up and run on.

    Args:
        executor: does the work.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._given: list[tuple[Work, list[Sequence[Item]]]] = []

    @property
    def workers(self) -> int:
        return self._executor.workers

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        kept = list(packs)
        self._given.append((work, kept))
        yield from self._executor.run(work, kept)

    def again(self) -> Iterator[ItemOutcome]:
        for work, packs in self._given:
            yield from self._executor.run(work, packs)

    def close(self) -> None:
        self._executor.close()


def test_what_a_task_writes_after_the_end_is_named_by_nothing_and_swept(
    folder: Path, local: LocalExecutor
) -> None:
    executor = Late(local)
    with siltstone.open(folder) as store:
        before = shown(store)
        compacted(store, folder, executor)
        assert {outcome.status for outcome in executor.again()} <= {"ok", "damaged"}
        assert shown(store) == before
        found = list(store.sweep(delete=True, all_epochs=True))
        assert {finding.kind for finding in found} == {"garbage"}
    check_nothing_left(folder)


class Scripted:
    """Passes work to an executor, and changes what it does.

    Args:
        executor: does the work.
        change: is given an outcome, and gives what becomes of it.
        begin: called before each job.
        twice: whether all is done once more first, as if a task was given up and ran on.
    """

    def __init__(
        self,
        executor: Executor,
        change: Callable[[ItemOutcome], ItemOutcome] = lambda one: one,
        begin: Callable[[], None] = lambda: None,
        *,
        twice: bool = False,
    ) -> None:
        self._executor = executor
        self._change = change
        self._begin = begin
        self._twice = twice

    @property
    def workers(self) -> int:
        return self._executor.workers

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        self._begin()
        kept = list(packs)
        if self._twice:
            list(self._executor.run(work, kept))
        yield from map(self._change, self._executor.run(work, kept))

    def close(self) -> None:
        self._executor.close()


def test_chunks_of_a_task_that_ran_twice_are_named_once_and_the_others_go(
    folder: Path, local: LocalExecutor
) -> None:
    with siltstone.open(folder) as store:
        before = shown(store)
        assert compacted(store, folder, Scripted(local, twice=True))[0].made
        assert shown(store) == before
    check_nothing_left(folder)


def test_what_a_worker_does_not_find_whole_the_owner_writes(
    folder: Path, filled: Path, tmp_path: Path, local: LocalExecutor
) -> None:
    """A chunk may have been merged since the plan; or the worker's disk is bad."""
    seen = 0

    def half(outcome: ItemOutcome) -> ItemOutcome:
        nonlocal seen
        seen += 1
        return replace(outcome, status=DAMAGED, detail=b"") if seen % 2 else outcome

    with siltstone.open(folder) as store:
        reports, there = compacted(store, folder, Scripted(local, half)), state(store)
    assert (reports, there) == compacted_alone(copytree(filled, tmp_path / "alone"))
    assert seen > 4
    check_nothing_left(folder)


def test_a_worker_that_cannot_write_ends_the_job_and_changes_nothing(
    folder: Path, filled: Path, tmp_path: Path, local: LocalExecutor
) -> None:
    def refused(outcome: ItemOutcome) -> ItemOutcome:
        return ItemOutcome(subject=outcome.subject, status=FAILED, message="no right to create")

    with siltstone.open(folder) as store:
        before = state(store)
        with pytest.raises(PipelineError, match="could not write values: no right to create"):
            compacted(store, folder, Scripted(local, refused))
        rows = space_names(NAME).ledger
        assert state(store) | {b"\x02".hex(): b""} == before | {b"\x02".hex(): b""}, rows
        reports = compacted(store, folder, local)
    assert [each.run for each in reports] == [
        each.run for each in compacted_alone(copytree(filled, tmp_path / "alone"))[0]
    ]
    check_nothing_left(folder)


def test_an_owner_that_lost_the_store_meanwhile_changes_nothing(
    folder: Path, local: LocalExecutor
) -> None:
    other: list[siltstone.Store] = []
    with siltstone.open(folder, read_only=True) as reader:
        before = shown(reader)
    with siltstone.open(folder) as store:
        executor = Scripted(
            local, begin=lambda: other.append(siltstone.open(folder, takeover=True))
        )
        with pytest.raises(siltstone.FencedError):
            compacted(store, folder, executor)
        with other[0] as owner:
            assert shown(owner) == before
            assert compacted(owner, folder, local)[0].made
            assert shown(owner) == before
    check_nothing_left(folder)


DIES = """
import os, sys, siltstone
from siltstone.pipelines.compact_keyspace import compact_keyspace
from siltstone.pipelines.local_executor import LocalExecutor

class Dies(LocalExecutor):
    def run(self, work, packs):
        for outcome in super().run(work, packs):
            assert outcome.status == "ok", outcome
        os._exit(9)

path, name, size = sys.argv[1:]
with siltstone.open(path) as store:
    list(compact_keyspace(path, store, name, Dies(2), item_bytes=int(size)))
"""
"""An owner that is killed when workers have written all and nothing is committed."""


def test_an_owner_that_was_killed_changed_nothing_and_the_next_one_goes_on(
    folder: Path, filled: Path, tmp_path: Path, local: LocalExecutor
) -> None:
    with siltstone.open(folder, read_only=True) as reader:
        before = shown(reader)
    line = [sys.executable, "-c", DIES, str(folder / "siltstone.yaml"), NAME, str(ITEM_BYTES)]
    assert subprocess.run(line, check=False).returncode == 9
    left = imported(folder)
    assert left
    with siltstone.open(folder) as store:
        assert shown(store) == before
        reports = compacted(store, folder, local)
        assert shown(store) == before
    alone, _ = compacted_alone(copytree(filled, tmp_path / "alone"))
    assert [report.run for report in reports] == [report.run for report in alone]
    assert left <= imported(folder)  # as long as the session of the dead owner may be committed
    real = time.time
    with (
        patch("siltstone.core.environment.time.time", lambda: real() + 2 * 86_400),
        siltstone.open(folder) as store,
    ):
        for _ in range(5):
            store.collect()
            store.flush()
    assert not left & imported(folder)
    remove_pins(folder)
    check_nothing_left(folder)


def remove_pins(folder: Path) -> None:
    """What an owner that ended holds would go by itself, after an hour."""
    for pin in (folder / "chunks" / PINS_PREFIX).glob("*"):
        pin.unlink()


def imported(folder: Path) -> set[Path]:
    """The chunks that import sessions brought, named by a segment or not."""
    found = (folder / "chunks" / import_prefix(0)).rglob("*")
    return {path for path in found if path.is_file()}


def test_a_job_that_is_interrupted_changes_nothing_and_a_repeat_goes_on(
    folder: Path, local: LocalExecutor
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with siltstone.open(folder) as store:
        before = shown(store)
        with pytest.raises(KeyboardInterrupt):
            compacted(store, folder, Scripted(local, begin=interrupt))
        assert shown(store) == before
    with siltstone.open(folder) as store:
        assert compacted(store, folder, local)[0].made
        assert shown(store) == before
    check_nothing_left(folder)


def test_puts_and_reads_go_on_while_workers_write(folder: Path, local: LocalExecutor) -> None:
    with siltstone.open(folder) as store:
        films = objects.open(store, NAME)

        def change() -> None:
            films.put("b", "kept3", b"newer")
            films.delete("b", "kept4")

        reports = compacted(store, folder, Scripted(local, begin=change))
        assert reports[0].made
        found = films.get("b", "kept3")
        assert found is not None
        assert found.value == b"newer"
        assert films.get("b", "kept4") is None
        assert len(list(films.keys("b", start="kept", end="keq"))) == 24
    check_nothing_left(folder)


def test_a_second_one_is_refused_while_one_runs(folder: Path, local: LocalExecutor) -> None:
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(objects.CompactionBusyError) as caught:
            objects.open(store, NAME).compact()
        refused.append(str(caught.value))

    with siltstone.open(folder) as store:
        assert compacted(store, folder, Scripted(local, begin=second))[0].made
    assert refused


def test_a_store_that_is_closed_meanwhile_ends_the_job(folder: Path, local: LocalExecutor) -> None:
    with siltstone.open(folder) as store:
        before = shown(store)
        with pytest.raises(ClosedError):
            compacted(store, folder, Scripted(local, begin=store.close))
    with siltstone.open(folder) as store:
        assert shown(store) == before
    remove_pins(folder)
    check_nothing_left(folder)


def test_workers_that_find_no_store_end_the_job_with_a_word_of_it(
    folder: Path, tmp_path: Path, local: LocalExecutor
) -> None:
    with siltstone.open(folder) as store:
        before = shown(store)
        with pytest.raises(StoreNotFoundError):
            list(compact_keyspace(tmp_path / "nowhere.yaml", store, NAME, local))
        assert shown(store) == before
    check_nothing_left(folder)


def test_a_reader_cannot_compact(folder: Path, local: LocalExecutor) -> None:
    with siltstone.open(folder, read_only=True) as store, pytest.raises(ReadOnlyError):
        compacted(store, folder, local)
