"""An NFS client that answers from memory: the binding asks in ways that reach the server.

The model: which names are missing is remembered for each folder until the folder is opened, and
attributes are remembered for each file until the file is opened. Another client changes the folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.posix import PathName, SystemFileCalls


class RememberingClient(SystemFileCalls):
    """The remembered names are those in a folder; the root folder is one of its parent's names."""

    def __init__(self) -> None:
        self.missing: set[str] = set()
        self.attributes: dict[str, os.stat_result] = {}

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        place = self._place(path, dir_fd)
        if place in self.missing and not flags & os.O_CREAT:
            raise FileNotFoundError(f"in memory: {place}")
        try:
            fd = super().open(path, flags, mode, dir_fd=dir_fd)
        except FileNotFoundError:
            self.missing.add(place)
            raise
        self.missing = {name for name in self.missing if os.path.dirname(name) != place}
        self.missing.discard(place)
        self.attributes[place] = os.fstat(fd)
        return fd

    def open_below(self, path: PathName, flags: int, *, dir_fd: int) -> int:
        place = self._place(path, dir_fd)
        for above in (place, *map(str, Path(place).parents)):
            if above in self.missing:
                raise FileNotFoundError(f"in memory: {above}")
        fd = super().open_below(path, flags, dir_fd=dir_fd)
        self.attributes[place] = os.fstat(fd)
        return fd

    def stat(self, path: PathName, *, dir_fd: int | None = None) -> os.stat_result:
        place = self._place(path, dir_fd)
        if place in self.missing:
            raise FileNotFoundError(f"in memory: {place}")
        if place not in self.attributes:
            self.attributes[place] = super().stat(path, dir_fd=dir_fd)
        return self.attributes[place]

    def mkdir(self, path: PathName, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self.missing.discard(self._place(path, dir_fd))
        super().mkdir(path, mode, dir_fd=dir_fd)

    def unlink(self, path: PathName, *, dir_fd: int | None = None) -> None:
        super().unlink(path, dir_fd=dir_fd)
        self.missing.add(self._place(path, dir_fd))

    def _place(self, path: PathName, dir_fd: int | None) -> str:
        above = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        return os.path.normpath(os.path.join(above, os.fsdecode(path)))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "chunks"


@pytest.fixture
def here(root: Path) -> NfsChunkStorage:
    return NfsChunkStorage(root, calls=RememberingClient())


@pytest.fixture
def there(root: Path) -> NfsChunkStorage:
    return NfsChunkStorage(root)


def lengths(storage: NfsChunkStorage) -> dict[str, int]:
    return {chunk.name: chunk.length for chunk in storage.list()}


@pytest.mark.parametrize("name", ["a", "d/a"])
def test_a_chunk_that_was_missing(here: NfsChunkStorage, there: NfsChunkStorage, name: str) -> None:
    there.create("d/other", [b"x"])
    with pytest.raises(ChunkNotFoundError):
        here.stat(name)
    there.create(name, [b"abc"])
    assert here.stat(name).length == 3
    assert here.read_into(name, 0, bytearray(9)) == 3


def test_a_read_of_what_was_missing(here: NfsChunkStorage, there: NfsChunkStorage) -> None:
    there.create("d/other", [b"x"])
    for name in ("d/a", "e/a"):
        with pytest.raises(ChunkNotFoundError):
            here.read_into(name, 0, bytearray(9))
        there.create(name, [b"abc"])
        assert here.read_into(name, 0, bytearray(9)) == 3
        there.write(name, 3, [b"def"])
        assert here.read_into(name, 0, bytearray(9)) == 6


def test_a_folder_that_was_missing(here: NfsChunkStorage, there: NfsChunkStorage) -> None:
    there.create("other", [b"x"])
    assert list(here.list("d/e/")) == []
    there.create("d/e/a", [b"abc"])
    assert [chunk.name for chunk in here.list("d/e/")] == ["d/e/a"]
    assert here.stat("d/e/a").length == 3


def test_a_root_that_was_missing(here: NfsChunkStorage, there: NfsChunkStorage) -> None:
    assert lengths(here) == {}
    there.create("a", [b"abc"])
    assert lengths(here) == {"a": 3}


def test_a_chunk_that_grew(here: NfsChunkStorage, there: NfsChunkStorage) -> None:
    there.create("d/a", [b"abc"])
    assert lengths(here) == {"d/a": 3}
    there.write("d/a", 3, [b"def"])
    assert lengths(here) == {"d/a": 6}
    assert here.used_space() == 6
    here.write("d/a", 6, [b"g"])
    assert lengths(there) == {"d/a": 7}


@pytest.mark.parametrize("name", ["a", "d/a"])
def test_a_chunk_that_came_back(here: NfsChunkStorage, there: NfsChunkStorage, name: str) -> None:
    here.create(name, [b"abc"])
    here.create("d/b", [b"abc"])
    here.delete(name)
    there.create(name, [b"x"])
    here.delete(name)
    assert lengths(there) == {"d/b": 3}


def test_the_model_does_remember(root: Path) -> None:
    """Without this the tests above would prove nothing."""
    root.mkdir()
    calls = RememberingClient()
    folder = calls.open(str(root), os.O_RDONLY)
    with pytest.raises(FileNotFoundError):
        calls.open(b"a", os.O_RDONLY, dir_fd=folder)
    (root / "a").write_bytes(b"abc")
    with pytest.raises(FileNotFoundError, match="in memory"):
        calls.open(b"a", os.O_RDONLY, dir_fd=folder)
    os.close(calls.open(str(root), os.O_RDONLY))
    assert calls.stat(b"a", dir_fd=folder).st_size == 3
    (root / "a").write_bytes(b"abcdef")
    assert calls.stat(b"a", dir_fd=folder).st_size == 3
    os.close(folder)
