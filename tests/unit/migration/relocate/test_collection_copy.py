"""Collections are copied between stores, each as of one entry, whatever happens meanwhile."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.errors import (
    CollectionNotFoundError,
    SettingsError,
    SiltstoneError,
    StoreInUseError,
)
from siltstone.migration.relocate.collection_copy import (
    CollectionCopies,
    copy_collections,
    verify_collections,
)
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.store import store_assembly
from tests.support.collections.stored_objects import paths
from tests.support.collections.whole_histories import (
    SCHEMA,
    fill,
    histories_in,
    history,
    store_with_histories,
    table,
)
from tests.support.migration.backups import Died, Mortal, tmp_path
from tests.support.services.table_places import table_store
from tests.support.stores import flip

__all__ = ["tmp_path"]

pytestmark = pytest.mark.slow

EVERY = CollectionCopies()
LOAD = "load_chunk_storage"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return store_with_histories(tmp_path / "store")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A store without collections."""
    return siltstone.init(tmp_path / "target").parent


def copied(
    source: Path, target: Path, chosen: CollectionCopies = EVERY, executor: Any = None
) -> dict[str, str]:
    """What became of each collection."""
    run = executor or LocalExecutor(2)
    return {one.subject: one.status for one in copy_collections(source, target, run, chosen)}


BOTH = {"collection ages": "ok", "collection gusts": "ok"}
SAME = dict.fromkeys(BOTH, "same")


def test_a_copy_has_the_whole_history_and_goes_its_own_way(folder: Path, target: Path) -> None:
    before = history(folder)
    assert copied(folder, target) == BOTH
    assert history(target) == before
    assert copied(folder, target) == SAME
    with (
        siltstone.open_collections(folder) as old,
        siltstone.open_collections(target) as new,
    ):
        for name in before:
            one, other = old.collection(name), new.collection(name)
            assert one.info().id != other.info().id
            assert one.schema == other.schema
            assert (one.info().since, one.info().upper) == (other.info().since, other.info().upper)
            assert other.writer("loader").append(table(3_000, 4_000), sequence=7).repeated
        (mark,) = new.collection("gusts").info().bookmarks
        assert mark.name == "bill"
        assert mark.token != old.collection("gusts").info().bookmarks[0].token
        other.append([{"k": 5, "v": "new"}])
        other.compact()
        other.collect()
        assert one.info().readers == ()
    assert history(folder) == before
    assert {one.status for one in verify_collections(target, ["ages"], LocalExecutor(2))} == {"ok"}


def test_bookmarks_are_left_out_where_that_is_wanted(folder: Path, target: Path) -> None:
    chosen = CollectionCopies(names=["gusts"], bookmarks=False)
    assert copied(folder, target, chosen) == {"collection gusts": "ok"}
    with siltstone.open_collections(target) as collections:
        assert collections.list() == ["gusts"]
        assert collections.collection("gusts").info().bookmarks == ()


def test_what_is_there_is_never_changed(folder: Path, target: Path) -> None:
    with siltstone.open_collections(target) as collections:
        collections.create("ages", SCHEMA, key=["k"], times="count").append(table(0, 10))
    assert copied(folder, target) == {"collection ages": "conflict", "collection gusts": "ok"}
    with siltstone.open_collections(folder) as collections:
        collections.collection("gusts").append([{"k": 9, "v": "later"}])
    assert copied(folder, target)["collection gusts"] == "conflict"
    with siltstone.open_collections(target) as collections:
        assert collections.collection("ages").snapshot().to_arrow().num_rows == 10
        collections.rename("gusts", "gusts of yesterday")
        collections.drop("ages")
    assert copied(folder, target) == BOTH
    found, source = history(target), history(folder)
    assert found.keys() == {"ages", "gusts", "gusts of yesterday"}
    assert (found["ages"], found["gusts"]) == (source["ages"], source["gusts"])
    with siltstone.open_collections(target) as collections:
        collections.drop("gusts")
    assert copied(folder, target) == {"collection ages": "same", "collection gusts": "ok"}


def test_a_copy_is_of_one_entry_though_its_source_is_compacted(folder: Path, target: Path) -> None:
    before = history(folder)

    class Compacting(LocalExecutor):
        def run(self, work: Any, packs: Any) -> Any:
            with siltstone.open_collections(folder) as collections:
                for name in before:
                    one = collections.collection(name)
                    one.append([{"k": 77, "v": "later"}])
                    one.compact()
                    one.collect()
            return super().run(work, packs)

    assert copied(folder, target, executor=Compacting(2)) == BOTH
    assert history(target) == before


def test_damage_is_named_and_hides_no_other_collection(folder: Path, target: Path) -> None:
    with siltstone.open_collections(folder) as collections:
        harmed = paths(folder, "parts", collections.collection("ages").info().id)[0]
    flip(harmed, 500)
    (found,) = [
        one
        for one in copy_collections(folder, target, LocalExecutor(2), EVERY)
        if one.status != "ok"
    ]
    assert (found.subject, found.status) == ("collection ages", "damaged")
    assert harmed.name in found.message
    assert history(target).keys() == {"gusts"}


def test_a_store_is_not_copied_into_itself(folder: Path) -> None:
    with pytest.raises(SettingsError, match="into itself"):
        copied(folder, folder)


def test_a_name_that_is_not_there_is_refused(folder: Path, target: Path) -> None:
    with pytest.raises(CollectionNotFoundError, match="tides"):
        copied(folder, target, CollectionCopies(names=["ages", "tides"]))
    assert not (target / "chunks" / "collections").exists()
    assert copied(folder, target, CollectionCopies(prefix="g")) == {"collection gusts": "ok"}


def test_collections_go_into_a_table_of_an_owner_and_out_of_it_again(
    folder: Path, target: Path, tmp_path: Path
) -> None:
    """Into it while no process owns the store, out of it while its owner works."""
    before = history(folder)
    owned = table_store(tmp_path / "owned").parent
    with siltstone.open(owned), pytest.raises(StoreInUseError):
        copied(folder, owned)
    assert copied(folder, owned) == BOTH
    with siltstone.open(owned) as store, siltstone.open_collections(store) as collections:
        assert histories_in(collections) == before
        assert copied(owned, target) == BOTH
        assert history(target) == before
        collections.collection("ages").append([{"k": 1, "v": "and on"}])
    assert copied(owned, target)["collection ages"] == "conflict"


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("after", [False, True])
def test_a_copy_that_died_anywhere_is_repeated(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool, stride: int
) -> None:
    """Nothing that is half done has a name, and the next call makes the whole of it."""
    before = history(folder)
    whole = {"gusts": before["gusts"]}
    chosen = CollectionCopies(names=["gusts"])
    make, deaths = getattr(store_assembly, LOAD), 0
    for number in range(after, 60, stride):
        target = siltstone.init(tmp_path / f"target-{number}").parent
        mortal = Mortal(number, after=after)

        def load(*args: Any, target: Path = target, mortal: Mortal = mortal) -> Any:
            storage = make(*args)
            return mortal.wrap(storage) if str(target) in str(args) else storage

        with monkeypatch.context() as patch, suppress(Died, SiltstoneError):
            patch.setattr(store_assembly, LOAD, load)
            copied(folder, target, chosen, LocalExecutor(1))
        assert history(target) in ({}, whole), number
        assert copied(folder, target, chosen)["collection gusts"] in ("ok", "same")
        assert history(target) == whole, number
        if not mortal.dead:
            break
        deaths += 1
    assert deaths > 6 // stride


def test_a_table_that_has_collections_gets_more_of_them(folder: Path, tmp_path: Path) -> None:
    before = history(folder)
    owned = table_store(tmp_path / "owned", containers=3).parent
    with siltstone.open(owned) as store, siltstone.open_collections(store) as collections:
        fill(collections)
        collections.rename("ages", "old ages")
    assert copied(folder, owned) == {"collection ages": "ok", "collection gusts": "conflict"}
    with siltstone.open(owned) as store, siltstone.open_collections(store) as collections:
        assert histories_in(collections) == {
            "ages": before["ages"],
            "gusts": before["gusts"],
            "old ages": before["ages"],
        }
