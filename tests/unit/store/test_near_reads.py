"""Reads answered by the caller's own thread: the same bytes, the same checks, the same refusals."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.segments.page_cache_reads import NEAR_BYTES_MAX, ReadPlace
from tests.support.served_pages import can_tell

BLOCK_BYTES = 256 * 1024
CONTENT = os.urandom(20 * BLOCK_BYTES + 777)
"""Enough for a second thread, and not a whole number of blocks."""


class Calls:
    """Counts the ordinary reads of storage, and reads that needed none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ordinary = 0
        self.near = 0
        run, read_all, read = AsyncChunkStorage.run, ReadPlace.read_all, ReadPlace.read

        async def counted(*arguments: object, **more: object) -> object:
            self.ordinary += arguments[1] == "read_into"
            return await run(*arguments, **more)  # type: ignore[arg-type]

        def read_all_counted(*arguments: object) -> bool:
            done = read_all(*arguments)  # type: ignore[arg-type]
            self.near += done
            return done

        def read_counted(*arguments: object) -> bool:
            done = read(*arguments)  # type: ignore[arg-type]
            self.near += done
            return done

        monkeypatch.setattr(AsyncChunkStorage, "run", counted)
        monkeypatch.setattr(ReadPlace, "read_all", read_all_counted)
        monkeypatch.setattr(ReadPlace, "read", read_counted)


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """A folder on a disk: not every file system in memory tells what it has there."""
    return disk_path


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    if not can_tell(tmp_path):
        pytest.skip("the file system of the test's folder does not tell what it has in memory")
    return Calls(monkeypatch)


@pytest.fixture
def file(tmp_path: Path, calls: Calls) -> Path:
    """The settings file of a store that was never opened."""
    return siltstone.init(tmp_path / "store")


def filled(store: siltstone.Store) -> siltstone.Segment:
    """Make the segment "a", flush all of it, and read it."""
    segment = store.create("a")
    segment.append(CONTENT)
    segment.flush()
    return warm(segment)


@pytest.fixture
def store(file: Path) -> Iterator[siltstone.Store]:
    with siltstone.open(file) as store:
        yield store


@pytest.fixture
def segment(store: siltstone.Store) -> siltstone.Segment:
    return filled(store)


def warm(segment: siltstone.Segment) -> siltstone.Segment:
    """Read until places are known and the descriptor of the chunk is kept."""
    for _ in range(3):
        segment.read(5, 10)
    return segment


def chunk_path(file: Path, segment: siltstone.Segment) -> Path:
    (chunk,) = segment.chunks()
    return file.parent / "chunks" / chunk.chunk


def damage(path: Path, offset: int) -> None:
    """Change a byte so that only the byte shows it."""
    before = path.stat()
    with path.open("r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes([byte ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


RANGES = (
    (0, len(CONTENT)),
    (0, 8 * BLOCK_BYTES),
    (BLOCK_BYTES, 9 * BLOCK_BYTES),
    (3, 17 * BLOCK_BYTES + 5),
    (BLOCK_BYTES - 1, 2),
    (7 * BLOCK_BYTES + 1, 5 * BLOCK_BYTES),
    (19 * BLOCK_BYTES, BLOCK_BYTES + 777),
    (20 * BLOCK_BYTES + 776, 1),
)


def test_any_range_is_read_without_a_call(segment: siltstone.Segment, calls: Calls) -> None:
    before, near = calls.ordinary, calls.near
    for offset, length in 2 * RANGES:
        assert segment.read(offset, length) == CONTENT[offset : offset + length]
        buffer = bytearray(length)
        assert segment.read_into(offset, buffer) == length
        assert buffer == CONTENT[offset : offset + length]
    assert (calls.ordinary, calls.near) == (before, near + 4 * len(RANGES))
    buffer_of_others = memoryview(bytearray(800)).cast("Q")
    assert segment.read_into(8, buffer_of_others) == 800
    assert buffer_of_others.tobytes() == CONTENT[8:808]


def test_at_the_end_there_is_less(segment: siltstone.Segment) -> None:
    assert segment.read(len(CONTENT) - 3, 10) == CONTENT[-3:]
    assert segment.read(len(CONTENT), 10) == b""
    assert segment.read(7, 0) == b""
    with pytest.raises(siltstone.OffsetError):
        segment.read(len(CONTENT) + 1, 1)
    with pytest.raises(ValueError, match="between 0"):
        segment.read(-1, 1)


@pytest.mark.slow
def test_damage_is_found_wherever_it_is(file: Path, segment: siltstone.Segment) -> None:
    path = chunk_path(file, segment)
    for offset, length in RANGES:
        for where in sorted({offset, offset + length // 2, offset + length - 1}):
            block = where // BLOCK_BYTES * BLOCK_BYTES
            for byte in {where, block}:  # also next to the range that is read
                damage(path, byte)
                with pytest.raises(siltstone.CorruptDataError):
                    fresh_read(path, segment, offset, length)
                damage(path, byte)
        assert segment.read(offset, length) == CONTENT[offset : offset + length]


def fresh_read(path: Path, segment: siltstone.Segment, offset: int, length: int) -> bytes:
    """Read while no block is remembered as verified, since the chunk has another version."""
    os.utime(path)
    return segment.read(offset, length)


def test_whole_blocks_are_verified_each_time(file: Path, segment: siltstone.Segment) -> None:
    path = chunk_path(file, segment)
    for offset, length in ((BLOCK_BYTES, BLOCK_BYTES), (0, 16 * BLOCK_BYTES)):
        for _ in range(3):
            segment.read(offset, length)
        damage(path, offset + length - 1)
        with pytest.raises(siltstone.CorruptDataError):
            segment.read(offset, length)
        damage(path, offset + length - 1)


def test_a_chunk_that_is_short_or_gone_is_lost(file: Path, segment: siltstone.Segment) -> None:
    path = chunk_path(file, segment)
    for length in (16 * BLOCK_BYTES, 10):
        assert segment.read(0, length) == CONTENT[:length]
        os.truncate(path, length - 1)
        with pytest.raises(siltstone.LostDataError):
            segment.read(0, length)
    path.unlink()
    for length in (16 * BLOCK_BYTES, 10):
        with pytest.raises(siltstone.LostDataError):
            segment.read(0, length)


def test_what_was_truncated_is_not_shown(segment: siltstone.Segment) -> None:
    assert segment.read(5, 10) == CONTENT[5:15]
    segment.truncate(8)
    with pytest.raises(siltstone.SegmentTruncatedError):
        segment.read(5, 10)
    for _ in range(3):
        assert segment.read(8, 10) == CONTENT[8:18]
    with pytest.raises(siltstone.SegmentTruncatedError):
        segment.read(7, 1)


def test_another_segment_of_the_name_is_another(
    store: siltstone.Store, segment: siltstone.Segment
) -> None:
    segment.rename("b")
    with pytest.raises(siltstone.SegmentNotFoundError):
        segment.read(5, 10)
    assert warm(store.segment("b")).read(5, 10) == CONTENT[5:15]
    store.create("a").append(b"something else that is new")
    segment.flush()
    assert warm(segment).read(0, 9) == b"something"
    segment.delete()
    with pytest.raises(siltstone.SegmentNotFoundError):
        segment.read(0, 9)


def test_what_a_concat_and_appends_bring_is_shown(
    store: siltstone.Store, segment: siltstone.Segment
) -> None:
    more = os.urandom(3 * BLOCK_BYTES)
    source = store.create("more", exist_ok=True)
    source.append(more)
    source.flush()
    source.seal()
    whole = CONTENT
    segment.concat(source)
    whole += more
    for number in range(4):
        for _ in range(3):
            assert segment.read(0, len(whole) + 9) == whole
            assert segment.read(len(whole) - 20, 20) == whole[-20:]
        segment.append(b"%d" % number)
        whole += b"%d" % number
        assert segment.read(len(whole) - 20, 20) == whole[-20:]
        segment.flush()


def test_a_closed_store_does_not_answer(file: Path) -> None:
    with siltstone.open(file) as store:
        segment = filled(store)
    with pytest.raises(siltstone.ClosedError):
        segment.read(5, 10)
    with pytest.raises(siltstone.ClosedError):
        segment.read_into(0, bytearray(16 * BLOCK_BYTES))


def test_a_fenced_store_does_not_answer(file: Path) -> None:
    with siltstone.open(file) as old:
        segment = filled(old)
        with siltstone.open(file, takeover=True):
            with pytest.raises(siltstone.FencedError):
                segment.append(b"x")
            with pytest.raises((siltstone.FencedError, siltstone.ClosedError)):
                segment.read(5, 10)


def test_the_loops_own_thread_is_refused(segment: siltstone.Segment) -> None:
    refused: list[BaseException] = []

    def told(*_: object) -> None:
        try:
            segment.read(5, 10)
        except RuntimeError as error:
            refused.append(error)

    with segment.buffered(on_durable=told) as writer:
        writer.write(b"x")
        writer.flush()
    assert "own loop" in str(refused[0])


def test_a_read_only_store_reads_so_too(
    file: Path, store: siltstone.Store, segment: siltstone.Segment, calls: Calls
) -> None:
    owned = segment
    with siltstone.open(file, read_only=True) as store:
        segment = warm(store.segment("a"))
        before = calls.ordinary
        assert segment.read(3, 17 * BLOCK_BYTES) == CONTENT[3 : 3 + 17 * BLOCK_BYTES]
        assert calls.ordinary == before
        owned.truncate(100)
        assert store.segment("a").info().start_offset == 100
        with pytest.raises(siltstone.SegmentTruncatedError):
            segment.read(3, 17 * BLOCK_BYTES)


@pytest.mark.parametrize("mode", ["always", "never"])
def test_settings_say_what_is_verified(file: Path, mode: str, calls: Calls) -> None:
    with file.open("a", encoding="utf-8") as text:
        text.write(f"reads:\n  verify: {mode}\n")
    with siltstone.open(file) as store:
        segment = filled(store)
        before = calls.ordinary
        path = chunk_path(file, segment)
        for offset, length in ((5, 10), (BLOCK_BYTES, BLOCK_BYTES), (0, len(CONTENT))):
            for _ in range(2):
                assert segment.read(offset, length) == CONTENT[offset : offset + length]
            assert calls.ordinary == before
            damage(path, offset)
            if mode == "never":
                assert segment.read(offset, length) != CONTENT[offset : offset + length]
            else:
                with pytest.raises(siltstone.CorruptDataError):
                    segment.read(offset, length)
            damage(path, offset)
            before = calls.ordinary


async def test_async_reads_hold_the_loop_up_for_little_only(file: Path, calls: Calls) -> None:
    async with await siltstone.open_async(file) as store:
        segment = await store.create("a")
        await segment.append(CONTENT)
        await segment.flush()
        for _ in range(3):
            await segment.read(5, 10)
        before = calls.ordinary
        for offset, length in ((0, NEAR_BYTES_MAX), (7, 100), (BLOCK_BYTES - 5, 65_536)):
            buffer = bytearray(length)
            assert await segment.read_into(offset, buffer) == length
            assert buffer == CONTENT[offset : offset + length]
            assert await segment.read(offset, length) == buffer
        assert calls.ordinary == before
        # To verify a range of three blocks takes too long.
        offset, length = BLOCK_BYTES - 1, BLOCK_BYTES + 2
        assert await segment.read(offset, length) == CONTENT[offset : offset + length]
        assert await segment.read(0, NEAR_BYTES_MAX + 1) == CONTENT[: NEAR_BYTES_MAX + 1]
        assert calls.ordinary > before


async def test_async_reads_find_damage(file: Path, calls: Calls) -> None:
    async with await siltstone.open_async(file) as store:
        segment = await store.create("a")
        await segment.append(CONTENT)
        await segment.flush()
        (chunk,) = [chunk async for chunk in segment.chunks()]
        path = file.parent / "chunks" / chunk.chunk
        for offset, length in ((5, 65_536), (BLOCK_BYTES, BLOCK_BYTES)):
            for _ in range(4):
                assert await segment.read(offset, length) == CONTENT[offset : offset + length]
            near = calls.near
            for byte in (offset, offset + length - 1):
                damage(path, byte)
                os.utime(path)
                for _ in range(2):
                    with pytest.raises(siltstone.CorruptDataError):
                        await segment.read(offset, length)
                    with pytest.raises(siltstone.CorruptDataError):
                        await segment.read_into(offset, bytearray(length))
                damage(path, byte)
            assert calls.near == near
            assert await segment.read(offset, length) == CONTENT[offset : offset + length]
        for _ in range(2):
            await segment.read(BLOCK_BYTES + 5, 10)
        damage(path, BLOCK_BYTES + 1)  # whole blocks are verified although they are remembered
        with pytest.raises(siltstone.CorruptDataError):
            await segment.read(BLOCK_BYTES, BLOCK_BYTES)


def in_threads(works: list[Callable[[], None]]) -> None:
    """Run all works; raise the first of their errors."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.slow
def test_readers_next_to_a_writer_see_what_is_acknowledged(
    segment: siltstone.Segment, calls: Calls
) -> None:
    whole = bytearray(CONTENT)
    low = [0]
    over = threading.Event()

    def write() -> None:
        try:
            for number in range(30):
                segment.append(b"%5d" % number)
                whole.extend(b"%5d" % number)
                if number % 3 == 0:
                    segment.flush()
                if number % 5 == 0:
                    segment.truncate(number * 1000)
                    low[0] = number * 1000
        finally:
            over.set()

    def read(seed: int) -> None:
        choice = random.Random(seed)
        while not over.is_set():
            start, end = low[0], len(whole)
            offset = choice.randrange(end)
            length = choice.choice([1, 100, 65_536, BLOCK_BYTES, 12 * BLOCK_BYTES])
            try:
                found = segment.read(offset, min(length, end - offset))
            except siltstone.SegmentTruncatedError:
                assert offset < 30_000
                continue
            assert offset >= start, "what was truncated before the call is not shown"
            assert found == whole[offset : offset + len(found)]
            assert len(found) == min(length, end - offset)

    in_threads([write, *(lambda seed=seed: read(seed) for seed in range(3))])
    assert calls.near > 10
