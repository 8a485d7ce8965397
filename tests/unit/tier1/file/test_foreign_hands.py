"""A file of a log is moved, removed or replaced while the owner lives.

What must hold: the owner acknowledges nothing more as soon as a frame would go to a file without a
name, and ends soon when the file got another name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.core.errors import LogError
from siltstone.testing.faults.file_layer import FileLayer
from siltstone.tier1.file.fenced_log import FileFencedLog
from tests.support.file_log.log_world import LINEAGE, bodies, create, files, log_at, put


@pytest.fixture
def owned(tmp_path: Path) -> FileFencedLog:
    """A log with two frames, and its owner."""
    log = create(tmp_path)
    put(log, b"one", b"two")
    return log


def _replace(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copyfile(path, copy)
    copy.rename(path)


@pytest.mark.parametrize("change", [os.unlink, _replace], ids=["unlinked", "replaced"])
def test_no_frame_is_acknowledged_in_a_file_without_a_name(
    owned: FileFencedLog, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    file = files(tmp_path)[0]
    change(file)
    with pytest.raises(LogError, match="removed or replaced") as caught:
        put(owned, b"three")
    assert str(file) in str(caught.value)
    with pytest.raises(LogError, match="poisoned"):
        put(owned, b"four")
    owned.abandon()


def test_a_file_after_the_newest_one_may_go(tmp_path: Path) -> None:
    log = create(tmp_path)
    put(log, *[b"x" * 5000] * 8)
    log.truncate(7)
    put(log, b"y")
    log.tend()
    assert bodies(log.read(log.first()))[-1] == b"y"
    log.abandon()


@pytest.mark.parametrize("what", ["file", "marker", "folder"])
@pytest.mark.parametrize("replaced", [False, True], ids=["moved", "replaced"])
def test_an_owner_whose_files_were_moved_ends_at_its_next_look(
    owned: FileFencedLog, tmp_path: Path, what: str, replaced: bool
) -> None:
    places = {"file": files(tmp_path)[0], "marker": tmp_path / "c0" / "marker"}
    place = places.get(what, tmp_path / "c0")
    away = place.rename(tmp_path / "away")
    if replaced and what == "folder":
        shutil.copytree(away, place)
    elif replaced:
        shutil.copyfile(away, place)
    with pytest.raises(LogError, match="moved or replaced") as caught:
        owned.tend()
    assert str(place) in str(caught.value)
    with pytest.raises(LogError, match="poisoned"):
        put(owned, b"three")
    owned.abandon()


def test_a_hard_link_of_a_backup_disturbs_no_owner(owned: FileFencedLog, tmp_path: Path) -> None:
    os.link(files(tmp_path)[0], tmp_path / "kept")
    put(owned, b"three")
    owned.tend()
    (tmp_path / "kept").unlink()
    put(owned, b"four")
    assert bodies(owned.read(0)) == [b"one", b"two", b"three", b"four"]
    owned.abandon()


def test_no_frame_is_acknowledged_in_a_file_that_cannot_be_looked_at(tmp_path: Path) -> None:
    calls = FileLayer()
    log = log_at(tmp_path, calls)
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="first")
    put(log, b"one")
    calls.fail_call("links")
    with pytest.raises(LogError):
        put(log, b"two")
    with pytest.raises(LogError, match="poisoned"):
        put(log, b"three")
    log.abandon()
