"""Recording, failing and filling up, as tests rely on them."""

from __future__ import annotations

import errno
import inspect
import os
from pathlib import Path

import pytest

from siltstone.core.posix import FileCalls, SystemFileCalls
from siltstone.testing.faults.file_layer import KINDS, Call, FileLayer, FullDisk


@pytest.mark.parametrize("kind", [SystemFileCalls, FileLayer])
def test_every_call_is_defined_with_its_own_signature(kind: type) -> None:
    """An inherited stub would return nothing instead of asking the file system."""
    contract = {name for name in vars(FileCalls) if not name.startswith("_")}
    # A layer has nothing in memory and opens one part of a path at a time: it refuses both calls.
    assert contract == {*KINDS, "preadv_now", "open_below"}
    for name in contract:
        theirs = inspect.signature(vars(kind)[name])
        assert theirs == inspect.signature(vars(FileCalls)[name]), name


def test_calls_are_recorded_by_the_name_that_was_opened(tmp_path: Path) -> None:
    layer = FileLayer()
    fd = layer.open(str(tmp_path / "a"), os.O_CREAT | os.O_RDWR)
    layer.pwritev(fd, [b"x"], 0)
    layer.close(fd)
    path = str(tmp_path / "a")
    assert layer.calls == [Call(kind=kind, target=path) for kind in ("open", "pwritev", "close")]
    layer.forget()
    assert layer.calls == []


def test_the_chosen_call_fails_once(tmp_path: Path) -> None:
    layer = FileLayer()
    layer.mkdir(str(tmp_path / "before"))
    layer.fail_call("mkdir", 2, errno.EDQUOT)
    layer.mkdir(str(tmp_path / "a"))
    with pytest.raises(OSError, match="quota"):
        layer.mkdir(str(tmp_path / "b"))
    layer.mkdir(str(tmp_path / "c"))
    assert sorted(os.listdir(tmp_path)) == ["a", "before", "c"]


def test_a_call_may_fail_after_its_effect(tmp_path: Path) -> None:
    layer = FileLayer()
    layer.fail_call("mkdir", applied=True)
    with pytest.raises(OSError, match="put/output"):
        layer.mkdir(str(tmp_path / "a"))
    assert os.listdir(tmp_path) == ["a"]


def test_a_failing_close_closes(tmp_path: Path) -> None:
    layer = FileLayer()
    fd = layer.open(str(tmp_path), os.O_RDONLY)
    layer.fail_call("close")
    with pytest.raises(OSError, match="put/output"):
        layer.close(fd)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)


def test_a_full_disk_writes_what_fits_and_then_nothing(tmp_path: Path) -> None:
    disk = FullDisk(room=5)
    fd = disk.open(str(tmp_path / "a"), os.O_CREAT | os.O_RDWR)
    assert disk.pwritev(fd, [b"abc"], 0) == 3
    assert disk.pwritev(fd, [b"XYZ"], 0) == 3, "overwriting needs no room"
    assert disk.pwritev(fd, [b"d", b"efg"], 3) == 2
    with pytest.raises(OSError, match="space"):
        disk.pwritev(fd, [b"f"], 5)
    with pytest.raises(OSError, match="space"):
        disk.open(str(tmp_path / "b"), os.O_CREAT | os.O_RDWR)
    disk.room = 2
    with pytest.raises(OSError, match="space"):
        disk.posix_fallocate(fd, 0, 8)
    disk.posix_fallocate(fd, 0, 7)
    assert disk.room == 0
    disk.close(fd)
    assert (tmp_path / "a").read_bytes() == b"XYZde\0\0"
