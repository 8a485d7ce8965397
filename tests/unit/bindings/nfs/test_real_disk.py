"""A disk that really fills up, is really read-only, and whose power is really cut.

The layers of the test kit are models; here the kernel speaks for itself.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkStorageFullError,
    Outcome,
)
from tests.support.faults.crash_file_system import CrashFileSystem
from tests.support.faults.real_disk import real_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CrashFileSystem]:
    yield from real_disk(tmp_path, 8)


def read(storage: NfsChunkStorage, name: str) -> bytes:
    buffer = bytearray(storage.stat(name).length)
    storage.read_into(name, 0, buffer)
    return bytes(buffer)


def test_a_full_disk(disk: CrashFileSystem) -> None:
    storage = NfsChunkStorage(disk.folder / "chunks")
    storage.create("d/first", [b"first"])
    with pytest.raises(ChunkStorageFullError) as caught:
        storage.create("d/large", [bytes(1 << 20)] * 16)
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert [chunk.name for chunk in storage.list()] == ["d/first"]
    storage.create("d/second", [bytes(1 << 20)])  # The space was given back.
    with pytest.raises(ChunkStorageFullError) as caught:
        storage.write("d/second", 1 << 20, [bytes(1 << 20)] * 16)
    assert caught.value.outcome is Outcome.UNKNOWN
    assert read(storage, "d/first") == b"first"
    storage.delete("d/second")
    storage.write("d/first", 5, [b"second"])
    assert read(storage, "d/first") == b"firstsecond"
    storage.close()


def test_a_read_only_disk(disk: CrashFileSystem) -> None:
    storage = NfsChunkStorage(disk.folder / "chunks")
    storage.create("d/a", [b"abc"])
    storage.close()
    disk.remount_read_only()
    storage = NfsChunkStorage(disk.folder / "chunks")
    calls: list[Callable[[], object]] = [
        lambda: storage.create("d/b", [b"x"]),
        lambda: storage.create("e/b", [b"x"]),
        lambda: storage.write("d/a", 3, [b"x"]),
        lambda: storage.delete("d/a"),
        lambda: storage.seal("d/a"),
    ]
    for call in calls:
        with pytest.raises(ChunkAccessDeniedError, match=errno.errorcode[errno.EROFS]) as caught:
            call()
        assert caught.value.outcome is Outcome.NOT_APPLIED
    assert read(storage, "d/a") == b"abc"
    storage.close()


def test_a_power_cut(disk: CrashFileSystem) -> None:
    storage = NfsChunkStorage(disk.folder / "chunks")
    for number in range(5):
        storage.create(f"d{number}/e/a", [b"abc"])
        storage.write(f"d{number}/e/a", 3, [b"def"])
    storage.create("gone/a", [b"x"])
    storage.delete("gone/a")
    storage.seal("d0/e/a")
    storage.close()
    disk.cut()
    disk.restart()
    storage = NfsChunkStorage(disk.folder / "chunks")
    assert [chunk.name for chunk in storage.list()] == [f"d{number}/e/a" for number in range(5)]
    assert {read(storage, f"d{number}/e/a") for number in range(5)} == {b"abcdef"}
    with pytest.raises(ChunkAccessDeniedError):
        storage.write("d0/e/a", 6, [b"x"])
    storage.close()


def test_the_cut_does_lose_what_was_not_synced(disk: CrashFileSystem) -> None:
    """Without this the test above would prove nothing."""
    storage = NfsChunkStorage(disk.folder / "chunks")
    storage.create("a", [b"x"])
    (disk.folder / "chunks" / "unsynced").write_bytes(b"x")
    storage.close()
    disk.cut()
    disk.restart()
    assert [path.name for path in (disk.folder / "chunks").iterdir()] == ["a"]
