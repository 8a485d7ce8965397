"""The cache returns what was put into it, or nothing, whatever happened to its file."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.core.constants import BLOCK_BYTES, Buffer
from siltstone.core.posix import SystemFileCalls
from siltstone.core.storage.block_cache import SLOT_BYTES, BlockCache
from siltstone.core.storage.s3_fifo import FifoEviction

STORE = bytes(range(16))


def block(number: int, length: int = BLOCK_BYTES) -> bytes:
    return Random(number).randbytes(length)


def opened(folder: Path, slots: int = 8, store: bytes = STORE) -> BlockCache:
    return BlockCache(folder, slots * SLOT_BYTES, store)


def put(cache: BlockCache, name: str, number: int, data: bytes) -> None:
    cache.put(name, number, memoryview(data), cache.forgotten)


def get(cache: BlockCache, name: str, number: int, least: int = 1) -> bytes | None:
    room = memoryview(bytearray(BLOCK_BYTES))
    return bytes(room) if cache.get(name, number, least, room) else None


def test_what_was_put_is_there_also_after_a_restart(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    for number in range(5):
        put(cache, "a", number, block(number))
    put(cache, "ä/b", 0, block(9, 1_000))
    cache.close()
    again = opened(tmp_path)
    for number in range(5):
        assert get(again, "a", number) == block(number)
    found = get(again, "ä/b", 0, 1_000)
    assert found is not None
    assert found[:1_000] == block(9, 1_000)
    assert get(again, "ä/b", 0, 1_001) is None, "more than was put"
    assert get(again, "b", 0) is None
    assert (again.counts.hits, again.counts.misses) == (6, 2)
    again.close()


def test_a_longer_beginning_takes_the_place_of_a_shorter_one(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    whole = block(1)
    put(cache, "a", 0, whole[:100])
    put(cache, "a", 0, whole)
    put(cache, "a", 0, whole[:50])
    assert get(cache, "a", 0, BLOCK_BYTES) == whole
    assert cache.counts.blocks == 1
    cache.close()


def test_a_forgotten_chunk_is_gone_also_after_a_restart(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    put(cache, "a", 0, block(1))
    put(cache, "b", 0, block(2))
    cache.forget("a")
    assert get(cache, "a", 0) is None
    cache.close()
    again = opened(tmp_path)
    assert get(again, "a", 0) is None
    assert get(again, "b", 0) == block(2)
    again.close()


def test_what_was_read_before_a_deletion_is_not_put_after_it(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    before = cache.forgotten
    cache.forget("a")
    cache.put("a", 0, memoryview(block(1)), before)
    assert get(cache, "a", 0) is None
    cache.close()


def test_chunks_of_another_store_are_unknown(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    put(cache, "a", 0, block(1))
    cache.close()
    other = opened(tmp_path, store=bytes(16))
    assert other.counts.blocks == 0
    assert get(other, "a", 0) is None
    other.close()


def test_the_file_is_never_larger_than_it_may_be(tmp_path: Path) -> None:
    cache = opened(tmp_path, slots=4)
    for number in range(50):
        put(cache, "a", number, block(number))
        assert (tmp_path / "blocks").stat().st_size <= 4 * SLOT_BYTES
    assert cache.counts.blocks == 4
    assert cache.counts.evicted == 46
    cache.close()
    smaller = opened(tmp_path, slots=2)
    assert (tmp_path / "blocks").stat().st_size <= 2 * SLOT_BYTES
    assert smaller.counts.blocks <= 2
    smaller.close()


@pytest.mark.parametrize("size_bytes", [0, SLOT_BYTES - 1])
def test_a_size_below_that_of_a_block_keeps_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size_bytes: int
) -> None:
    cache = BlockCache(tmp_path / "cache", size_bytes, STORE)
    put(cache, "a", 0, b"x")
    assert get(cache, "a", 0) is None
    assert not cache.on
    cache.close()
    assert not (tmp_path / "cache").exists()
    assert "one block needs more" in caplog.text


@pytest.mark.parametrize("at", [0, 5, 40, 60, 4_000, 4_095, 4_096, 5_000, SLOT_BYTES - 1])
@pytest.mark.parametrize("restart", [False, True])
def test_a_damaged_byte_is_a_miss(tmp_path: Path, at: int, *, restart: bool) -> None:
    cache = opened(tmp_path)
    put(cache, "a", 0, block(1))
    put(cache, "a", 1, block(2))
    if restart:
        cache.close()
    with (tmp_path / "blocks").open("r+b") as file:
        file.seek(at)
        (value,) = file.read(1)
        file.seek(at)
        file.write(bytes([value ^ 1]))
    if restart:
        cache = opened(tmp_path)
    assert get(cache, "a", 0) is None
    assert get(cache, "a", 1) == block(2)
    put(cache, "a", 0, block(1))
    assert get(cache, "a", 0) == block(1)
    cache.close()


@pytest.mark.parametrize("length", [0, 1, 4_095, 4_096, 10_000, SLOT_BYTES - 1, SLOT_BYTES + 7])
def test_a_file_that_was_cut_gives_what_is_whole(tmp_path: Path, length: int) -> None:
    cache = opened(tmp_path)
    put(cache, "a", 0, block(1))
    put(cache, "a", 1, block(2))
    cache.close()
    os.truncate(tmp_path / "blocks", length)
    again = opened(tmp_path)
    assert get(again, "a", 0) == (block(1) if length >= SLOT_BYTES else None)
    assert get(again, "a", 1) is None
    again.close()


def test_rubbish_in_the_place_of_the_file_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "blocks").write_bytes(Random(1).randbytes(3 * SLOT_BYTES))
    cache = opened(tmp_path)
    assert cache.counts.blocks == 0
    put(cache, "a", 0, block(1))
    assert get(cache, "a", 0) == block(1)
    cache.close()


def test_each_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    put(first, "a", 0, block(1))
    assert get(second, "a", 0) is None
    put(second, "a", 0, block(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocks", "blocks-1"]
    first.close()
    second.close()


def test_a_folder_that_cannot_be_made_turns_the_cache_off(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = opened(tmp_path / "file" / "cache")
    assert not cache.on
    put(cache, "a", 0, block(1))
    assert get(cache, "a", 0) is None
    cache.forget("a")
    cache.close()


class FailingCalls(SystemFileCalls):
    """The operating system's calls, until they fail."""

    def __init__(self) -> None:
        self.number = 0

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        if self.number:
            raise OSError(self.number, os.strerror(self.number))
        return super().pwritev(fd, buffers, offset)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_turns_the_cache_off_and_a_full_one_gets_its_room_back(
    tmp_path: Path, number: int
) -> None:
    calls = FailingCalls()
    cache = BlockCache(tmp_path, 8 * SLOT_BYTES, STORE, calls)
    put(cache, "a", 0, block(1))
    calls.number = number
    put(cache, "a", 1, block(2))
    assert not cache.on
    assert get(cache, "a", 0) is None
    size = (tmp_path / "blocks").stat().st_size
    assert size == (0 if number == errno.ENOSPC else SLOT_BYTES)
    cache.forget("a")
    cache.close()


CHILD = """
import sys
from pathlib import Path
from random import Random
from siltstone.core.storage.block_cache import SLOT_BYTES, BlockCache
cache = BlockCache(Path(sys.argv[1]), 20 * SLOT_BYTES, bytes(range(16)))
number = 0
while True:
    cache.put("a", number, memoryview(Random(number).randbytes(256 * 1024)), cache.forgotten)
    number += 1
    print(number, flush=True)
"""


@pytest.mark.slow
def test_kill_9_leaves_whole_blocks_or_misses(tmp_path: Path) -> None:
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        count = 0
        while count < 30:
            count = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        child.wait()
        # It continued until then, and the cache keeps the last blocks; a line may be cut off.
        for line in child.stdout.read().split("\n")[:-1]:
            count = int(line)
        child.stdout.close()
        cache = opened(tmp_path, slots=20)
        found = [number for number in range(count + 5) if get(cache, "a", number) is not None]
        assert len(found) >= 15
        assert all(get(cache, "a", number) == block(number) for number in found)
        cache.close()


def test_many_threads_get_what_was_put_or_nothing(tmp_path: Path) -> None:
    cache = opened(tmp_path, slots=5)
    blocks = {
        (name, number): block(number + 100 * ord(name)) for name in "ab" for number in (0, 1, 2, 3)
    }
    wrong: list[object] = []

    def work(seed: int) -> None:
        chance = Random(seed)
        for _ in range(150):
            key = chance.choice(list(blocks))
            match chance.randrange(10):
                case 0:
                    cache.forget(key[0])
                case 1 | 2 | 3:
                    put(cache, *key, blocks[key][: chance.choice([1_000, BLOCK_BYTES])])
                case _:
                    least = chance.choice([1, BLOCK_BYTES])
                    found = get(cache, *key, least)
                    if found is not None and found[:1_000] != blocks[key][:1_000]:
                        wrong.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.on
    assert (tmp_path / "blocks").stat().st_size <= 5 * SLOT_BYTES
    for key, data in blocks.items():  # no slot was lost on the way
        put(cache, *key, data)
    assert cache.counts.blocks == 5
    cache.close()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("aur"), st.integers(0, 12)), max_size=120))
def test_eviction_keeps_as_many_as_there_is_room_for(steps: list[tuple[str, int]]) -> None:
    eviction: FifoEviction[int] = FifoEviction(5)
    there: set[int] = set()
    for step, key in steps:
        if step == "u":
            eviction.used(key)
        elif step == "r":
            eviction.remove(key)
            there.discard(key)
        elif key not in there:
            victim = eviction.add(key)
            assert (victim is None) == (len(there) < 5)
            there.add(key)
            if victim is not None:
                there.remove(victim)
        assert len(eviction) == len(there)


def test_what_came_back_soon_stays_when_a_scan_comes(tmp_path: Path) -> None:
    cache = opened(tmp_path, slots=20)
    for number in range(30):
        put(cache, "a", number, b"x")
    assert get(cache, "a", 0) is None, "it is gone"
    put(cache, "a", 0, b"x")
    for number in range(100):
        put(cache, "scan", number, b"y")
    assert get(cache, "a", 0) is not None
    assert cache.counts.blocks == 20
    cache.close()


def test_a_scan_does_not_drive_out_what_is_used() -> None:
    eviction: FifoEviction[int] = FifoEviction(20)
    there = set()

    def add(key: int) -> None:
        victim = eviction.add(key)
        there.add(key)
        there.discard(-1 if victim is None else victim)

    for key in range(10):
        add(key)
        eviction.used(key)
    for key in range(100, 300):
        add(key)
    assert there >= set(range(10))
