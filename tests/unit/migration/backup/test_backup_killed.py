"""A process that makes, collects or restores backups may die at any change of storage.

Injected: the death at the n-th create, write or delete in the place of backups, or in the new
store's long-term storage, before it, in the middle or after it; nothing works afterwards.
Must hold: what is listed is whole, what was whole stays so, and the same call again succeeds.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import KIB
from siltstone.core.errors import StoreInUseError
from siltstone.core.records.backup import Backup
from siltstone.migration.backup.admin import (
    backups_of,
    collect_backups,
    list_backups,
    remove_backups,
)
from siltstone.migration.backup.create import BackupReport, create_backup
from siltstone.migration.backup.place import BackupPlace
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.store import store_assembly
from siltstone.store.admin import place_settings, prefilled_init
from siltstone.store.admin import place_turns as lease
from siltstone.store.admin.place_turns import turn
from siltstone.store.store import open_store
from tests.support.migration.backups import (
    Died,
    Mortal,
    content,
    content_of,
    files,
    noise,
    tmp_path,
)
from tests.support.stores import make_store

__all__ = ["tmp_path"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", chunk_bytes=16 * KIB, containers=1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def dying(
    monkeypatch: pytest.MonkeyPatch, where: tuple[object, str], mortal: Mortal
) -> Callable[[], None]:
    """Let storages that ``where`` makes die with ``mortal``; return a call that ends this."""
    module, name = where
    make = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: mortal.wrap(make(*args)))
    return lambda: monkeypatch.setattr(module, name, make)


PLACE = (place_settings, "load_chunk_storage")


@pytest.mark.slow
@pytest.mark.parametrize("behind", [False, True])
def test_a_backup_that_died_anywhere_is_not_listed_and_continues(
    folder: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: bool
) -> None:
    with siltstone.open(folder) as store:
        for name in ("a", "b"):
            store.create(name).append(noise(20_000))
        store.flush()
        create_backup(folder, place)
        first = content(store)
        store.segment("a").append(noise(20_000))
        store.flush()
        store.segment("b").append(b"tail")
        last = content(store)
        for number in itertools.count():
            mortal = Mortal(number, after=behind)
            alive = dying(monkeypatch, PLACE, mortal)
            with suppress(Died):
                create_backup(folder, place, executor=LocalExecutor(1), takeover=True)
            alive()
            listed = [found for found in list_backups(place) if found.number > 1]
            # A listed backup is whole, although one of its two records may be missing.
            assert {found.subject.split("/")[2] for found in verify_backups(place).findings} <= {
                "generations"
            }
            if listed:
                break
        assert number > 5
        report = create_backup(folder, place, takeover=True)
        assert report.copied_fragments == 0
    collect_backups(place)
    restore_backup(place, tmp_path / "new")
    assert content_of(tmp_path / "new") == last
    restore_backup(place, tmp_path / "old", 1)
    assert content_of(tmp_path / "old") == first


@pytest.mark.slow
def test_a_collection_that_died_anywhere_took_nothing_that_is_named(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with siltstone.open(folder) as store:
        for name in ("a", "b", "c"):
            store.create(name).append(noise(20_000))
            store.flush()
            create_backup(folder, place)
            store.segment(name).delete()
    number = 0
    while files(place):
        for work in (
            lambda: remove_backups(
                place, [found.number for found in list_backups(place)][:1], takeover=True
            ),
            lambda: collect_backups(place, takeover=True),
        ):
            mortal = Mortal(number % 7, after=bool(number % 2))
            alive = dying(monkeypatch, PLACE, mortal)
            with suppress(Died):
                work()
            alive()
            number += 1
            if files(place):
                assert {
                    found.subject.split("/")[2] for found in verify_backups(place).findings
                } <= {"generations"}
    assert number > 4


@pytest.mark.slow
@pytest.mark.parametrize("behind", [False, True])
def test_a_restore_that_died_anywhere_continues(
    folder: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: bool
) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(noise(20_000))
        store.flush()
        store.create("b").append(noise(10_000))
        expected = content(store)
        create_backup(folder, place)
    target = tmp_path / "new"
    for number in range(40):
        mortal = Mortal(number // 2 if behind else number, after=behind)
        ends = [
            dying(monkeypatch, (store_assembly, "load_chunk_storage"), mortal),
            dying(monkeypatch, (prefilled_init, "storage_at"), mortal),
        ]
        try:
            restore_backup(place, target, executor=LocalExecutor(1))
        except Died:
            assert not (target / "siltstone.yaml").exists()
        for alive in ends:
            alive()
        if (target / "siltstone.yaml").exists():
            break
    assert number > 3
    # A sweep finds the remains of the attempts.
    assert content_of(target, fine=("warning", "garbage")) == expected


def test_one_at_a_time_works_in_a_place(folder: Path, place: Path) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"a")
    create_backup(folder, place)
    with backups_of(place, None) as opened, turn(opened, takeover=False) as taken:
        for work in (
            lambda: create_backup(folder, place),
            lambda: collect_backups(place),
            lambda: remove_backups(place, [1]),
        ):
            with pytest.raises(StoreInUseError, match=f"pid={os.getpid()}"):
                work()
        taken.check()
        assert create_backup(folder, place, takeover=True).backup.generation == 3
        with pytest.raises(StoreInUseError, match="taken over"):
            taken.check()
    assert [found.number for found in list_backups(place)] == [1, 3]
    assert not [name for name in files(place) if "/turns/" in name]


@pytest.mark.slow
def test_a_backup_whose_turn_went_before_its_record_came_is_none(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_backup(folder, place)
    with siltstone.open(folder) as store:
        store.create("a").append(noise(50_000))
        store.flush()
    state = BackupPlace.state

    def late(self: BackupPlace, backup: Backup) -> None:
        # It was paused after its last look: for a newer holder, unnamed objects are garbage.
        assert collect_backups(place, takeover=True).count > 0
        state(self, backup)

    with monkeypatch.context() as patch:
        patch.setattr(BackupPlace, "state", late)
        with pytest.raises(StoreInUseError, match="taken over"):
            create_backup(folder, place)
    assert [found.number for found in list_backups(place)] == [1]
    create_backup(folder, place)
    assert verify_backups(place).findings == ()


@pytest.mark.slow
def test_a_collection_that_lost_its_turn_takes_nothing_of_the_next_one(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_backup(folder, place)
    lengths = BackupPlace.lengths
    made: list[int] = []

    def late(self: BackupPlace, kind: str) -> dict[str, int]:
        # Objects of a generation that was made after the look at what generations name.
        if not made:
            made.append(1)
            made.append(create_backup(folder, place, takeover=True).backup.generation)
        return lengths(self, kind)

    with siltstone.open(folder) as store, monkeypatch.context() as patch:
        store.create("a").append(noise(50_000))
        store.flush()
        patch.setattr(BackupPlace, "lengths", late)
        with pytest.raises(StoreInUseError, match="taken over"):
            collect_backups(place)
    assert [found.number for found in list_backups(place)] == [1, made[1]]
    assert verify_backups(place).findings == ()


def test_the_beginning_of_a_record_is_no_generation_and_is_collected(
    folder: Path, place: Path
) -> None:
    create_backup(folder, place)
    create_backup(folder, place)
    with backups_of(place, None) as opened:
        copy, record = opened._generations._records(2)
    (place / record).unlink()
    (place / copy).write_bytes((place / copy).read_bytes()[:50])
    assert [found.number for found in list_backups(place)] == [1]
    collect_backups(place, dry_run=True)
    assert (place / copy).exists()
    collect_backups(place)
    assert not (place / copy).exists()
    assert verify_backups(place).generations == (1,)


def test_a_turn_that_was_had_meanwhile_makes_no_second_generation_of_its_number(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One backup is paused before its claim while another one makes a whole generation."""
    made: list[BackupReport] = []
    described = lease._this_process

    def meanwhile() -> str:
        monkeypatch.undo()
        made.append(create_backup(folder, place))
        return described()

    monkeypatch.setattr(lease, "_this_process", meanwhile)
    with pytest.raises(StoreInUseError, match="faster"):
        create_backup(folder, place)
    assert [one.backup for one in list_backups(place)] == [made[0].backup]
    assert create_backup(folder, place).backup.generation == 2


@pytest.mark.slow
def test_a_turn_of_a_dead_process_needs_no_takeover(
    folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_backup(folder, place)
    child = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        check=True,
        capture_output=True,
        text=True,
    )
    owner = lease._this_process().replace(f"pid={os.getpid()}", f"pid={child.stdout.strip()}")
    with backups_of(place, None) as opened, monkeypatch.context() as patch:
        patch.setattr(lease, "_this_process", lambda: owner)
        with turn(opened, takeover=False):
            patch.undo()
            assert create_backup(folder, place).backup.generation == 3
            other = owner.replace("machine=", "machine=another")
            patch.setattr(lease, "_this_process", lambda: other)
            with turn(opened, takeover=False):
                patch.undo()
                with pytest.raises(StoreInUseError, match="machine=another"):
                    create_backup(folder, place)


def _rounds(folder: Path, place: Path, tmp_path: Path, count: int, seed: int) -> None:
    """Kill the command again and again; the store continues in between."""
    chance = random.Random(seed)
    command = [sys.executable, "-m", "siltstone", "-q", "--store", str(folder)]
    kept = {}
    with open_store(folder) as store:
        store.create("a")
        for _ in range(count):
            store.segment("a").append(noise(chance.randrange(1, 200_000)))
            if chance.random() < 0.5:
                store.flush()
            process = subprocess.Popen(
                [*command, "backup", "create", str(place), "--rate", "300KiB", "--threads", "1"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            try:
                process.wait(chance.uniform(0.3, 3.0))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            _, told = process.communicate()
            assert process.returncode in (0, -signal.SIGKILL), told
            if process.returncode == 0:
                kept[list_backups(place)[-1].number] = content(store)
            if place.exists() and files(place):
                assert {f.subject.split("/")[2] for f in verify_backups(place).findings} <= {
                    "generations"
                }
        report = create_backup(folder, place)
        kept[report.backup.generation] = content(store)
    collect_backups(place)
    assert {f.status for f in verify_backups(place).findings} <= {"missing"}
    for number, expected in list(kept.items())[-3:]:
        restore_backup(place, tmp_path / f"new{number}", number)
        assert content_of(tmp_path / f"new{number}") == expected, f"seed {seed}"


@pytest.mark.slow
def test_the_command_is_killed(folder: Path, place: Path, tmp_path: Path) -> None:
    _rounds(folder, place, tmp_path, 2, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_the_command_is_killed_again_and_again(
    folder: Path, place: Path, tmp_path: Path, seed: int
) -> None:
    _rounds(folder, place, tmp_path, 30, seed)
