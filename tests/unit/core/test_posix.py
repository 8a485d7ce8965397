"""The loops over calls that may do less than was asked for."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core import posix
from siltstone.core.constants import Buffer
from siltstone.core.posix import IOV_MAX, SystemFileCalls, read_fully, write_fully


class Memory(SystemFileCalls):
    """A file in memory whose calls each move ``most`` bytes at most."""

    def __init__(self, most: int) -> None:
        self.content = bytearray()
        self._most = most

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        assert len(buffers) <= IOV_MAX
        part = b"".join(buffers)[: self._most]
        self.content[offset : offset + len(part)] = part
        return len(part)

    def preadv(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        part = self.content[offset : offset + min(self._most, len(buffers[0]))]
        buffers[0][: len(part)] = part
        return len(part)


@pytest.mark.slow
@given(st.lists(st.binary(max_size=9), max_size=20), st.integers(1, 30))
def test_everything_is_written_and_read_in_order(parts: list[bytes], most: int) -> None:
    file = Memory(most)
    whole = b"".join(parts)
    assert write_fully(file, 0, parts, 0) == len(whole)
    assert file.content == whole
    buffer = bytearray(len(whole) + 3)
    assert read_fully(file, 0, buffer, 0) == len(whole)
    assert buffer == whole + bytes(3)


def test_more_buffers_than_one_call_takes(tmp_path: Path) -> None:
    calls = SystemFileCalls()
    fd = calls.open(str(tmp_path / "a"), os.O_CREAT | os.O_RDWR)
    assert write_fully(calls, fd, [b"xy"] * (2 * IOV_MAX + 1), 1) == 4 * IOV_MAX + 2
    calls.close(fd)
    assert (tmp_path / "a").read_bytes() == b"\0" + b"xy" * (2 * IOV_MAX + 1)


def test_a_write_without_progress_is_an_error() -> None:
    with pytest.raises(OSError, match="no progress"):
        write_fully(Memory(0), 0, [b"x"], 0)


@pytest.mark.parametrize("refused", [0, errno.ENOSYS])
def test_an_open_file_tells_how_many_names_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """Also where there is no such call, as below some sandboxes."""
    if refused:
        monkeypatch.setattr(posix, "_statx", lambda *_: ctypes.set_errno(refused) or -1)
    calls = SystemFileCalls()
    path = tmp_path / "a"
    fd = calls.open(str(path), os.O_CREAT | os.O_RDWR)
    assert calls.links(fd) == 1
    os.link(path, tmp_path / "b")
    assert calls.links(fd) == 2
    (tmp_path / "new").touch()
    os.rename(tmp_path / "new", path)
    os.unlink(tmp_path / "b")
    assert calls.links(fd) == 0
    calls.close(fd)
    with pytest.raises(OSError, match="file descriptor"):
        calls.links(fd)


def test_a_folder_that_was_made_again_is_another_one(tmp_path: Path) -> None:
    """Its number may be the same; a file system that cannot tell it from the older one says so."""
    calls = SystemFileCalls()
    seen: list[tuple[int, ...] | None] = []
    for _ in range(20):
        (tmp_path / "folder").mkdir()
        for _ in range(2):
            fd = calls.open(str(tmp_path / "folder"), os.O_RDONLY)
            seen.append(calls.identity(fd))
            calls.close(fd)
        (tmp_path / "folder").rmdir()
    if seen[0] is None:
        assert set(seen) == {None}
    else:
        assert seen[::2] == seen[1::2]
        assert len(set(seen)) == 20
