"""Checks of a migration while an owner works: no fault is reported in a sound store.

The owner changes segments before one call of a verb on the layout or the store, whichever it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.container.models.settings import CloseFlush
from siltstone.container.reader.read_container import ReadContainer
from siltstone.migration.legacy.export import export
from siltstone.migration.source.places import FolderPlace
from siltstone.pipelines.work import FAILED
from siltstone.store.store import Store
from tests.support.command import Command, Ran
from tests.support.migration.code_only import begin, collect, prepare
from tests.support.migration.migrated_layout import written

FILES = {
    "a$header": "maxsize=3&0=a$offset.0&3=a$offset.3&",
    "a$offset.0": "abc",
    "a$offset.3": "de",
    "b": "bare",
}
HDFS = {
    "a$header_1": FILES["a$header"],
    "a$offset.0_1": "abc",
    "a$offset.3_1": "de",
    "b_1": "bare",
}

Act = Callable[[Store], None]


def make(store: Store) -> None:
    store.create("empty")
    store.create("new").append(b"0123456789")
    store.flush()


def truncate(store: Store) -> None:
    for name in ("a", "b"):
        segment = store.segment(name)
        segment.append(b"0123456789")
        store.flush()
        segment.truncate(segment.info().length - 1)
    collect(store)


def seal(store: Store) -> None:
    for name in ("a", "b"):
        store.segment(name).append(b"0123456789")
        store.segment(name).seal()
    store.flush()


def delete(store: Store) -> None:
    for name in ("a", "b", "c"):
        store.segment(name).delete()


def make_again(store: Store) -> None:
    store.segment("c").delete()
    collect(store)
    store.create("c").append(b"another")
    store.flush()


def begun(
    command: Command, folder: Path, files: dict[str, str], *, flush: CloseFlush = "auto"
) -> Path:
    """The layout of a store that continues it, with one segment of the store's own."""
    prepare(folder / "siltstone.yaml")
    place = written(folder / "chunks" / "small", files)
    assert begin(command, place).code == 0
    with siltstone.open(folder) as store:
        store.create("c").append(b"12345678")
        store.close(flush=flush)
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a new store of one container."""
    return siltstone.init(tmp_path / "store", containers=1).parent


@contextmanager
def meanwhile(store: Store, act: Act, number: int) -> Iterator[list[str]]:
    """The ``number``-th call of a verb comes after ``act``."""
    calls: list[str] = []

    def after_act(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(plain.__name__)
            if len(calls) == number:
                act(store)
            return plain(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderPlace, "files", after_act(FolderPlace.files))
        patch.setattr(ReadContainer, "list_segments", after_act(ReadContainer.list_segments))
        yield calls


def stopped_anywhere(
    command: Command, folder: Path, act: Act, files: dict[str, str], *verb: str
) -> Iterator[tuple[int, Ran]]:
    """Run a verb once for each of its calls, with ``act`` before that call."""
    begun(command, folder, files, flush="never")  # what is made again must have no file yet
    number, calls = 0, [""]
    while number < len(calls):
        number += 1
        copy = Path(shutil.copytree(folder, folder.with_name(f"copy{number}")))
        place = str(copy / "chunks" / "small")
        with siltstone.open(copy) as store, meanwhile(store, act, number) as calls:
            yield number, command("migrate", *verb, place, store=str(copy))
    assert number > 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "files"),
    [
        (make, FILES),
        (truncate, FILES),
        (seal, HDFS),
        (delete, FILES),
        (make_again, FILES),
    ],
)
def test_nothing_is_told_to_differ_or_to_be_missing(
    command: Command, folder: Path, act: Act, files: dict[str, str]
) -> None:
    for number, ran in stopped_anywhere(command, folder, act, files, "verify", "--threads", "1"):
        assert (number, *ran.out.splitlines()) == (number,)


@pytest.mark.slow
@pytest.mark.parametrize("act", [delete, make_again])
def test_no_segment_that_the_store_writes_is_refused(
    command: Command, folder: Path, act: Act
) -> None:
    verb = ("legacy", "--mode", "code_only", "--dry-run")
    for number, ran in stopped_anywhere(command, folder, act, FILES, *verb):
        assert (number, ran.code) == (number, 0), ran


@pytest.mark.slow
def test_what_is_not_flushed_yet_or_about_to_go_is_passed_over(
    command: Command, folder: Path
) -> None:
    place = begun(command, folder, FILES)
    with siltstone.open(folder) as store:
        store.create("empty")
        delete(store)
        assert command("migrate", "verify", str(place)).out == ""
    again = begin(command, place)
    assert again.code == 0
    assert "b: the store deleted it, and its files are about to go" in again.out


@pytest.mark.slow
def test_an_export_of_a_segment_that_is_made_again_has_no_byte_of_the_other_one(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    begun(command, folder, FILES)
    with siltstone.open(folder) as store:
        known = store.segment("c").info()
        make_again(store)
        store.segment("c").append(b"more")
        (told,) = export(store, [known], tmp_path / "out")
    assert (told.status, list((tmp_path / "out").rglob("*header"))) == (FAILED, [])
    assert "made again while it was read" in told.message
