"""A working copy is what its source was, whatever was done to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.damage.working_copy import WorkingCopy

Harm = Callable[[Path], object]


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def flip(folder: Path) -> None:
    """Write the same number of bytes, right after the copy was made."""
    with (folder / "a/one").open("r+b") as file:
        file.write(b"other")


def link(folder: Path) -> None:
    """A second name for a file, through which it may be written later."""
    (folder / "linked").hardlink_to(folder / "a/one")
    (folder / "linked").unlink()
    (folder / "a/two").unlink()
    (folder / "a/two").hardlink_to(folder / "a/one")


HARMS: dict[str, Harm] = {
    "flip": flip,
    "link": link,
    "remove": lambda folder: (folder / "a/one").unlink(),
    "rename": lambda folder: os.rename(folder / "a/one", folder / "b"),
    "cut": lambda folder: os.truncate(folder / "a/two", 0),
    "new file": lambda folder: (folder / "new").write_bytes(b"new"),
    "new folder": lambda folder: (folder / "folder/new").mkdir(parents=True),
    "remove folder": lambda folder: shutil.rmtree(folder / "a"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_everything_is_undone(tmp_path: Path, harm: str) -> None:
    source = tmp_path / "source"
    (source / "a").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "a/one").write_bytes(b"first")
    (source / "a/two").write_bytes(b"second")
    (source / "left").mkdir()
    (source / "left/out").write_bytes(b"third")
    copy = WorkingCopy(source, tmp_path / "copy", without=("left",))
    copy.restore()
    whole = tree(copy.folder)
    assert whole == {name: c for name, c in tree(source).items() if not name.startswith("left")}
    for _ in range(3):
        HARMS[harm](copy.folder)
        copy.restore()
        assert tree(copy.folder) == whole


def test_what_was_not_touched_is_not_written_again(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in "ab":
        (source / name).write_bytes(b"x")
    copy = WorkingCopy(source, tmp_path / "copy")
    copy.restore()
    inode = (copy.folder / "a").stat().st_ino
    (copy.folder / "b").write_bytes(b"y")
    copy.restore()
    assert (copy.folder / "a").stat().st_ino == inode
    assert (copy.folder / "b").read_bytes() == b"x"
