"""A store continues at another place with every byte; a switch requires all of them there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import siltstone
from siltstone.core.constants import KIB
from siltstone.core.errors import (
    CorruptDataError,
    SettingsError,
    StoreError,
    StoreInUseError,
    StoreNotFoundError,
)
from siltstone.migration.relocate import switch
from siltstone.migration.relocate.copied_objects import copied_objects
from siltstone.migration.relocate.settings import BEFORE
from siltstone.migration.relocate.switch import copy_storage, switch_storage
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.work import PipelineError
from siltstone.store.store_assembly import open_storage
from tests.support.migration.backups import (
    Died,
    Mortal,
    Seen,
    content,
    content_of,
    damage,
    files,
    noise,
    silent,
    tmp_path,
)
from tests.support.migration.moved_store import moved_settings
from tests.support.stores import make_store

__all__ = ["tmp_path"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store", chunk_bytes=32 * KIB, containers=2)


@pytest.fixture
def new(folder: Path) -> Path:
    """The settings file of the new place, a folder."""
    return moved_settings(folder, "new.yaml", folder / "elsewhere")


def fill(store: siltstone.Store, round_number: int) -> None:
    for number in range(4):
        segment = store.create(f"s{number}", exist_ok=True)
        segment.append(noise(20_000 * number + round_number))
    store.flush()
    store.segment("s1").truncate(10_000)
    store.create_table("t", exist_ok=True).put(b"k", b"%d" % round_number)


def with_chunks(folder: Path) -> dict[str, Seen]:
    """Let the segment ``a`` have flushed chunks; return what the store holds."""
    with siltstone.open(folder) as store:
        store.create("a").append(noise(40_000))
        store.flush()
        return content(store)


def unchanged(before: dict[str, bytes], after: dict[str, bytes]) -> bool:
    """Whether nothing changed in the old place, except the name of the store."""
    moved = {"system/store-moved" if k == "system/store" else k: v for k, v in before.items()}
    return moved == after


@pytest.mark.slow
def test_a_store_is_copied_while_it_works_and_then_switched(folder: Path, new: Path) -> None:
    with siltstone.open(folder) as store:
        fill(store, 1)
        first = copy_storage(folder, new)
        assert first.copied == first.objects > 4
        fill(store, 2)
        store.segment("s3").delete()
        store.collect()
        second = copy_storage(folder, new)
        assert 0 < second.copied < first.objects
        with pytest.raises(StoreInUseError):
            switch_storage(folder, new)
        fill(store, 3)
        store.segment("s2").append(b"only in tier 1")
        expected = content(store)
    before = files(folder / "chunks")
    report = switch_storage(folder, new)
    assert report.settings == folder / "siltstone.yaml"
    assert report.removed > 0
    assert unchanged(before, files(folder / "chunks"))
    assert content_of(folder) == expected
    with siltstone.open(folder) as store:
        found = store.table("t").get(b"k")
        assert found is not None
        assert found.value == b"3"
        store.segment("s2").append(b", and more")
        store.flush()
        store.checkpoint()
        store.collect()
        expected = content(store)
    assert expected["s2"].data.endswith(b"only in tier 1, and more")
    assert content_of(folder) == expected
    # The old place is no store any more, so no owner continues there by mistake.
    assert unchanged(before, files(folder / "chunks"))
    with pytest.raises(StoreNotFoundError):
        siltstone.open(folder / "siltstone.yaml.before-switch")
    # And back.
    old = folder / "old.yaml"
    (folder / "siltstone.yaml.before-switch").rename(old)
    switch_storage(folder, old)
    assert content_of(folder) == expected
    assert not (folder / "elsewhere" / "system" / "store").exists()


@pytest.mark.slow
def test_a_switch_that_died_anywhere_is_repeated(
    folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(noise(40_000))
        store.flush()
        store.create("b").append(b"tail")
        expected = content(store)
    copy_storage(folder, new)
    make = open_storage
    for number in range(12):
        for behind in (False, True):
            mortal = Mortal(number, after=behind)
            with monkeypatch.context() as patch:
                patch.setattr(switch, "open_storage", lambda *a, m=mortal: m.wrap(make(*a)))
                try:
                    switch_storage(folder, new, executor=LocalExecutor(1))
                except Died:
                    pass
                else:
                    assert content_of(folder) == expected
                    again = switch_storage(folder, new)
                    assert (again.objects, again.settings) == (0, folder / "siltstone.yaml")
                    return
            # Either it can be opened in its place, or not at all until the call is repeated.
            try:
                assert content_of(folder) == expected
            except StoreNotFoundError:
                assert (folder / "chunks" / "system" / "store-moved").exists()
    pytest.fail("it never came to its end")


@pytest.mark.slow
def test_what_was_switched_half_goes_to_no_other_place(
    folder: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Died

    with siltstone.open(folder) as store:
        store.create("a").append(b"a")
    with monkeypatch.context() as patch:
        patch.setattr(switch, "_name", die)
        with pytest.raises(Died):
            switch_storage(folder, new)
    other = moved_settings(folder, "other.yaml", folder / "other")
    with pytest.raises(StoreError, match="moved already"):
        switch_storage(folder, other)
    begun = make_store(tmp_path / "begun", containers=1)
    with siltstone.open(begun) as store:
        store.create("b").append(b"b")
    copy_storage(begun, moved_settings(begun, "new.yaml", folder / "other"))
    with pytest.raises(StoreError, match="moved already"):
        switch_storage(folder, other)
    switch_storage(folder, new)
    assert list(content_of(folder)) == ["a"]


@pytest.mark.slow
def test_what_came_after_a_switch_that_died_comes_with_the_next_one(
    folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with siltstone.open(folder) as store:
        fill(store, 1)
    copy_storage(folder, new)
    make, deaths = open_storage, 0
    for number in range(40):
        mortal = Mortal(number, after=True)
        with monkeypatch.context() as patch, suppress(Died):
            patch.setattr(switch, "open_storage", lambda *a, m=mortal: m.wrap(make(*a)))
            switch_storage(folder, new, executor=LocalExecutor(1))
        if not (folder / "chunks" / "system" / "store").exists():
            break
        deaths += (folder / "chunks" / "system" / "store-moved").exists()
        with siltstone.open(folder) as store:
            store.create("late", exist_ok=True).append(noise(40_000))
            store.flush()
            expected = content(store)
    assert deaths, "it never died between the two names of the old place"
    switch_storage(folder, new)
    assert content_of(folder) == expected


@pytest.mark.slow
def test_what_workers_brought_for_an_import_comes_with_its_store(folder: Path, new: Path) -> None:
    with siltstone.open(folder) as store:
        ticket = store.open_import("job", "s")
    with siltstone.ImportWriter(folder, ticket, partition=0, attempt=0) as writer:
        writer.write(b"brought, and not yet of the store")
        chunks = writer.finish()
    switch_storage(folder, new)
    with siltstone.open(folder) as store:
        store.commit_import(ticket, [siltstone.ImportOutput(segment="s", chunks=chunks)])
        assert store.segment("s").read(0, 99) == b"brought, and not yet of the store"


@pytest.mark.slow
def test_an_old_place_that_does_not_answer_is_no_copy(
    folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = with_chunks(folder)
    for work in (copy_storage, switch_storage):
        with (
            silent(monkeypatch, "a"),
            pytest.raises(PipelineError, match=r"the old place did not answer: .*/a/"),
        ):
            work(folder, new)
        assert content_of(folder) == expected
    switch_storage(folder, new)
    assert content_of(folder) == expected


@pytest.mark.slow
def test_nothing_is_switched_that_is_not_all_there(
    folder: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = with_chunks(folder)
    copy_storage(folder, new)
    paths = sorted((folder / "chunks" / "data").rglob("*.chunk"))
    whole = paths[0].read_bytes()

    def lose(work: Callable[..., object]) -> Callable[..., object]:
        def lost(*given: object) -> object:
            report = work(*given)
            next((folder / "elsewhere" / "data").rglob("*.chunk")).unlink()
            return report

        return lost

    with monkeypatch.context() as patch:
        patch.setattr(switch, "copied_objects", lose(copied_objects))
        with pytest.raises(StoreError, match="not at the new place as it should be"):
            switch_storage(folder, new)
    assert content_of(folder) == expected
    # The missing chunk has to be copied again, and its source is now damaged.
    damage(paths[0], 17)
    for path in (folder / "elsewhere" / "data").rglob("*.chunk"):
        path.unlink()
    with pytest.raises(CorruptDataError, match=r"1 object of the store cannot be read"):
        switch_storage(folder, new)
    paths[0].write_bytes(whole)
    switch_storage(folder, new)
    assert content_of(folder) == expected


@pytest.mark.slow
def test_a_place_that_is_something_elses_is_refused(
    folder: Path, new: Path, tmp_path: Path
) -> None:
    with siltstone.open(folder) as store:
        store.create("a").append(b"a")
    other = make_store(tmp_path / "other", containers=1)
    settings = moved_settings(folder, "wrong.yaml", other / "chunks")
    taken = files(other)
    for work in (copy_storage, switch_storage):
        with pytest.raises(StoreError, match="not empty"):
            work(folder, settings)
        with pytest.raises(SettingsError, match="long_term_storage is the one"):
            work(folder, folder / "siltstone.yaml")
        with pytest.raises(SettingsError, match="must lie in"):
            work(folder, other)
        text = new.read_text(encoding="utf-8").replace("path: ./tier1", "path: ./tier2")
        odd = folder / "odd.yaml"
        odd.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError, match="tier1 is another one"):
            work(folder, odd)
    assert files(other) == taken
    assert list(content_of(folder)) == ["a"]


@pytest.mark.slow
def test_the_old_place_cannot_be_opened_or_recovered_by_its_old_settings(
    folder: Path, new: Path
) -> None:
    """It has the log of the new place: two owners of one log would lose chunks of either."""
    with_chunks(folder)
    switch_storage(folder, new)
    old = folder / "old.yaml"
    old.write_bytes((folder / f"siltstone.yaml{BEFORE}").read_bytes())
    taken = files(folder)
    for work in (
        siltstone.open,
        partial(siltstone.open, read_only=True, recover="read-only"),
        siltstone.recover,
        partial(siltstone.recover, accept_loss=True),
    ):
        with pytest.raises(StoreNotFoundError, match=r"was switched .* new settings"):
            work(old)
    assert files(folder) == taken
    assert len(content_of(folder)["a"].data) == 40_000


@pytest.mark.slow
def test_the_old_place_of_another_store_is_refused(folder: Path, tmp_path: Path) -> None:
    other = make_store(tmp_path / "other", containers=1)
    with siltstone.open(other) as store:
        store.create("b").append(noise(10_000))
        store.flush()
    switch_storage(other, moved_settings(other, "new.yaml", other / "elsewhere"))
    with siltstone.open(folder) as store:
        store.create("a").append(b"a")
    settings = moved_settings(folder, "wrong.yaml", other / "chunks")
    taken = files(other)
    for work in (copy_storage, switch_storage):
        with pytest.raises(StoreError, match="not empty"):
            work(folder, settings)
    assert files(other) == taken
    assert list(content_of(folder)) == ["a"]
