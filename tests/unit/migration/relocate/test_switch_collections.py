"""A switch brings the collections of a store along, and no process appends at two places.

Injected: processes that have the old place open and append at any moment; deaths at each call that
changes storage. Must hold: what was acknowledged is at the new place, in one history.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.collections import async_collections, catalog, moves
from siltstone.collections.blocking import Collection
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    CollectionMovedError,
    CorruptDataError,
    OutcomeUnknownError,
    SettingsError,
    SiltstoneError,
    StoreNotFoundError,
)
from siltstone.migration.relocate import switch
from siltstone.migration.relocate.settings import BEFORE
from siltstone.migration.relocate.switch import copy_storage, switch_storage
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.store.admin.place_objects import delete
from siltstone.store.store_assembly import open_storage
from tests.support.collections.stored_objects import paths
from tests.support.collections.whole_histories import (
    SCHEMA,
    fill,
    histories_in,
    history,
    store_with_histories,
    table,
    updates_of,
)
from tests.support.migration.backups import Died, Mortal, tmp_path
from tests.support.migration.moved_store import moved_settings
from tests.support.services.table_places import table_store
from tests.support.stores import flip

__all__ = ["tmp_path"]

pytestmark = pytest.mark.slow

STEPS_MAX = 100
"""Far more than a switch takes."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return store_with_histories(tmp_path / "store")


@pytest.fixture
def new(folder: Path) -> Path:
    """The settings file of the new place, a folder."""
    return moved_settings(folder, "new.yaml", folder / "elsewhere")


def switch_back(folder: Path) -> None:
    """Let the store continue where it was before."""
    old = folder / "old.yaml"
    (folder / f"siltstone.yaml{BEFORE}").rename(old)
    switch_storage(folder, old)


def is_clean(folder: Path) -> bool:
    """Whether a sweep leaves nothing that never counts, and nothing is missing."""
    with siltstone.open_collections(folder) as collections:
        collections.sweep()
        return list(collections.check(deep=True)) == []


def append(collection: Collection, key: int) -> None:
    collection.append([{"k": key, "v": "late"}])


def test_collections_go_on_at_another_place_and_back_again(folder: Path, new: Path) -> None:
    before = history(folder)
    with siltstone.open_collections(folder) as collections:
        gusts = collections.collection("gusts")
        info = gusts.info()
        with gusts.snapshot(lease=True) as snapshot:
            splits = snapshot.splits()
    report = switch_storage(folder, new)
    assert report.copied > 4
    assert history(folder) == before
    assert is_clean(folder)
    assert sum(t.num_rows for one in splits for t in siltstone.read_split(folder, one)) == 4_000
    for number in range(3):
        with siltstone.open_collections(folder) as collections:
            gusts = collections.collection("gusts")
            assert (gusts.info().id, gusts.info().bookmarks) == (info.id, info.bookmarks)
            assert gusts.writer("loader").append(table(3_000, 4_000), sequence=7).repeated
            append(gusts, 7_000 + number)
            gusts.append(table(9_000 + number, 11_000))
            gusts.compact()
            gusts.collect()
            collections.create(f"of place {number}", SCHEMA, key=["k"]).append(table(0, 10))
        before = history(folder)
        switch_back(folder)
        assert history(folder) == before
        with siltstone.open_collections(folder) as collections:
            assert list(collections.check()) == [], "nothing is left of the time before"
        assert is_clean(folder)
    assert len(before) == 5


def test_objects_of_rows_are_copied_before_and_only_the_rest_at_the_switch(
    folder: Path, new: Path
) -> None:
    first = copy_storage(folder, new)
    assert not first.has_left_collections
    assert copy_storage(folder, new).copied == 0
    with siltstone.open_collections(folder) as collections:
        for name in ("ages", "gusts"):
            collections.collection(name).append(table(4_000, 8_000))
        collections.collection("ages").compact()
    before = history(folder)
    assert 0 < switch_storage(folder, new).copied < first.copied + 8
    assert history(folder) == before
    named = {path.name for path in paths(folder, "parts")}
    stored = {path.name for path in (folder / "elsewhere").rglob("*.parquet")}
    assert named, "the old place keeps its objects"
    assert len(stored) == 4, "those that no state needs are not at the new place"


def test_who_has_the_old_place_open_can_neither_change_nor_miss_anything(
    folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It appends at the last moments, among them after the old place lost its name."""
    with siltstone.open_collections(folder) as collections:
        handles = {name: collections.collection(name) for name in ("ages", "gusts")}
        real = moves.moved_away

        def away(place: Any) -> Any:
            for handle in handles.values():
                handle.append(table(5_000, 8_000))
                append(handle, 77)
            return real(place)

        monkeypatch.setattr(moves, "moved_away", away)
        switch_storage(folder, new)
        for handle in handles.values():
            for change in (
                lambda handle=handle: append(handle, 78),
                lambda handle=handle: handle.bookmark("mine"),
                lambda handle=handle: handle.snapshot(lease=True),
                lambda handle=handle: handle.writer("loader").append(table(0, 1), sequence=8),
            ):
                with pytest.raises(CollectionMovedError, match="with its new settings"):
                    change()
            handle.collect()
        for verb in (
            lambda: collections.create("tides", SCHEMA, key=["k"]),
            lambda: collections.drop("ages"),
            lambda: collections.rename("ages", "years"),
        ):
            with pytest.raises(CollectionMovedError):
                verb()
        collections.sweep()
    found = history(folder)
    assert found.keys() == {"ages", "gusts"}
    assert all((row[1], row[2]) != (78, "late") for row in found["ages"])
    assert all([row[1] for row in rows].count(7_999) == 1 for rows in found.values())
    assert all(rows[-1][1:3] == (77, "late") for rows in found.values())


def test_who_held_the_old_place_open_all_the_time_goes_on_when_the_store_is_back(
    folder: Path, new: Path
) -> None:
    """It knows entries that the place has no more, and some that never counted."""
    with (
        siltstone.open_collections(folder) as first,
        siltstone.open_collections(folder) as second,
    ):
        known, unaware = first.collection("ages"), second.collection("ages")
        leases = [known.snapshot(lease=True) for _ in range(9)]
        switch_storage(folder, new)
        with pytest.raises(CollectionMovedError):
            append(known, 1)
        for lease in leases:
            lease.close()  # This makes an entry at the old place, which counts nowhere else.
        with siltstone.open_collections(folder) as collections:
            append(collections.collection("ages"), 5_001)
        switch_back(folder)
        append(known, 5_002)
        row = [{"k": 5_003, "v": "late"}]
        assert not unaware.writer("loader").append(row, sequence=8).repeated
        assert unaware.writer("loader").append(row, sequence=8).repeated
        assert updates_of(known) == updates_of(unaware)
    assert [row[1] for row in history(folder)["ages"]][-3:] == [5_001, 5_002, 5_003]
    assert is_clean(folder)


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("after", [False, True])
def test_a_switch_that_died_anywhere_is_repeated_and_loses_no_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool, stride: int
) -> None:
    """A process appends through a handle that it had before, after each death."""
    moved = 0
    for number in range(3 * after, STEPS_MAX, stride):
        folder = small_store(tmp_path / f"store-{number}")
        new = moved_settings(folder, "new.yaml", folder / "elsewhere")
        mortal = Mortal(number, after=after)
        with siltstone.open_collections(folder) as collections:
            ages = collections.collection("ages")
            with dying_by(mortal, monkeypatch):
                switch_storage(folder, new, executor=LocalExecutor(1))
            late = has_appended(ages, 1)
        moved += not late
        switch_storage(folder, new)
        assert keys_of(folder) == [*range(601), *[5_001] * late], number
        assert is_clean(folder)
        if not mortal.dead:
            break
    else:
        pytest.fail("it never came to its end")
    assert moved > 1


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("after", [False, True])
def test_a_switch_back_that_died_anywhere_is_repeated_and_loses_no_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool, stride: int
) -> None:
    """Two processes append after each death: one had the first place open, one the second."""
    late: list[list[int]] = []
    for number in range(3 * after, STEPS_MAX, stride):
        folder = small_store(tmp_path / f"store-{number}")
        new, old = moved_settings(folder, "new.yaml", folder / "elsewhere"), folder / "old.yaml"
        mortal = Mortal(number, after=after)
        with siltstone.open_collections(folder) as before:
            first = before.collection("ages")
            switch_storage(folder, new)
            (folder / f"siltstone.yaml{BEFORE}").rename(old)
            with siltstone.open_collections(folder) as meanwhile:
                second = meanwhile.collection("ages")
                with dying_by(mortal, monkeypatch):
                    switch_storage(folder, old, executor=LocalExecutor(1))
                late.append([5_002] * has_appended(second, 2) + [5_001] * has_appended(first, 1))
                switch_storage(folder, old)
        assert keys_of(folder) == [*range(601), *late[-1]], number
        assert is_clean(folder)
        if not mortal.dead:
            break
    else:
        pytest.fail("it never came to its end")
    assert {(5_002,), (5_001,)} <= {tuple(one) for one in late}


@contextmanager
def dying_by(mortal: Mortal, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the switch in the block die."""
    with monkeypatch.context() as patch, suppress(Died, asyncio.CancelledError):
        for module in (switch, moves):
            patch.setattr(module, "open_storage", wrapping(mortal))
        yield


def has_appended(collection: Collection, number: int) -> bool:
    """Append a row by a writer with a name; return whether that was acknowledged."""
    try:
        collection.writer(f"w{number}").append([{"k": 5_000 + number, "v": "late"}], sequence=2)
    except (CollectionMovedError, OutcomeUnknownError):
        return False
    return True


def keys_of(folder: Path) -> list[int]:
    """The keys of ``ages``, in the order of their times."""
    return [row[1] for row in history(folder)["ages"]]


def wrapping(mortal: Mortal) -> Callable[..., ChunkStorage]:
    return lambda *args: mortal.wrap(open_storage(*args))


def small_store(folder: Path) -> Path:
    made = siltstone.init(folder).parent
    siltstone.open(made).close()
    with siltstone.open_collections(made) as collections:
        ages = collections.create("ages", SCHEMA, key=["k"], times="count")
        ages.append(table(0, 600))
        append(ages, 600)
        for number in (1, 2):
            ages.writer(f"w{number}").append([], sequence=1)
        collections.settle()
    return made


def test_a_first_collection_that_comes_during_a_switch_comes_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made when the name of the store is being taken away."""
    folder = siltstone.init(tmp_path / "store").parent
    siltstone.open(folder).close()
    new = moved_settings(folder, "new.yaml", folder / "elsewhere")

    def with_a_collection(storage: ChunkStorage, name: str) -> None:
        if name == "system/store":
            with siltstone.open_collections(folder) as collections:
                collections.create("ages", SCHEMA, key=["k"]).append(table(0, 10))
        delete(storage, name)

    with monkeypatch.context() as patch:
        patch.setattr(switch, "delete", with_a_collection)
        switch_storage(folder, new)
    assert [row[1] for row in history(folder)["ages"]] == [*range(10)]


def test_a_first_collection_that_comes_after_a_switch_is_refused(tmp_path: Path) -> None:
    """Its process has opened the old place, which is no longer the store's."""
    folder = siltstone.init(tmp_path / "store").parent
    siltstone.open(folder).close()
    new = moved_settings(folder, "new.yaml", folder / "elsewhere")
    with siltstone.open_collections(folder) as collections:
        switch_storage(folder, new)
        with pytest.raises(StoreNotFoundError, match="was switched"):
            collections.create("gusts", SCHEMA, key=["k"])
    with siltstone.open_collections(folder) as collections:
        assert collections.list() == []


@pytest.mark.parametrize("is_late", [False, True])
def test_no_collection_begins_at_the_old_place_after_its_name_came_along(
    folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    """A process stands still after it gave a collection its name.

    Late: it gives the name when the switch has read all names.
    """
    named, switched = threading.Event(), threading.Event()
    begin = catalog.begun

    def begin_late(place: Any, row: Any) -> Any:
        if row.name == "tides":
            named.set()
            assert switched.wait(60)
        return begin(place, row)

    def with_a_name(place: Any, row: Any, **options: Any) -> Any:
        if row.name == "gusts" and not named.is_set():
            thread.start()
            assert named.wait(60)
        return begin(place, row, **options)

    results: list[object] = []

    def create() -> None:
        try:
            append(collections.create("tides", SCHEMA, key=["k"]), 1)
        except SiltstoneError as error:
            results.append(type(error))

    with siltstone.open_collections(folder) as collections:
        collections.list()
        monkeypatch.setattr(async_collections, "begun", begin_late)
        thread = threading.Thread(target=create)
        if is_late:
            monkeypatch.setattr(moves, "begun", with_a_name)
        else:
            thread.start()
            assert named.wait(60)
        switch_storage(folder, new)
        switched.set()
        thread.join()
        assert results == [CollectionMovedError]
    with siltstone.open_collections(folder) as collections:
        append(collections.collection("tides"), 2)
        assert [row[1] for row in updates_of(collections.collection("tides"))] == [2]


def dying(*_: object) -> None:
    raise Died


def test_what_was_dropped_stays_dropped_wherever_the_store_is(
    folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process died between the drop of a collection and that of its name."""
    with siltstone.open_collections(folder) as collections:
        collections.drop("gusts")
        with monkeypatch.context() as patch:
            patch.setattr("siltstone.collections.catalog.Catalog.remove", dying)
            with pytest.raises(Died):
                collections.drop("ages")
    switch_storage(folder, new)
    with siltstone.open_collections(folder) as collections:
        assert collections.list() == ["ages"]
        with pytest.raises(siltstone.CollectionDroppedError):
            append(collections.collection("ages"), 1)
        collections.drop("ages")
        fill(collections)
        collections.drop("ages")
    before = history(folder)
    switch_back(folder)
    assert history(folder) == before
    assert before.keys() == {"gusts"}


def test_collections_in_a_table_move_with_it(tmp_path: Path) -> None:
    """Uploads that nothing has appended yet come along, too."""
    folder = table_store(tmp_path / "store", containers=2).parent
    new = moved_settings(folder, "new.yaml", folder / "elsewhere")
    with siltstone.open(folder) as store, siltstone.open_collections(store) as collections:
        fill(collections)
        assert copy_storage(folder, new).copied == 4
        gusts = collections.collection("gusts")
        gusts.append(table(4_000, 8_000))
        uploaded = gusts.batch(table(8_000, 9_000))
        gusts.compact()
        before, info = histories_in(collections), gusts.info()
    for number in range(2):
        if number:
            switch_back(folder)
        else:
            switch_storage(folder, new)
        with siltstone.open(folder) as store, siltstone.open_collections(store) as collections:
            assert histories_in(collections) == before
            gusts = collections.collection("gusts")
            assert (gusts.info().id, gusts.info().bookmarks) == (info.id, info.bookmarks)
            if not number:
                gusts.append_batches([uploaded])
            append(gusts, 5_000 + number)
            gusts.compact()
            collections.sweep()
            before = histories_in(collections)


def test_damage_is_found_before_anything_is_switched(folder: Path, new: Path) -> None:
    before = history(folder)
    harmed = paths(folder, "parts")[0]
    flip(harmed, 500)
    for verb in (copy_storage, switch_storage):
        with pytest.raises(CorruptDataError) as refused:
            verb(folder, new)
        assert str(refused.value.where).endswith(harmed.name)
    flip(harmed, 500)
    with siltstone.open_collections(folder) as collections:
        one = collections.collection("ages").info().id
    for path in paths(folder, "entries", one):
        flip(path, 60)
    with pytest.raises(CorruptDataError, match="collection ages"):
        switch_storage(folder, new)
    for path in paths(folder, "entries", one):
        flip(path, 60)
    switch_storage(folder, new)
    assert history(folder) == before


def test_new_settings_with_another_consensus_are_refused(folder: Path, new: Path) -> None:
    with new.open("a", encoding="utf-8") as file:
        file.write("  consensus: table\n")
    with pytest.raises(SettingsError, match=r"new.yaml: collections.consensus .* objects"):
        copy_storage(folder, new)
    assert list((folder / "elsewhere").iterdir()) == []
    with pytest.raises(SettingsError, match=r"new.yaml: collections.consensus .* objects"):
        switch_storage(folder, new)
    assert history(folder).keys() == {"ages", "gusts"}
