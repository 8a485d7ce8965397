"""Backups and restores by tasks: tried twice, alive after they were given up, on other machines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.constants import KIB
from siltstone.core.errors import (
    SettingsError,
    StoreError,
    StoreInUseError,
    StoreNotFoundError,
)
from siltstone.migration.backup.admin import list_backups
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.fragment_copy import OCCUPIED
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub import DAMAGED
from siltstone.pipelines.work import Item, ItemOutcome, PipelineError, Work
from tests.support.migration.backups import content, content_of, files, noise
from tests.support.stores import make_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with some chunks of 64 KiB, closed."""
    made = make_store(tmp_path / "store", chunk_bytes=64 * KIB, containers=1)
    with siltstone.open(made) as store:
        store.create("a").append(noise(300 * KIB))
        store.flush()
    return made


class Tried:
    """Runs all its work twice; ``seen`` is called after each attempt."""

    workers = 2

    def __init__(self, *, use: int, seen: Callable[[], None] = lambda: None) -> None:
        self.use = use
        self.seen = seen
        self.rounds = 0

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        self.rounds += 1
        kept = [list(pack) for pack in packs]
        tries = [list(LocalExecutor(2).run(work, kept))]
        self.seen()
        tries.append(list(LocalExecutor(2).run(work, kept)))
        self.seen()
        yield from tries[self.use]

    def close(self) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("use", [0, 1])
def test_tasks_that_run_twice_make_one_whole_backup(folder: Path, tmp_path: Path, use: int) -> None:
    place = tmp_path / "backups"
    stood: list[dict[Path, int]] = []

    def look() -> None:
        stood.append({path: path.stat().st_ino for path in place.rglob("*.chunk.*")})

    executor = Tried(use=use, seen=look)
    if use == 1:
        # Each time, the driver removes the remains of the attempt whose outcomes it never heard.
        with pytest.raises(PipelineError, match="another program writes to the place"):
            create_backup(folder, place, executor=executor)
        assert executor.rounds == 3
        executor = Tried(use=0, seen=look)
    report = create_backup(folder, place, executor=executor)
    assert report.copied_fragments + report.found_fragments == 5
    # A second attempt, which may live on after the first one counts, leaves every object alone.
    for before, after in zip(stood[::2], stood[1::2], strict=True):
        assert before == after
    assert verify_backups(place).findings == ()
    restore_backup(place, tmp_path / "new")
    with siltstone.open(folder) as store:
        expected = content(store)
    assert content_of(tmp_path / "new") == expected


class Halves:
    """Leaves half an object for each fragment, as a killed task does; then works."""

    workers = 2

    def __init__(self, place: Path) -> None:
        self.place = place
        self.rounds = 0

    def run(self, work: Work, packs: Iterable[Sequence[Any]]) -> Generator[ItemOutcome]:
        kept = [list(pack) for pack in packs]
        self.rounds += 1
        if self.rounds == 1:
            for item in (item for pack in kept for item in pack):
                path = self.place / item.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"half")
        yield from LocalExecutor(2).run(work, kept)

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_what_a_killed_task_left_is_copied_again(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    executor = Halves(place)
    steps: list[tuple[int, int]] = []
    report = create_backup(
        folder, place, executor=executor, progress=lambda done, total: steps.append((done, total))
    )
    assert (executor.rounds, report.copied_fragments, report.found_fragments) == (2, 5, 0)
    assert steps[-1] == (300 * KIB, 300 * KIB)
    assert verify_backups(place).findings == ()


class Overtaken:
    """Returns outcomes only after another driver took the turn and made a whole generation."""

    workers = 2

    def __init__(self, folder: Path, place: Path, status: str) -> None:
        self.folder = folder
        self.place = place
        self.status = status

    def run(self, work: Work, packs: Iterable[Sequence[Any]]) -> Generator[ItemOutcome]:
        names = [item.name for pack in packs for item in pack]
        assert create_backup(self.folder, self.place, takeover=True).copied_fragments == len(names)
        yield from (ItemOutcome(subject=name, status=self.status, message="no") for name in names)

    def close(self) -> None:
        pass


@pytest.mark.slow
@pytest.mark.parametrize("status", [OCCUPIED, DAMAGED])
def test_a_driver_whose_turn_was_taken_deletes_nothing_of_the_next_one(
    folder: Path, tmp_path: Path, status: str
) -> None:
    place = tmp_path / "backups"
    with pytest.raises(StoreInUseError, match="taken over"):
        create_backup(folder, place, executor=Overtaken(folder, place, status))
    assert [found.number for found in list_backups(place)] == [2]
    assert verify_backups(place).findings == ()


class Elsewhere:
    """Gives workers other work than the driver meant, as another machine may do."""

    workers = 2

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def run(self, work: Work, packs: Iterable[Sequence[Item]]) -> Generator[ItemOutcome]:
        yield from LocalExecutor(2).run(self.change(work), packs)

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_a_worker_that_sees_another_place_or_store_begins_nothing(
    folder: Path, tmp_path: Path
) -> None:
    place, own = tmp_path / "backups", tmp_path / "a folder of that machine"
    own.mkdir()
    other = make_store(tmp_path / "other", containers=1)
    with siltstone.open(other):
        pass

    def at(path: Path) -> Elsewhere:
        return Elsewhere(lambda work: replace(work, place=replace(work.place, path=str(path))))

    before = files(own)
    with pytest.raises(SettingsError, match="not the place that the job works in"):
        create_backup(folder, place, executor=at(own))
    with pytest.raises(SettingsError, match="there is no such folder"):
        create_backup(folder, place, executor=at(tmp_path / "nothing"))
    wrong = Elsewhere(lambda work: replace(work, store=str(other / "siltstone.yaml")))
    with pytest.raises(StoreError, match="another store"):
        create_backup(folder, place, executor=wrong)
    assert files(own) == before
    assert list(place.rglob("*.chunk.*")) == []
    create_backup(folder, place)
    with pytest.raises(SettingsError, match="not the place that the job works in"):
        verify_backups(place, executor=at(own))
    assert [one.number for one in list_backups(place)] == [1]


def chunks_of(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in (folder / "chunks" / "data").rglob("*.chunk")}


@pytest.mark.slow
@pytest.mark.parametrize("use", [0, 1])
def test_tasks_that_run_twice_make_one_whole_store(folder: Path, tmp_path: Path, use: int) -> None:
    place, new = tmp_path / "backups", tmp_path / "new"
    create_backup(folder, place)
    stood: list[dict[Path, int]] = []
    executor = Tried(use=use, seen=lambda: stood.append(chunks_of(new)))
    if use == 1:
        # Each time, the driver removes the remains of the attempt whose outcomes it never heard.
        with pytest.raises(PipelineError, match="another program writes to the new place"):
            restore_backup(place, new, executor=executor)
        assert executor.rounds == 3
        assert not (new / "siltstone.yaml").exists()
        executor = Tried(use=0, seen=lambda: stood.append(chunks_of(new)))
    report = restore_backup(place, new, executor=executor)
    assert report.chunks + report.found == 5
    # A second attempt, which may live on after the first one counts, leaves every chunk alone.
    for before, after in zip(stood[::2], stood[1::2], strict=True):
        assert before == after
    assert not list((new / "chunks" / "system").glob("store-*"))
    with siltstone.open(folder) as store:
        expected = content(store)
    assert content_of(new) == expected


@pytest.mark.slow
def test_what_a_killed_task_left_of_a_store_is_brought_again(folder: Path, tmp_path: Path) -> None:
    place, new = tmp_path / "backups", tmp_path / "new"
    create_backup(folder, place)
    executor = Halves(new / "chunks")
    steps: list[tuple[int, int]] = []
    report = restore_backup(
        place, new, executor=executor, progress=lambda done, total: steps.append((done, total))
    )
    assert (executor.rounds, report.chunks, report.found) == (2, 5, 0)
    assert steps[-1] == (300 * KIB, 300 * KIB)
    with siltstone.open(folder) as store:
        expected = content(store)
    assert content_of(new) == expected


@pytest.mark.slow
def test_a_worker_that_sees_another_new_place_brings_nothing(folder: Path, tmp_path: Path) -> None:
    place, other = tmp_path / "backups", tmp_path / "other"
    create_backup(folder, place)
    restore_backup(place, other)
    wrong = Elsewhere(lambda work: replace(work, target=str(other / "siltstone.yaml")))
    before = files(other)
    with pytest.raises(StoreNotFoundError, match="system/store-copy"):
        restore_backup(place, tmp_path / "new", executor=wrong)
    own = tmp_path / "a folder of that machine"
    own.mkdir()
    wrong = Elsewhere(lambda work: replace(work, place=replace(work.place, path=str(own))))
    with pytest.raises(SettingsError, match="not the place that the job works in"):
        restore_backup(place, tmp_path / "new", executor=wrong)
    assert (files(other), files(own)) == (before, {})
    assert restore_backup(place, tmp_path / "new").chunks == 5
