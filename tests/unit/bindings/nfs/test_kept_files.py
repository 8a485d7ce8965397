"""Chunks that were read recently are read from memory, by descriptors that are kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from errno import EAGAIN
from functools import partial
from pathlib import Path

import pytest

from siltstone.bindings.nfs.chunk_storage import KEPT_BYTES_MAX, NfsChunkStorage
from siltstone.bindings.nfs.kept_files import FILES_MAX
from siltstone.core.posix import PathName, SystemFileCalls
from siltstone.testing.faults.file_layer import FileLayer
from tests.support.faults.held_things import held_below
from tests.support.served_pages import can_tell

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """A folder on a disk: not every file system in memory tells what it has there."""
    return disk_path


@pytest.fixture
def storage(tmp_path: Path) -> NfsChunkStorage:
    if not can_tell(tmp_path):
        pytest.skip("the file system of the test's folder does not tell what it has in memory")
    storage = NfsChunkStorage(tmp_path / "chunks")
    storage.create("a/b", [CONTENT])
    return storage


def read(storage: NfsChunkStorage, name: str = "a/b", length: int = 100) -> None:
    storage.read_into(name, 0, bytearray(length))


def read_now(storage: NfsChunkStorage, offset: int, length: int) -> tuple[bytes, str | None]:
    buffer = bytearray(length)
    version = storage.immediate_reads()("a/b", offset, memoryview(buffer))
    return bytes(buffer), version


def test_what_was_read_before_is_read_without_waiting(storage: NfsChunkStorage) -> None:
    assert read_now(storage, 0, 10)[1] is None
    read(storage)
    assert read_now(storage, 300, 500) == (CONTENT[300:800], storage.stat("a/b").version)
    storage.write("a/b", len(CONTENT), [b"more"])
    assert read_now(storage, len(CONTENT), 4) == (b"more", storage.stat("a/b").version)
    storage.close()


def test_a_range_that_is_not_all_there_is_not_read(storage: NfsChunkStorage) -> None:
    read(storage)
    assert read_now(storage, len(CONTENT) - 1, 2)[1] is None
    assert read_now(storage, len(CONTENT) + 1, 2)[1] is None
    storage.close()


class Forgetful(SystemFileCalls):
    """A kernel that has nothing in memory."""

    def preadv_now(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        raise BlockingIOError(EAGAIN, "it would have to wait")


def test_what_is_not_in_memory_is_not_waited_for(tmp_path: Path) -> None:
    before = held_below(tmp_path)
    storage = NfsChunkStorage(tmp_path / "chunks", calls=Forgetful())
    storage.create("a/b", [CONTENT])
    read(storage)
    assert read_now(storage, 0, 100)[1] is None
    assert held_below(tmp_path) == before + 2, "the root, and a chunk that may be in memory later"
    storage.close()
    assert held_below(tmp_path) == before


@pytest.mark.parametrize("how", ["deleted", "deleted by another", "replaced"])
def test_a_chunk_that_is_gone_is_let_go(storage: NfsChunkStorage, tmp_path: Path, how: str) -> None:
    before = held_below(tmp_path)
    read(storage)
    assert held_below(tmp_path) == before + 1
    path = tmp_path / "chunks" / "a" / "b"
    if how == "deleted":
        storage.delete("a/b")
    elif how == "replaced":
        (tmp_path / "other").write_bytes(b"other" * 1000)
        (tmp_path / "other").rename(path)
    else:
        path.unlink()
    assert read_now(storage, 0, 100)[1] is None
    assert held_below(tmp_path) == before
    storage.close()


def test_a_chunk_that_is_gone_but_for_the_draft_of_a_dead_writer_is_let_go(
    storage: NfsChunkStorage, tmp_path: Path
) -> None:
    path = tmp_path / "chunks" / "a" / "b"
    os.link(path, tmp_path / "draft")
    read(storage)
    assert read_now(storage, 0, 10)[1] is not None
    path.unlink()
    assert read_now(storage, 0, 10)[1] is None
    storage.close()


def test_a_chunk_that_was_shortened_has_another_version(
    storage: NfsChunkStorage, tmp_path: Path
) -> None:
    read(storage)
    version = read_now(storage, 0, 100)[1]
    os.truncate(tmp_path / "chunks" / "a" / "b", 200)
    assert read_now(storage, 0, 100)[1] not in {version, None}
    assert read_now(storage, 150, 100)[1] is None
    storage.close()


def test_a_bounded_number_is_kept_and_none_after_the_end(
    storage: NfsChunkStorage, tmp_path: Path
) -> None:
    before = held_below(tmp_path)
    for number in range(FILES_MAX + 5):
        storage.create(f"many/{number}", [CONTENT])
        read(storage, f"many/{number}")
        read(storage, f"many/{number}")
    assert held_below(tmp_path) == before + FILES_MAX
    assert storage.immediate_reads()("many/0", 0, memoryview(bytearray(9))) is None
    storage.close()
    assert held_below(tmp_path) < before
    assert storage.immediate_reads()(f"many/{FILES_MAX}", 0, memoryview(bytearray(9))) is None


def test_a_reader_of_much_of_a_chunk_comes_back_unless_it_was_all(
    storage: NfsChunkStorage, tmp_path: Path
) -> None:
    before = held_below(tmp_path)
    length = KEPT_BYTES_MAX + 1
    storage.create("large", [bytes(length)])
    read(storage, "large", length)
    assert held_below(tmp_path) == before
    storage.write("large", length, [b"more"])
    read(storage, "large", length)
    assert held_below(tmp_path) == before + 1
    storage.close()


class Interrupting(SystemFileCalls):
    """Closes the chunk while it is read, and uses its descriptor again if that is free."""

    def __init__(self) -> None:
        self.storage: NfsChunkStorage | None = None

    def preadv_now(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        if self.storage is not None:
            storage, self.storage = self.storage, None
            for number in range(FILES_MAX):
                read(storage, f"other/{number}")
            storage._kept.forget("a/b")
            with open("/dev/zero", "rb") as other:
                assert other.fileno() != fd
                return super().preadv_now(fd, buffers, offset)
        return super().preadv_now(fd, buffers, offset)


def test_what_is_let_go_during_a_read_is_closed_after_it(tmp_path: Path) -> None:
    if not can_tell(tmp_path):
        pytest.skip("the file system of the test's folder does not tell what it has in memory")
    calls = Interrupting()
    storage = NfsChunkStorage(tmp_path / "chunks", calls=calls)
    storage.create("a/b", [CONTENT])
    for number in range(FILES_MAX):
        storage.create(f"other/{number}", [bytes(100)])
    read(storage)
    before = held_below(tmp_path)
    calls.storage = storage
    assert read_now(storage, 5, 10) == (CONTENT[5:15], storage.stat("a/b").version)
    assert read_now(storage, 5, 10)[1] is None
    assert held_below(tmp_path) == before - 1 + FILES_MAX
    storage.close()


class MeetingDelete(SystemFileCalls):
    """Lets a read and a delete meet: one comes while the other is under way."""

    def __init__(self) -> None:
        self.as_it_reads: Callable[[], None] | None = None
        self.as_it_deletes: Callable[[], None] | None = None

    def preadv(self, fd: int, buffers: Sequence[memoryview | bytearray], offset: int) -> int:
        meet, self.as_it_reads = self.as_it_reads, None
        if meet is not None:
            meet()
        return super().preadv(fd, buffers, offset)

    def unlink(self, path: PathName, *, dir_fd: int | None = None) -> None:
        meet, self.as_it_deletes = self.as_it_deletes, None
        if meet is not None:
            meet()
        super().unlink(path, dir_fd=dir_fd)


@pytest.mark.parametrize("first", ["the read", "the delete"])
def test_a_chunk_that_is_read_as_it_is_deleted_is_not_kept(tmp_path: Path, first: str) -> None:
    if not can_tell(tmp_path):
        pytest.skip("the file system of the test's folder does not tell what it has in memory")
    calls = MeetingDelete()
    storage = NfsChunkStorage(tmp_path / "chunks", calls=calls)
    storage.create("a", [CONTENT])
    before = held_below(tmp_path)
    if first == "the read":
        calls.as_it_reads = partial(storage.delete, "a")
        read(storage, "a")
    else:
        calls.as_it_deletes = partial(read, storage, "a")
        storage.delete("a")
    assert held_below(tmp_path) == before
    storage.close()


def test_what_is_read_again_stays_longest(storage: NfsChunkStorage) -> None:
    read(storage)
    for number in range(3 * FILES_MAX):
        storage.create(f"many/{number}", [CONTENT])
        read(storage, f"many/{number}")
        assert read_now(storage, 0, 10)[1] is not None
    storage.close()


def test_a_file_system_that_cannot_tell_is_asked_once(tmp_path: Path) -> None:
    layer = FileLayer()
    storage = NfsChunkStorage(tmp_path / "chunks", calls=layer)
    storage.create("a/b", [CONTENT])
    before = held_below(tmp_path)
    for _ in range(3):
        read(storage)
        assert read_now(storage, 0, 10)[1] is None
    assert held_below(tmp_path) == before
    storage.close()
