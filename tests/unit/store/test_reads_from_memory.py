"""Small reads of bytes in the machine's memory make no call, and are verified anyway."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.core.storage.async_storage import AsyncChunkStorage
from tests.support.served_pages import can_tell

BLOCK_BYTES = 256 * 1024


class Place:
    """A store with one segment of eight blocks in one chunk."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = siltstone.init(folder / "store")
        self.content = os.urandom(8 * BLOCK_BYTES)
        self.calls = 0
        self.store = siltstone.open(settings)
        self.segment = self.store.create("a")
        self.segment.append(self.content)
        self.segment.flush()
        (chunk,) = self.segment.chunks()
        self.path = folder / "store" / "chunks" / chunk.chunk
        run = AsyncChunkStorage.run

        async def counted(*arguments: object, **more: object) -> object:
            self.calls += arguments[1] == "read_into"
            return await run(*arguments, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(AsyncChunkStorage, "run", counted)

    def damage(self, offset: int) -> None:
        """Change a byte so that only the byte shows it."""
        before = self.path.stat()
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(bytes([self.content[offset] ^ 1]))
        os.utime(self.path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """A folder on a disk: not every file system in memory tells what it has there."""
    return disk_path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if not can_tell(tmp_path):
        pytest.skip("the file system of the test's folder does not tell what it has in memory")
    place = Place(tmp_path, monkeypatch)
    with place.store:
        yield place


def test_only_the_first_small_read_of_a_chunk_is_a_call(place: Place) -> None:
    for offset in (0, 50, 3 * BLOCK_BYTES - 50, 7 * BLOCK_BYTES, 50):
        assert place.segment.read(offset, 100) == place.content[offset : offset + 100]
    assert place.calls == 1


def test_what_grows_is_read_as_it_is_now(place: Place) -> None:
    for number in range(5):
        place.segment.append(b"%d" % number)
        place.segment.flush()
        assert place.segment.read(8 * BLOCK_BYTES - 3, 99)[3:] == b"01234"[: number + 1]
    assert place.calls == 1


def test_a_damaged_block_is_told(place: Place) -> None:
    assert place.segment.read(0, 10) == place.content[:10]
    place.damage(5 * BLOCK_BYTES)
    with pytest.raises(siltstone.CorruptDataError):
        place.segment.read(5 * BLOCK_BYTES + 70, 10)


def test_a_chunk_that_was_written_to_is_verified_again(place: Place) -> None:
    assert place.segment.read(0, 10) == place.content[:10]
    with place.path.open("r+b") as file:
        file.write(b"other bytes")
    with pytest.raises(siltstone.CorruptDataError):
        place.segment.read(0, 10)


def test_a_chunk_that_is_gone_is_lost(place: Place) -> None:
    assert place.segment.read(0, 10) == place.content[:10]
    place.path.unlink()
    with pytest.raises(siltstone.LostDataError):
        place.segment.read(0, 10)
