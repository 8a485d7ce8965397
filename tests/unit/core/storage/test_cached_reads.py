"""What a cached storage asks the service; it never returns wrong bytes, whatever it kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.core.checksums import crc32c
from siltstone.core.constants import BLOCK_BYTES, KIB
from siltstone.core.errors import (
    ChunkNotFoundError,
    ChunkOffsetError,
    ClosedError,
    CorruptDataError,
)
from siltstone.core.storage.block_cache import SLOT_BYTES, BlockCache
from siltstone.core.storage.block_reads import BlockRange, Scratch, read_part
from siltstone.core.storage.cached import WIDEN_BYTES_MAX, CachedChunkStorage
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from tests.support import inside

LENGTH = 6 * BLOCK_BYTES + 1_000
CONTENT = b"".join(number.to_bytes(4, "little") for number in range(LENGTH // 4))


class Place:
    """A chunk in memory, a cache of eight blocks before it, and every call that gets through."""

    def __init__(self, folder: Path, slots: int = 8, *, append: bool = True) -> None:
        self.folder = folder
        self.memory = MemoryChunkStorage(profile=Profile(append=append))
        self.memory.create("data/a", [CONTENT])
        self.faulty = FaultyChunkStorage(self.memory)
        self.cache = BlockCache(folder, slots * SLOT_BYTES, bytes(16))
        self.storage = CachedChunkStorage(
            self.faulty, self.cache, lambda name: name.startswith("data/")
        )

    def read(self, offset: int, length: int, name: str = "data/a") -> bytes:
        buffer = bytearray(length)
        count = self.storage.read_into(name, offset, buffer)
        return bytes(buffer[:count])

    @property
    def asked(self) -> list[str]:
        """The calls since this property was last read."""
        found = [call.operation for call in self.faulty.calls]
        self.faulty.calls.clear()
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "cache")
    yield made
    made.cache.close()


def test_a_small_read_of_a_chunk_that_is_written_once_fetches_its_block(tmp_path: Path) -> None:
    place = Place(tmp_path / "cache", append=False)
    for offset in (70_000, 0, 200_000, BLOCK_BYTES - 10):
        assert place.read(offset, 10) == CONTENT[offset : offset + 10]
    assert place.asked == ["read_into"]
    assert (place.storage.hits, place.storage.misses) == (3, 1)
    place.cache.close()


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("offset", [LENGTH + 1, 7 * BLOCK_BYTES + 5, 70 * BLOCK_BYTES])
def test_a_read_after_the_end_names_the_offset_that_was_asked_for(
    tmp_path: Path, offset: int, *, append: bool
) -> None:
    place = Place(tmp_path / "cache", append=append)
    with pytest.raises(ChunkOffsetError) as caught:
        place.read(offset, 10)
    assert (caught.value.expected, caught.value.actual) == (LENGTH, offset)
    assert caught.value.operation == "read_into"
    place.cache.close()


def test_of_a_chunk_that_may_grow_nothing_is_kept_after_what_was_asked_for(place: Place) -> None:
    tail = 6 * BLOCK_BYTES
    assert place.read(tail + 100, 50) == CONTENT[tail + 100 : tail + 150]
    with inside.bucket(place.memory).lock:  # an append in progress, as a reader may see it
        inside.bucket(place.memory).chunks[b"data/a"].content[tail + 150 : tail + 200] = bytes(50)
    assert place.read(tail + 20, 130) == CONTENT[tail + 20 : tail + 150]
    assert place.asked == ["read_into"]
    with inside.bucket(place.memory).lock:
        inside.bucket(place.memory).chunks[b"data/a"].content[tail + 150 : tail + 200] = CONTENT[
            tail + 150 : tail + 200
        ]
    assert place.read(tail + 100, 100) == CONTENT[tail + 100 : tail + 200]
    assert place.asked == ["read_into"]


def test_runs_of_blocks_that_are_missing_are_one_read_each(place: Place) -> None:
    place.read(2 * BLOCK_BYTES, BLOCK_BYTES)
    assert place.asked == ["read_into"]
    assert place.read(0, 5 * BLOCK_BYTES) == CONTENT[: 5 * BLOCK_BYTES]
    assert place.asked == ["read_into", "read_into"]
    assert place.read(0, 5 * BLOCK_BYTES) == CONTENT[: 5 * BLOCK_BYTES]
    assert place.asked == []


def test_a_large_read_fetches_no_byte_that_was_not_wanted(place: Place) -> None:
    length = WIDEN_BYTES_MAX + BLOCK_BYTES
    assert place.read(100, length) == CONTENT[100 : 100 + length]
    assert place.asked == ["read_into"]
    assert place.read(BLOCK_BYTES, 10) == CONTENT[BLOCK_BYTES : BLOCK_BYTES + 10]
    assert place.asked == [], "whole blocks of it are kept"
    place.read(0, 10)
    assert place.asked == ["read_into"], "bytes of the first block are missing"


def test_the_block_at_the_end_of_a_chunk_that_grows_is_never_stale(place: Place) -> None:
    tail = 6 * BLOCK_BYTES
    assert place.read(tail, 1_000) == CONTENT[tail:]
    place.memory.write("data/a", LENGTH, [b"new"])
    assert place.read(tail, 1_000) == CONTENT[tail:]
    assert place.asked == ["read_into"]
    assert place.read(tail + 999, 100) == CONTENT[-1:] + b"new"
    assert place.read(tail + 1_000, 3) == b"new"
    assert place.asked == ["read_into"]


def test_what_is_not_wanted_is_not_kept(place: Place) -> None:
    place.memory.create("system/a", [b"abc"])
    for _ in range(2):
        assert place.read(0, 3, "system/a") == b"abc"
    assert place.asked == ["read_into", "read_into"]


@pytest.mark.parametrize("many", [False, True])
def test_a_deletion_drops_the_blocks(place: Place, *, many: bool) -> None:
    place.read(0, 10)
    if many:
        assert place.storage.delete_many(["data/a"]) == {}
    else:
        place.storage.delete("data/a")
    with pytest.raises(ChunkNotFoundError):
        place.read(0, 10)
    assert place.cache.counts.blocks == 0


def test_a_closed_storage_gives_nothing_that_it_kept(place: Place) -> None:
    place.read(0, 10)
    place.storage.close()
    with pytest.raises(ClosedError):
        place.read(0, 10)
    assert place.cache.on, "it is in use elsewhere"


def test_another_client_finds_what_this_one_read(place: Place) -> None:
    place.read(0, 15)
    other = CachedChunkStorage(place.faulty, place.cache, lambda name: True)
    buffer = bytearray(10)
    assert other.read_into("data/a", 5, buffer) == 10
    assert buffer == CONTENT[5:15]
    assert place.asked == ["read_into"]


def part(offset: int, length: int, wanted: int) -> BlockRange:
    return BlockRange(
        name="data/a", chunk_length=LENGTH, offset=offset, length=length, sums=(wanted,)
    )


def test_verified_reads_of_kept_blocks_ask_the_service_nothing(place: Place) -> None:
    wanted = crc32c(CONTENT[BLOCK_BYTES : 2 * BLOCK_BYTES])
    view = memoryview(bytearray(64 * KIB))
    for known, asked in ((None, ["stat", "read_into"]), ("x", []), (None, [])):
        at = BLOCK_BYTES + 5_000
        blocks = part(at, len(view), wanted)
        read_part(place.storage, blocks, view, Scratch(), known=known, learn=True)
        assert view == CONTENT[at : at + len(view)]
        assert place.asked == asked


def test_a_block_that_was_kept_wrong_is_read_again(place: Place) -> None:
    wrong = memoryview(bytes(BLOCK_BYTES))
    place.cache.put("data/a", 1, wrong, place.cache.forgotten)
    wanted = crc32c(CONTENT[BLOCK_BYTES : 2 * BLOCK_BYTES])
    view = memoryview(bytearray(100))
    blocks = part(BLOCK_BYTES + 7, 100, wanted)
    read_part(place.storage, blocks, view, Scratch(), known=None, learn=True)
    assert view == CONTENT[BLOCK_BYTES + 7 : BLOCK_BYTES + 107]
    read_part(place.storage, blocks, view, Scratch(), known=None, learn=True)
    assert place.asked == ["read_into"]
    with pytest.raises(CorruptDataError):
        read_part(place.storage, part(0, 100, wanted), view, Scratch(), known=None, learn=True)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(0, LENGTH + 10), st.integers(1, 3 * BLOCK_BYTES)),
        st.tuples(st.just("append"), st.just(0), st.integers(1, 100_000)),
        st.tuples(st.just("damage"), st.integers(0, 3 * SLOT_BYTES), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
        st.tuples(st.just("again"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_reads_give_what_the_service_would(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    place = Place(tmp_path_factory.mktemp("cache"), slots=3)
    content, number = CONTENT, 0
    for verb, offset, length in steps:
        match verb:
            case "read" if offset <= len(content):
                assert place.read(offset, length) == content[offset : offset + length]
            case "append":
                number += 1
                more = bytes([number]) * length
                place.storage.write("data/a", len(content), [more])
                content += more
            case "damage":
                with (place.folder / "blocks").open("r+b") as file:
                    file.seek(offset)
                    file.write(b"damage")
            case "restart":
                place.cache.close()
                place.cache = BlockCache(place.folder, 3 * SLOT_BYTES, bytes(16))
                place.storage = CachedChunkStorage(place.faulty, place.cache, lambda name: True)
            case "again":
                number += 1
                content = bytes([number]) * 300_000
                place.storage.delete("data/a")
                place.storage.create("data/a", [content])
    place.cache.close()
