"""Verbs that write in several steps, killed before each name that they make, change or remove.

Injected: SIGKILL. What must hold: the same command continues and ends with 0, what it made is
right, and nothing is left of what it worked with.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pytest

import siltstone
from siltstone.cli.main import run
from siltstone.core.drafts import DRAFTS
from siltstone.migration.backup.create import create_backup
from siltstone.migration.relocate.settings import BEFORE
from tests.support.kill.dying_verb import ended
from tests.support.memory_folder import folder_in_memory
from tests.support.soak import share

CONTENT = b"some bytes" * 100
ROWS = 700
"""More than an entry holds."""
STEPS_MAX = 400
"""Far more than any of them takes."""


def every(stride: int) -> pytest.MarkDecorator:
    """One step in ``stride``; each of them where there is time."""
    soaked = pytest.param(1, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])
    return pytest.mark.parametrize("stride", [stride, soaked], ids=["some", "all"])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with folder_in_memory(tmp_path) as folder:
        yield folder


def make_store(folder: Path) -> None:
    siltstone.init(folder)
    with siltstone.open(folder) as store:
        store.create("a").append(CONTENT)


def make_collection(folder: Path) -> None:
    schema = pyarrow.schema([("k", pyarrow.int64())])
    with siltstone.open_collections(folder) as collections:
        collections.create("ages", schema, key=["k"]).append(pyarrow.table({"k": range(ROWS)}))


def row_count(folder: Path) -> int:
    with siltstone.open_collections(folder) as collections:
        assert {one.severity for one in collections.check(deep=True)} <= {"garbage"}
        return len(collections.collection("ages").snapshot().to_arrow())


def content(folder: Path) -> bytes:
    with siltstone.open(folder) as store:
        return store.segment("a").read(0, len(CONTENT) + 1)


def hidden(folder: Path) -> list[str]:
    """What has a name of temporary files; the folder in which whole creates draft stays."""
    return [path.name for path in folder.rglob(".*") if path.name != DRAFTS]


def repeated(
    arguments: list[str], place: Path, prepare: Callable[[], None], *, stride: int
) -> Iterator[int]:
    """Kill the command at every ``stride``-th step, in a fresh place; repeat it; yield the step.

    Those of a soak are shared out.
    """
    first, stride = (share()[0] - 1, share()[1]) if stride == 1 else (0, stride)
    for step in range(first, STEPS_MAX, stride):
        for path in place.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        prepare()
        code = ended(arguments, step)
        assert code in (0, -9)
        if code == 0:
            return
        assert run(arguments) == 0, step
        assert not hidden(place), step
        yield step
    pytest.fail("it never came to its end")


@every(5)
def test_init(place: Path, stride: int) -> None:
    folder = place / "store"
    for step in repeated(["init", str(folder)], place, lambda: None, stride=stride):
        with siltstone.open(folder) as store:
            assert not list(store.list()), step
    assert run(["init", str(folder)]) == 4, "a store that is there is never taken for a new one"


@every(5)
def test_export(place: Path, tmp_path: Path, stride: int) -> None:
    make_store(tmp_path / "store")
    target = place / "out" / "a"
    arguments = ["--store", str(tmp_path / "store"), "export", "a", "--overwrite", str(target)]
    for step in repeated(arguments, place, lambda: None, stride=stride):
        assert target.read_bytes() == CONTENT, step


@every(37)
def test_restore(place: Path, tmp_path: Path, stride: int) -> None:
    make_store(tmp_path / "store")
    backups, folder = tmp_path / "backups", place / "new"
    create_backup(tmp_path / "store", backups)
    arguments = ["backup", "restore", str(backups), str(folder)]
    for step in repeated(arguments, place, lambda: None, stride=stride):
        assert content(folder) == CONTENT, step
    assert run(arguments) == 0, "all was done"
    create_backup(tmp_path / "store", backups)
    assert run(arguments) == 4, "there is another generation here than the newest"
    assert run([*arguments, "--generation", "1"]) == 0


def test_a_restore_continues_next_to_a_newer_generation(place: Path, tmp_path: Path) -> None:
    make_store(tmp_path / "store")
    backups, folder = tmp_path / "backups", place / "new"
    create_backup(tmp_path / "store", backups)
    arguments = ["backup", "restore", str(backups), str(folder)]
    assert ended(arguments, 12) == -9
    assert not (folder / "siltstone.yaml").exists()
    create_backup(tmp_path / "store", backups)
    assert run([*arguments, "--generation", "2"]) == 4
    assert run(arguments) == 0
    assert content(folder) == CONTENT
    assert not hidden(folder)


@every(41)
def test_storage_switch(place: Path, tmp_path: Path, stride: int) -> None:
    make_store(tmp_path / "store")
    make_collection(tmp_path / "store")
    folder = place / "store"

    def prepare() -> None:
        shutil.copytree(tmp_path / "store", folder)
        written = (folder / "siltstone.yaml").read_text("utf-8")
        (folder / "new.yaml").write_text(written.replace("./chunks", "./elsewhere"), "utf-8")

    arguments = ["--store", str(folder), "storage", "switch", str(folder / "new.yaml")]
    for step in repeated(arguments, place, prepare, stride=stride):
        assert content(folder) == CONTENT, step
        assert row_count(folder) == ROWS, step
        assert "./chunks" in (folder / f"siltstone.yaml{BEFORE}").read_text("utf-8"), step
    assert run(arguments) == 0, "all was done"


@every(47)
def test_a_switch_back_by_the_settings_from_before(place: Path, stride: int) -> None:
    folder = place / "store"

    def prepare() -> None:
        make_store(folder)
        make_collection(folder)
        written = (folder / "siltstone.yaml").read_text("utf-8")
        (folder / "new.yaml").write_text(written.replace("./chunks", "./elsewhere"), "utf-8")
        assert run(["--store", str(folder), "storage", "switch", str(folder / "new.yaml")]) == 0

    back = str(folder / f"siltstone.yaml{BEFORE}")
    arguments = ["--store", str(folder), "storage", "switch", back]
    for step in repeated(arguments, place, prepare, stride=stride):
        assert content(folder) == CONTENT, step
        assert row_count(folder) == ROWS, step
        assert "./elsewhere" in Path(back).read_text("utf-8"), step
