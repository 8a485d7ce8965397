"""A get reads exactly its record from long-term storage, and tells damage as ordinary reads do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone import objects
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.errors import ChunkNotFoundError
from siltstone.core.storage.optional_verbs import ReadNow
from siltstone.objects.async_keyspace import AsyncKeyspace
from siltstone.objects.keyspace import Keyspace
from siltstone.objects.records.head import Head
from siltstone.store.blocking.background_loop import BackgroundLoop
from tests.support.served_pages import can_tell

BLOCK_BYTES = 256 * 1024
SIZE = 8 * 1024
COUNT = 40

GONE = ChunkNotFoundError("gone", chunk="values", operation="read_into")

Wrong = Callable[[memoryview, int], int]
"""Given the buffer that was filled and the count, spoils an answer and returns its count."""


class Place:
    """A store with a keyspace of 40 values, in one flushed chunk of two blocks.

    Attributes:
        reads: offset in the chunk and length of each request for bytes of values.
        wrong: what spoils the next answers, in order.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[tuple[int, int]] = []
        self.wrong: list[Wrong | Exception] = []
        self.file = siltstone.init(folder / "store")
        self.values = [os.urandom(SIZE) for _ in range(COUNT)]
        self.store: siltstone.Store | None = None
        self._patch = monkeypatch
        inner = NfsChunkStorage.read_into

        def read_into(storage: NfsChunkStorage, name: str, offset: int, buffer: Any) -> int:
            if "values" not in name:
                return inner(storage, name, offset, buffer)
            self.reads.append((offset, len(buffer)))
            wrong = self.wrong.pop(0) if self.wrong else None
            if isinstance(wrong, Exception):
                raise wrong
            count = inner(storage, name, offset, buffer)
            return count if wrong is None else wrong(memoryview(buffer), count)

        monkeypatch.setattr(NfsChunkStorage, "read_into", read_into)

    def settings(self, text: str) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text)

    def filled(self, *, flush: bool = True) -> Keyspace:
        self.store = siltstone.open(self.file)
        space = objects.create(self.store, "photos")
        space._loop.run(self._fill(space._keyspace))
        if flush:
            self.store.flush()
        return space

    async def _fill(self, space: AsyncKeyspace) -> None:
        day = {"day": ["monday"]}
        puts = [
            space.put("b", f"k{number:02d}", value, metadata=b"note", index=day)
            for number, value in enumerate(self.values)
        ]
        await asyncio.gather(*puts)

    def opened(self, **choices: Any) -> Keyspace:
        if self.store is not None:
            self.store.close()
        self.store = siltstone.open(self.file, **choices)
        self.reads.clear()
        return objects.open(self.store, "photos")

    def cold(self) -> Keyspace:
        """The keyspace, filled, flushed and opened again; nothing of it is in memory."""

        def nothing(storage: NfsChunkStorage) -> ReadNow | None:
            return None

        self._patch.setattr(NfsChunkStorage, "immediate_reads", nothing)
        self.filled()
        return self.opened()

    def head(self, space: Keyspace, number: int) -> Head:
        key = space._keyspace.key_of("o", "b", f"k{number:02d}")
        seen = space._keyspace._parts.ledger.head_now(key)
        assert seen is not None
        assert seen[0] is not None
        return seen[0]

    @property
    def chunks(self) -> list[Path]:
        found = (self.file.parent / "chunks" / "data").rglob("*.chunk")
        return [path for path in found if "values" in str(path)]

    def damage(self, offset: int) -> None:
        """Change a byte of the chunk so that only the byte shows it."""
        (path,) = self.chunks
        before = path.stat()
        path.chmod(0o644)
        with path.open("r+b") as file:
            file.seek(offset)
            old = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([old ^ 1]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """A folder on a disk: not every file system in memory tells what it has there."""
    return disk_path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    place = Place(tmp_path, monkeypatch)
    yield place
    place.close()


@pytest.fixture
def alone() -> Iterator[Callable[[], None]]:
    """What makes every step to the store's loop an error."""

    def run(loop: BackgroundLoop, work: Any) -> Any:
        work.close()
        raise AssertionError("this thread should read alone")

    with pytest.MonkeyPatch.context() as patch:
        yield lambda: patch.setattr(BackgroundLoop, "run", run)


def value(space: Keyspace, number: int) -> bytes:
    found = space.get("b", f"k{number:02d}")
    assert found is not None
    return found.value


def flip(view: memoryview, count: int) -> int:
    view[100] ^= 1
    return count


def cut(view: memoryview, count: int) -> int:
    return count - 1


# --- from long-term storage -----------------------------------------------------------------------


def test_a_get_is_one_request_of_the_record_alone(place: Place) -> None:
    space = place.cold()
    for number in (31, 0, 32, 39):  # the first blocks end in a record, too
        head = place.head(space, number)
        place.reads.clear()
        assert value(space, number) == place.values[number]
        assert place.reads == [(head.offset, head.length)]
        assert head.length <= SIZE + 1024


async def test_an_awaited_get_is_one_request_too(place: Place) -> None:
    place.cold()
    place.close()
    place.store = None
    async with await siltstone.open_async(place.file) as store:
        space = await objects.open_async(store, "photos")
        place.reads.clear()
        found = await space.get("b", "k07")
        assert found is not None
        assert found.value == place.values[7]
        ((_, length),) = place.reads
        assert SIZE < length <= SIZE + 1024


def test_a_record_in_several_chunks_is_one_request_of_each(place: Place) -> None:
    place.settings("\nsegments:\n  chunk_size: 5000\n")
    space = place.cold()
    head = place.head(space, 5)
    assert place.store is not None
    parts = [
        each
        for each in place.store.segment("objects/{photos}/values/00000001").chunks()
        if each.start < head.offset + head.length and head.offset < each.start + each.length
    ]
    assert value(space, 5) == place.values[5]
    assert len(place.reads) == len(parts) > 1
    assert sum(length for _, length in place.reads) == head.length


def test_a_large_record_is_one_request_too(place: Place) -> None:
    large = os.urandom(3 * 2**20)
    place.values[20] = large
    space = place.cold()
    head = place.head(space, 20)
    assert value(space, 20) == large
    assert place.reads == [(head.offset, head.length)]


def test_damage_to_a_neighbour_in_the_block_does_not_matter(place: Place) -> None:
    space = place.cold()
    place.damage(place.head(space, 4).offset + 1000)
    assert value(space, 5) == place.values[5]
    assert len(place.reads) == 1


@pytest.mark.parametrize("at", [0, 8, 60, -SIZE, -4])
def test_damage_to_the_record_is_told(place: Place, at: int) -> None:
    space = place.cold()
    head = place.head(space, 5)
    place.damage(head.offset + (at if at >= 0 else head.length + at))
    with pytest.raises(siltstone.LostDataError, match="block does not match its sum") as caught:
        value(space, 5)
    assert isinstance(caught.value, objects.LostObjectError)
    assert place.reads == [(head.offset, head.length), (0, BLOCK_BYTES), (0, BLOCK_BYTES)]


@pytest.mark.parametrize("wrong", [flip, cut, GONE])
def test_an_answer_that_is_wrong_once_is_read_again_by_blocks(
    place: Place, wrong: Wrong | Exception
) -> None:
    space = place.cold()
    head = place.head(space, 5)
    place.wrong = [wrong]
    assert value(space, 5) == place.values[5]
    assert place.reads == [(head.offset, head.length), (0, BLOCK_BYTES)]


def test_a_chunk_that_is_too_short_is_told(place: Place) -> None:
    space = place.cold()
    (path,) = place.chunks
    path.chmod(0o644)
    os.truncate(path, place.head(space, 5).offset + 100)
    with pytest.raises(siltstone.LostDataError, match="shorter than its committed length"):
        value(space, 5)


def test_a_chunk_that_is_gone_is_told(place: Place) -> None:
    space = place.cold()
    place.chunks[0].unlink()
    with pytest.raises(siltstone.LostDataError, match="chunk does not exist any more"):
        value(space, 5)


@pytest.mark.parametrize("mode", ["remembered", "always", "never"])
def test_a_get_is_one_request_and_verified_in_every_mode(place: Place, mode: str) -> None:
    place.settings(f"\nreads:\n  verify: {mode}\n")
    space = place.cold()
    assert value(space, 5) == place.values[5]
    assert len(place.reads) == 1
    place.damage(place.head(space, 6).offset + 1000)
    with pytest.raises(objects.LostObjectError):
        value(space, 6)


def test_a_reader_reads_the_record_alone(place: Place) -> None:
    place.cold()
    space = place.opened(read_only=True)
    assert value(space, 5) == place.values[5]
    assert len(place.reads) == 1


# --- what is kept ---------------------------------------------------------------------------------


def test_a_get_does_not_vouch_for_its_block(place: Place) -> None:
    space = place.cold()
    assert value(space, 5) == place.values[5]
    neighbour = place.head(space, 4)
    place.damage(neighbour.offset + 1000)
    assert place.store is not None
    segment = place.store.segment("objects/{photos}/values/00000001")
    with pytest.raises(siltstone.CorruptDataError):
        segment.read(neighbour.offset, neighbour.length)


def test_a_record_wanted_once_is_not_cached_and_its_block_is_when_wanted_again(
    place: Place,
) -> None:
    place.settings("\ncache:\n  path: ./cache\n  size: 16MiB\n")
    space = place.cold()
    place.wrong = [flip]
    assert value(space, 5) == place.values[5]  # wrong, so read again by blocks, which are kept
    head = place.head(space, 35)
    assert value(space, 35) == place.values[35]
    assert place.reads[1:] == [(0, BLOCK_BYTES), (head.offset, head.length)]
    place.reads.clear()
    assert value(space, 5) == place.values[5]
    assert place.reads == []
    assert value(space, 36) == place.values[36]
    ((start, length),) = place.reads
    assert start == BLOCK_BYTES
    assert length > SIZE
    assert value(space, 35) == place.values[35]
    assert len(place.reads) == 1


def test_a_block_that_others_read_is_not_asked_for_again(place: Place) -> None:
    place.settings("\ncache:\n  path: ./cache\n  size: 16MiB\n")
    space = place.cold()
    assert place.store is not None
    place.store.segment("objects/{photos}/values/00000001").read(0, 10)
    assert place.reads == [(0, BLOCK_BYTES)]
    assert value(space, 5) == place.values[5]
    assert len(place.reads) == 1


def test_wrong_bytes_are_never_cached(place: Place) -> None:
    place.settings("\ncache:\n  path: ./cache\n  size: 16MiB\n")
    space = place.cold()
    assert value(space, 5) == place.values[5]
    place.wrong = [flip]
    assert value(space, 6) == place.values[6]
    assert value(space, 5) == place.values[5]


# --- by the caller's own thread -------------------------------------------------------------------


def test_what_is_not_flushed_is_read_by_the_callers_thread(
    place: Place, alone: Callable[[], None]
) -> None:
    space = place.filled(flush=False)
    alone()
    for number in (0, 39, 17):
        assert value(space, number) == place.values[number]
    assert space.get("b", "none") is None
    assert place.reads == []


@pytest.mark.parametrize("read_only", [False, True])
def test_what_the_system_has_in_memory_is_read_by_the_callers_thread(
    place: Place, alone: Callable[[], None], read_only: bool
) -> None:
    if not can_tell(place.file.parent):
        pytest.skip("the file system of the test's folder does not tell what it has in memory")
    place.filled()
    space = place.opened(read_only=read_only)
    assert value(space, 5) == place.values[5]
    alone()
    for number in range(COUNT):
        assert value(space, number) == place.values[number]
    assert len(place.reads) == 1


def test_a_change_of_rows_takes_no_place_from_gets(place: Place, alone: Callable[[], None]) -> None:
    if not can_tell(place.file.parent):
        pytest.skip("the file system of the test's folder does not tell what it has in memory")
    place.filled()
    space = place.opened()
    assert value(space, 5) == place.values[5]
    space.put("b", "another", b"value")
    alone()
    assert value(space, 6) == place.values[6]
    another = space.get("b", "another")
    assert another is not None
    assert another.value == b"value"


def test_damage_in_memory_is_told(place: Place) -> None:
    space = place.filled()
    assert value(space, 5) == place.values[5]
    place.damage(place.head(space, 6).offset + 1000)
    with pytest.raises(objects.LostObjectError):
        value(space, 6)
    assert value(space, 5) == place.values[5]


def test_a_chunk_that_goes_after_a_get_is_told(place: Place) -> None:
    space = place.filled()
    assert value(space, 5) == place.values[5]
    place.chunks[0].unlink()
    with pytest.raises(siltstone.LostDataError):
        value(space, 6)
