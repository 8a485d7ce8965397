"""Backups have the collections of a store, each at one entry, and a restore brings them back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import siltstone
from siltstone.core.errors import (
    CorruptDataError,
    LostDataError,
    SiltstoneError,
    StoreError,
)
from siltstone.migration.backup.admin import collect_backups, remove_backups
from siltstone.migration.backup.create import create_backup
from siltstone.migration.backup.restore import restore_backup
from siltstone.migration.backup.verify import verify_backups
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.store import store_assembly
from siltstone.store.admin import place_settings, prefilled_init
from tests.support.collections.stored_objects import paths
from tests.support.collections.whole_histories import (
    SCHEMA,
    history,
    store_with_histories,
    table,
    updates_of,
)
from tests.support.migration.backups import Died, Mortal, files, tmp_path
from tests.support.stores import flip

__all__ = ["tmp_path"]

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return store_with_histories(tmp_path / "store")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def test_a_restored_store_has_each_collection_with_its_history(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    before = history(folder)
    report = create_backup(folder, place)
    assert report.backup.collections is not None
    assert (report.backup.collections.count, report.backup.collections.parts) == (2, 4)
    assert not report.has_left_collections
    assert verify_backups(place).findings == ()
    restore_backup(place, tmp_path / "new")
    assert history(tmp_path / "new") == before
    assert history(folder) == before
    with siltstone.open(tmp_path / "new") as store:
        assert store.segment("a").read(0, 5) == b"bytes"
    with (
        siltstone.open_collections(folder) as old,
        siltstone.open_collections(tmp_path / "new") as new,
    ):
        for name in ("ages", "gusts"):
            one, other = old.collection(name), new.collection(name)
            assert one.info().id != other.info().id
            assert one.schema == other.schema
            assert (one.info().since, one.info().upper) == (other.info().since, other.info().upper)
            assert other.writer("loader").append(table(3_000, 4_000), sequence=7).repeated
            upper = one.info().upper
            assert upper is not None
            assert other.append([{"k": 5, "v": "new"}]).upper == upper + 1


def test_what_was_taken_from_the_old_store_is_refused_in_the_new_one(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    with siltstone.open_collections(folder) as collections:
        gusts = collections.collection("gusts")
        old_mark = gusts.bookmark("bill")
        with gusts.snapshot(lease=True) as snapshot:
            (split, *_) = snapshot.splits()
        create_backup(folder, place)
    restore_backup(place, tmp_path / "new")
    with pytest.raises(StoreError):
        next(siltstone.read_split(tmp_path / "new", split))
    with siltstone.open_collections(tmp_path / "new") as collections:
        (mark,) = collections.collection("gusts").info().bookmarks
    assert (mark.name, mark.since) == ("bill", old_mark.since)
    assert mark.token != old_mark.token


def test_empty_and_finished_collections_are_restored_as_such(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    with siltstone.open_collections(folder) as collections:
        collections.create("empty", SCHEMA, key=["k"])
        collections.collection("ages").finish()
    create_backup(folder, place)
    restore_backup(place, tmp_path / "new")
    with siltstone.open_collections(tmp_path / "new") as collections:
        assert collections.list() == ["ages", "empty", "gusts"]
        assert collections.collection("empty").info().upper == 0
        ages = collections.collection("ages")
        assert ages.info().upper is None
        assert ages.snapshot().to_arrow().num_rows == 4_000
        collections.collection("empty").append([{"k": 1, "v": "first"}])


def test_only_new_objects_of_rows_are_copied(folder: Path, place: Path, tmp_path: Path) -> None:
    first = create_backup(folder, place)
    assert first.copied_fragments == 4
    assert create_backup(folder, place).copied_fragments == 0
    with siltstone.open_collections(folder) as collections:
        collections.collection("gusts").append(
            pyarrow.table({"k": range(9_000, 12_000), "v": ["y"] * 3_000})
        )
    assert create_backup(folder, place).copied_fragments == 1
    restore_backup(place, tmp_path / "new")
    assert history(tmp_path / "new") == history(folder)


def test_parts_that_are_replaced_while_they_are_copied_stay_until_then(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    """A compaction replaces all of them, and they are collected, after the plan."""
    before = history(folder)

    class Compacting(LocalExecutor):
        def run(self, work: Any, packs: Any) -> Any:
            with siltstone.open_collections(folder) as collections:
                for name in ("ages", "gusts"):
                    target = collections.collection(name)
                    target.append([{"k": 77, "v": "later"}])
                    target.compact()
                    target.collect()
            return super().run(work, packs)

    create_backup(folder, place, executor=Compacting())
    restore_backup(place, tmp_path / "new")
    assert history(tmp_path / "new") == before
    with siltstone.open_collections(folder) as collections:
        assert collections.collection("gusts").info().readers == ()


def test_what_no_generation_names_is_deleted_and_no_more(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    create_backup(folder, place)
    with siltstone.open_collections(folder) as collections:
        collections.drop("ages")
    create_backup(folder, place)
    assert collect_backups(place).count == 0
    remove_backups(place, [1])
    assert [len(found) for found in objects_of(place)] == [4, 2]
    collect_backups(place)
    assert [len(found) for found in objects_of(place)] == [2, 1]
    assert verify_backups(place).findings == ()
    restored = restore_backup(place, tmp_path / "new").backup
    assert not restored.has_left_collections, "one that was dropped is not left out"
    assert history(tmp_path / "new").keys() == {"gusts"}


def objects_of(place: Path) -> tuple[list[str], list[str]]:
    """Objects with rows, and those that say what collections a generation has."""
    names = [name for name in files(place) if "ollections" in name]
    return [name for name in names if "/parts/" in name], [n for n in names if "/files/" in n]


def test_a_damaged_object_of_rows_is_named_by_verify_and_refused_by_restore(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    create_backup(folder, place)
    harmed = sorted(place.rglob("collections/**/*.parquet.*"))[0]
    flip(harmed, 500)
    (finding,) = verify_backups(place).findings
    assert (finding.status, Path(finding.subject).name) == ("damaged", harmed.name)
    with pytest.raises(CorruptDataError):
        restore_backup(place, tmp_path / "new")
    harmed.unlink()
    assert [one.status for one in verify_backups(place).findings] == ["missing"]


@pytest.mark.parametrize("harm", [lambda path: flip(path, 500), Path.unlink])
def test_a_store_that_lacks_rows_is_refused_or_said_to(
    folder: Path, place: Path, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    harmed = paths(folder, "parts")[0]
    harm(harmed)
    with pytest.raises(CorruptDataError) as refused:
        create_backup(folder, place)
    assert str(refused.value.where).endswith(harmed.name)
    report = create_backup(folder, place, allow_missing=True)
    assert [name.rpartition("/")[2] for name in report.missing] == [harmed.name]
    with pytest.raises(StoreError):
        restore_backup(place, tmp_path / "new")
    restore_backup(place, tmp_path / "new", allow_missing=True)
    with siltstone.open_collections(tmp_path / "new") as collections:
        results = []
        for name in ("ages", "gusts"):
            try:
                results.append(collections.collection(name).snapshot().to_arrow().num_rows)
            except LostDataError:
                results.append(None)
    assert sorted(results, key=str) == [4_000, None]


def test_a_collection_that_cannot_be_read_hides_no_other(
    folder: Path, place: Path, tmp_path: Path
) -> None:
    with siltstone.open_collections(folder) as collections:
        one = collections.collection("ages").info().id
    for path in paths(folder, "entries", one):
        flip(path, 60)
    with pytest.raises(CorruptDataError):
        create_backup(folder, place)
    report = create_backup(folder, place, allow_missing=True)
    assert list(report.missing) == ["collection ages"]
    assert report.has_left_collections
    restore_backup(place, tmp_path / "new")
    assert history(tmp_path / "new").keys() == {"gusts"}


def test_a_backup_of_one_container_says_that_it_has_no_collections(
    folder: Path, place: Path
) -> None:
    report = create_backup(folder, place, containers=[0])
    assert (report.backup.collections, report.has_left_collections) == (None, True)


def dying(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, mortal: Mortal
) -> Callable[[], None]:
    make = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args: mortal.wrap(make(*args)))
    return lambda: monkeypatch.setattr(module, name, make)


@pytest.mark.parametrize("after", [False, True])
def test_a_restore_that_died_anywhere_continues(
    folder: Path,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    after: bool,
) -> None:
    before = history(folder)
    create_backup(folder, place)
    target = tmp_path / "new"
    deaths = 0
    for number in range(0, 120, 2):
        mortal = Mortal(number, after=after)
        ends = [
            dying(monkeypatch, store_assembly, "load_chunk_storage", mortal),
            dying(monkeypatch, prefilled_init, "storage_at", mortal),
        ]
        try:
            restore_backup(place, target, executor=LocalExecutor(1))
        except (Died, SiltstoneError):
            deaths += 1
        for alive in ends:
            alive()
        if (target / "siltstone.yaml").exists():
            break
    assert deaths > 5
    assert history(target) == before


@pytest.mark.parametrize("after", [False, True])
def test_a_backup_that_died_anywhere_is_made_by_the_next_call(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    before = history(folder)
    for number in range(0, 40, 3):
        place = tmp_path / f"backups-{number}"
        mortal = Mortal(number, after=after)
        alive = dying(monkeypatch, place_settings, "load_chunk_storage", mortal)
        died = False
        try:
            create_backup(folder, place)
        except (Died, SiltstoneError):
            died = True
        alive()
        create_backup(folder, place, takeover=True)
        assert verify_backups(place).findings == ()
        restore_backup(place, tmp_path / f"new-{number}")
        assert history(tmp_path / f"new-{number}") == before
        if not died:
            break
    else:
        pytest.fail("each one died")


def test_collections_in_a_table_of_the_owner_are_backed_up_while_it_works(
    tmp_path: Path, place: Path
) -> None:
    """Objects of rows that the backup has planned to copy are replaced, and would be deleted."""
    folder = siltstone.init(tmp_path / "owned").parent
    with (folder / "siltstone.yaml").open("a", encoding="utf-8") as file:
        file.write("\ngarbage: {delay: 0s}\ncollections: {consensus: table, compaction: off}\n")
    with siltstone.open(folder) as store, siltstone.open_collections(store) as collections:
        gusts = collections.create("gusts", SCHEMA, key=["k"], times="count")
        gusts.append(table(0, 3_000))
        gusts.append([{"k": 1, "v": "x"}], remove=[{"k": 2, "v": "row 2"}])
        gusts.bookmark("bill")
        before = updates_of(gusts)

        class Compacting(LocalExecutor):
            def run(self, work: Any, packs: Any) -> Any:
                gusts.append(table(3_000, 6_000))
                gusts.compact()
                assert gusts.collect() == 0, "the backup keeps them"
                assert collections.sweep() == 0
                return super().run(work, packs)

        report = create_backup(folder, place, executor=Compacting())
        assert report.backup.collections is not None
        assert report.backup.collections.parts == 1
        assert gusts.collect() > 0, "it keeps them no longer"
        old_id = gusts.info().id
    restore_backup(place, tmp_path / "new")
    assert history(tmp_path / "new") == {"gusts": before}
    with siltstone.open_collections(tmp_path / "new") as collections:
        gusts = collections.collection("gusts")
        assert gusts.info().id != old_id
        assert [mark.name for mark in gusts.info().bookmarks] == ["bill"]
