"""Segments that are deleted from a legacy layout: all their files go, and none of others."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.cli.main import run
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkNotFoundError,
    ChunkUnavailableError,
    SegmentExistsError,
    SiltstoneError,
)
from siltstone.migration.legacy.write_through.layout import LegacyChangedError
from siltstone.store.store import Store
from tests.support.migration.code_only import Killed, collect, flush_quietly, prepared_store
from tests.support.migration.migrated_layout import rolling, written
from tests.support.tuned import tune

FILES = {"a$header": "maxsize=3&0=a$offset.0&", "a$offset.0": "abc"}


@pytest.fixture(autouse=True)
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed call is tried again when the test says so, and not after a minute."""
    tune(monkeypatch, garbage_attempts=1)


def prepared(tmp_path: Path, files: dict[str, str]) -> Path:
    """The folder of a store of one container that writes on in the layout ``small``."""
    settings = prepared_store(tmp_path / "one", 1)
    place = written(settings.parent / "chunks" / "small", files)
    where = ["--store", str(settings.parent), "migrate", "legacy", str(place)]
    assert run([*where, "--mode", "code_only"]) == 0
    return settings.parent


def left(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


def killed_flush(folder: Path, number: int, how: str, *names: str) -> int:
    """Flush bytes of segments and delete them, until a death; return the calls that were made."""
    with pytest.MonkeyPatch.context() as patch:
        killed = Killed(patch, folder / "chunks" / "small", number, how)
        store = siltstone.open(folder)
        with suppress(SiltstoneError):
            for name in names:
                store.create(name, exist_ok=True).append(b"12345")
            store.flush()
            for name in names:
                store.segment(name).delete()
            collect(store)
        with suppress(SiltstoneError):
            store.close()
    return killed.calls


def deleted_after_a_death_anywhere(tmp_path: Path, how: str, *names: str, step: int = 1) -> int:
    """Die at each ``step``-th call of a flush and a deletion, then delete; return their number."""
    base = prepared(tmp_path, FILES)
    for number in count(1, step):
        folder = Path(shutil.copytree(base, tmp_path / f"{how}{number}"))
        calls = killed_flush(folder, number, how, *names)
        place = folder / "chunks" / "small"
        with siltstone.open(folder) as store:
            for name in {one.name for one in store.list()} & set(names):
                store.segment(name).delete()
            store.replay_garbage()
            collect(store)
            assert not [key for key in left(place) if key[0] in names], (number, how)
            for name in names:
                store.create(name).append(b"again")
            store.flush()
        model = rolling(place)
        assert [model.read(name) for name in names] == len(names) * [(0, 5, False, b"again")]
        shutil.rmtree(folder)
        if calls < number:
            return calls
    raise AssertionError("it ends")


@pytest.mark.slow
def test_a_deletion_takes_along_what_a_flush_left_that_died(tmp_path: Path) -> None:
    """Storage is out of reach after the first call that changes a file, the third, and so on."""
    assert deleted_after_a_death_anywhere(tmp_path, "torn", "c", step=2) > 5


@pytest.mark.soak
@pytest.mark.parametrize("how", ["before", "torn", "after"])
def test_a_deletion_takes_along_what_died_in_any_way(tmp_path: Path, how: str) -> None:
    assert deleted_after_a_death_anywhere(tmp_path, how, "a", "c") > 10


def test_a_deletion_while_a_flush_writes_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = prepared(tmp_path, FILES)
    reached, go = threading.Event(), threading.Event()
    real = NfsChunkStorage.create

    def held(storage: NfsChunkStorage, name: str, *more: Any) -> Any:
        if name.startswith("small/c") and not reached.is_set():
            reached.set()
            go.wait(60)
        return real(storage, name, *more)

    with siltstone.open(folder) as store:
        store.create("c").append(b"12345")
        monkeypatch.setattr(NfsChunkStorage, "create", held)
        flushing = threading.Thread(target=flush_quietly, args=(store,))
        flushing.start()
        assert reached.wait(60)
        store.segment("c").delete()
        with pytest.raises(SegmentExistsError, match="about to go"):
            store.create("c")
        go.set()
        flushing.join()
        collect(store)
        assert left(folder / "chunks" / "small") == sorted(FILES)
        store.create("c").append(b"again")
        store.flush()
    assert rolling(folder / "chunks" / "small").read("c") == (0, 5, False, b"again")


@pytest.mark.slow
def test_a_name_is_not_free_until_its_files_are_known_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion without an answer is repeated, and then hits whatever has the name."""
    folder = prepared(tmp_path, FILES)
    place = folder / "chunks" / "small"
    real = NfsChunkStorage.delete

    def unanswered(storage: NfsChunkStorage, name: str) -> None:
        with suppress(ChunkNotFoundError):
            real(storage, name)
        if not name.endswith("$header"):
            raise ChunkUnavailableError("no answer", chunk=name, operation="delete")

    with siltstone.open(folder) as store:
        store.create("c").append(b"12345")
        store.flush()
        with monkeypatch.context() as patch:
            patch.setattr(NfsChunkStorage, "delete", unanswered)
            store.segment("c").delete()
            for _ in range(100):
                with suppress(ChunkUnavailableError):
                    collect(store)
                if store.garbage()[0].failed_count == 2:
                    break
        assert left(place) == sorted(FILES)
        with pytest.raises(SegmentExistsError, match="about to go"):
            store.create("c")
        assert store.replay_garbage() == 2
        collect(store)
        store.create("c").append(b"again")
        collect(store)
        assert store.segment("c").read(0, 9) == b"again"


@pytest.mark.slow
def test_a_seal_that_died_between_its_names_is_deleted_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With HDFS names, both headers are there for a moment."""
    folder = prepared(tmp_path, {f"{key}_7": text for key, text in FILES.items()})
    with siltstone.open(folder) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(NfsChunkStorage, "delete", refused)
        store.segment("a").seal()
        flush_quietly(store)
        store.close(flush="never")
    place = folder / "chunks" / "small"
    assert {"a$header_7", "a$header_sealed"} <= set(left(place))
    with siltstone.open(folder) as store:
        store.segment("a").delete()
        collect(store)
    assert left(place) == []


def refused(storage: NfsChunkStorage, name: str) -> None:
    raise ChunkAccessDeniedError("no", chunk=name, operation="delete")


FOREIGN = {
    "where the next file would begin": ("a$offset.3", "whose?"),
    "where the second next file would begin": ("a$offset.6", "?"),
    "where no file would begin": ("a$offset.7", "x"),
    "the header of a new segment": ("c$header", "maxsize=3&0=c$offset.X&"),
    "a file of a new segment": ("c$offset.0", "whose?"),
}


@pytest.mark.slow
@pytest.mark.parametrize("which", FOREIGN)
def test_a_deletion_leaves_what_others_put_there(tmp_path: Path, which: str) -> None:
    folder = prepared(tmp_path, FILES)
    key, text = FOREIGN[which]
    place = folder / "chunks" / "small"
    with siltstone.open(folder) as store:
        store.segment("a").append(b"12345")
        store.create("c").append(b"12345")
        (place / key).write_text(text)
        for name in ("a", "c"):
            with suppress(LegacyChangedError):
                store.segment(name).flush()
            store.segment(name).delete()
        collect(store)
        assert left(place) == [key]
        with pytest.raises(SegmentExistsError, match="has files of this segment"):
            store.create(key[0])
    assert (place / key).read_text() == text


@pytest.mark.slow
def test_what_another_owner_finds_in_the_place_of_its_files_is_left_as_well(
    tmp_path: Path,
) -> None:
    """The first owner dies before it makes the file that it stated; another program makes one."""
    folder = prepared(tmp_path, FILES)
    assert killed_flush(folder, 1, "before", "a") == 1
    place = folder / "chunks" / "small"
    (place / "a$offset.3").write_text("?")
    with siltstone.open(folder) as store:
        with pytest.raises(LegacyChangedError):
            store.segment("a").flush()
        store.segment("a").delete()
        collect(store)
        assert left(place) == ["a$offset.3"]
        drop_foreign(store, place)


@pytest.mark.slow
def test_files_of_a_truncated_part_go_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the layout, meanwhile or after a death, finds no gap in a segment."""
    listed = "".join(f"{start}=a$offset.{start}&" for start in range(12))
    files = {f"a$offset.{start}": "abcdefghijkl"[start] for start in range(12)}
    folder = prepared(tmp_path, {"a$header": f"maxsize=1&{listed}", **files})
    place = folder / "chunks" / "small"
    gone: list[int] = []
    another = threading.Event()
    real = NfsChunkStorage.delete

    def watched(storage: NfsChunkStorage, name: str) -> None:
        if not gone:
            assert not another.wait(0.2), "one is deleted while another one is"
        another.set()
        real(storage, name)
        gone.append(int(name.rpartition(".")[2]))
        start, length, _, data = rolling(place).read("a")
        assert (start, length, data) == (gone[-1] + 1, 12, b"abcdefghijkl"[start:])
        another.clear()

    with siltstone.open(folder) as store:
        store.segment("a").truncate(10)
        monkeypatch.setattr(NfsChunkStorage, "delete", watched)
        collect(store)
    assert gone == list(range(10))


def drop_foreign(store: Store, place: Path) -> None:
    (place / "a$offset.3").unlink()
    store.create("a").append(b"again")
    store.flush()
    assert rolling(place).read("a") == (0, 5, False, b"again")
