"""A store that continues a legacy layout whose segments were all deleted, with the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import siltstone
from siltstone.core.errors import StoreError
from siltstone.store.blocking.segment import Segment
from siltstone.store.store import Store
from tests.support.command import Command
from tests.support.migration.code_only import begin, collect, prepared_store
from tests.support.migration.migrated_layout import TWO, rolling, shown, written

EMPTY = (0, 0, False, b"")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a new store."""
    return prepared_store(tmp_path / "store", 2).parent


@pytest.fixture
def small(folder: Path) -> Path:
    """A small layout of two segments, below the store's long-term storage."""
    files = {**TWO, "b$header": "maxsize=9&0=b$offset.0&", "b$offset.0": "xyz"}
    return written(folder / "chunks" / "small", files)


def emptied(command: Command, folder: Path, small: Path) -> None:
    """Let the store continue a layout, and delete all of it."""
    assert begin(command, small).code == 0
    with siltstone.open(folder) as store:
        store.segment("a").append(b"more")
        store.flush()
        for name in ("a", "b"):
            store.segment(name).delete()
        collect(store)
    assert not small.exists()


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["rollback", "finalise"])
def test_a_layout_whose_folder_went_with_its_last_file_can_be_ended(
    command: Command, folder: Path, small: Path, verb: str
) -> None:
    emptied(command, folder, small)
    assert command("migrate", "verify", str(small)).code == 0
    assert begin(command, small, "--dry-run").code == 0
    assert begin(command, small).code == 0
    assert command("migrate", verb, str(small)).code == 0
    with siltstone.open(folder) as store:
        assert store.written_adoption() is None
        store.create("new").append(b"new")
        store.flush()
    assert not small.exists()


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["rollback", "finalise"])
def test_a_layout_whose_folder_went_continues_with_what_is_created(
    command: Command, folder: Path, small: Path, verb: str
) -> None:
    emptied(command, folder, small)
    with siltstone.open(folder) as store:
        store.create("new").append(b"new")
    assert not small.exists()
    assert command("migrate", "verify", str(small)).code == 0
    assert command("migrate", verb, str(small)).code == 0
    if verb == "rollback":
        assert rolling(small).read("new") == (0, 3, False, b"new")
    else:
        assert shown(folder)["new"] == (0, 3, False, b"new")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "call"), [("rollback", "release_adoption"), ("finalise", "finalise_adoption")]
)
def test_an_end_that_died_continues_without_the_folder(
    command: Command, folder: Path, small: Path, verb: str, call: str
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("died")

    emptied(command, folder, small)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, call, fail)
        assert command("migrate", verb, str(small)).code == 1
    assert command("migrate", verb, str(small)).code == 0


@pytest.mark.slow
def test_a_folder_that_went_with_files_of_segments_is_told(
    command: Command, folder: Path, small: Path
) -> None:
    assert begin(command, small).code == 0
    small.rename(folder / "aside")
    verbs = [("verify",), ("rollback",), ("finalise",), ("legacy", "--mode", "code_only")]
    for verb, *more in verbs:
        ran = command("migrate", verb, str(small), *more)
        assert (ran.code, "no such folder" in ran.err) == (2, True), verb
    (folder / "aside").rename(small)
    assert command("migrate", "verify", str(small)).code == 0
    assert command("migrate", "rollback", str(small)).code == 0


@pytest.mark.slow
def test_a_folder_that_never_was_is_told(command: Command, folder: Path, small: Path) -> None:
    emptied(command, folder, small)
    other = str(folder / "chunks" / "smal")
    verbs: list[tuple[str, ...]] = [("verify",), ("verify", "--record-sums"), ("rollback",)]
    verbs += [("finalise",), ("legacy",), ("legacy", "--in-place"), ("legacy", "--dry-run")]
    for verb, *more in verbs:
        ran = command("migrate", verb, other, *more)
        assert (ran.code, "no such folder" in ran.err) == (2, True), (verb, more, ran.err)
    assert "no such folder" in command("migrate", "legacy", other, "--mode", "install_new").err
    assert begin(command, Path(other)).code == 4  # the store writes another layout


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", "_3"], ids=["files", "hdfs"])
@pytest.mark.parametrize("verb", ["rollback", "finalise"])
def test_a_layout_of_which_only_segments_without_header_stay_is_known_by_them(
    command: Command, folder: Path, suffix: str, verb: str
) -> None:
    files = {f"{key}{suffix}": text for key, text in {**TWO, "c": "bare", "c_3": "more"}.items()}
    place = written(folder / "chunks" / "old", files)
    assert begin(command, place).code == 0
    with siltstone.open(folder) as store:
        store.create("later")
        store.segment("a").delete()
        collect(store)
    assert {path.name for path in place.iterdir()} == {f"c{suffix}", f"c_3{suffix}"}
    assert command("migrate", "verify", str(place)).code == 0
    assert begin(command, place, "--dry-run").code == 0
    assert begin(command, place).code == 0
    assert command("migrate", verb, str(place)).code == 0
    left = (
        {} if verb == "rollback" else {"c": (0, 4, False, b"bare"), "c_3": (0, 4, False, b"more")}
    )
    assert {name: seen for name, seen in shown(folder).items() if name != "later"} == left
    assert (place / f"c{suffix}").read_text() == "bare"


@pytest.mark.slow
def test_a_rollback_that_died_continues_where_only_a_segment_without_header_stays(
    command: Command, folder: Path
) -> None:
    def fail(*_: object) -> None:
        raise StoreError("died")

    place = written(folder / "chunks" / "old", {**TWO, "c": "bare"})
    assert begin(command, place).code == 0
    with siltstone.open(folder) as store:
        store.segment("a").delete()
        collect(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segment, "delete", fail)
        assert command("migrate", "rollback", str(place)).code == 1
    assert command("migrate", "rollback", str(place)).code == 0
    assert shown(folder) == {}
    assert (place / "c").read_text() == "bare"
