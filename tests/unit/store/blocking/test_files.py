from __future__ import annotations

import asyncio
import csv
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import siltstone
from siltstone.core.errors import OutcomeUnknownError


def test_a_file_reads_lines(segment: siltstone.Segment) -> None:
    segment.append(b"one\ntwo\nthree")
    with segment.open("rb") as file:
        assert list(file) == [b"one\n", b"two\n", b"three"]
        assert file.read() == b""
        segment.append(b"!\n")
        assert file.read() == b"!\n"
    assert file.closed


def test_a_file_seeks_by_offsets(segment: siltstone.Segment) -> None:
    segment.append(b"0123456789")
    segment.truncate(3)
    with segment.open() as file:
        assert file.tell() == 3
        assert file.read(2) == b"34"
        assert file.seek(-2, os.SEEK_END) == 8
        assert file.read() == b"89"
        assert file.seek(6) == 6
        assert file.seek(1, os.SEEK_CUR) == 7
        assert file.read(1) == b"7"
        assert file.seek(1000) == 1000
        assert file.read() == b""
        file.seek(0)
        with pytest.raises(siltstone.SegmentTruncatedError):
            file.read(1)
        with pytest.raises(ValueError, match="negative"):
            file.seek(-1)
        with pytest.raises(ValueError, match="whence"):
            file.raw.seek(0, 9)


def test_a_file_is_one_for_other_libraries(segment: siltstone.Segment) -> None:
    with io.TextIOWrapper(segment.open("ab"), encoding="utf-8", newline="") as text:
        csv.writer(text).writerows([["å", 1], ["b", 2]])
    with io.TextIOWrapper(segment.open("rb"), encoding="utf-8", newline="") as text:
        assert list(csv.reader(text)) == [["å", "1"], ["b", "2"]]


def test_large_reads_ask_for_much_at_a_time(
    segment: siltstone.Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(5_000_000)
    segment.append(data)
    sizes: list[int] = []
    read_into = siltstone.Segment.read_into

    def counted(self: siltstone.Segment, offset: int, buffer: memoryview) -> int:
        sizes.append(len(buffer))
        return read_into(self, offset, buffer)

    monkeypatch.setattr(siltstone.Segment, "read_into", counted)
    with segment.open() as file:
        assert file.read(5_000_000) == data
    assert len(sizes) <= 6
    assert max(sizes) >= 2**20


def test_an_appending_file_is_durable_after_flush(segment: siltstone.Segment) -> None:
    file = segment.open("ab")
    assert file.write(b"abc") == 3
    assert segment.info().length == 0
    assert file.tell() == 3
    file.flush()
    assert segment.info().length == 3
    file.write(b"d")
    file.close()
    file.close()
    assert segment.read(0, 9) == b"abcd"
    with pytest.raises(ValueError, match="closed file"):
        file.write(b"x")
    with pytest.raises(ValueError, match="closed file"):
        file.flush()


@pytest.mark.parametrize("sizes", [[9_000_000], [3_000_000] * 3, [1, 8_999_999], [100_000] * 90])
def test_an_appending_file_cuts_into_frames(segment: siltstone.Segment, sizes: list[int]) -> None:
    data = os.urandom(sum(sizes))
    done = 0
    with segment.open("ab") as file:
        for size in sizes:
            file.write(memoryview(data)[done : done + size])
            done += size
    with segment.open() as file:
        assert file.read() == data


def test_after_a_failure_nothing_is_appended_twice(
    segment: siltstone.Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def fail(self: siltstone.Segment, data: bytes) -> int:
        tries.append(len(data))
        raise OutcomeUnknownError("the log failed")

    monkeypatch.setattr(siltstone.Segment, "append", fail)
    file = segment.open("ab")
    file.write(b"abc")
    for verb in (file.flush, file.flush, lambda: file.write(b"x")):
        with pytest.raises(OutcomeUnknownError):
            verb()
    file.close()
    assert tries == [3]
    assert file.appended_length == 0


def test_only_bytes_are_offered(segment: siltstone.Segment, store: siltstone.Store) -> None:
    wrong: Any = "r"
    with pytest.raises(ValueError, match="'rb' or 'ab'"):
        segment.open(wrong)
    with pytest.raises(siltstone.SegmentNotFoundError):
        store.segment("nobody").open()
    segment.seal()
    with pytest.raises(siltstone.SegmentSealedError):
        segment.open("ab")


def test_a_stream_is_appended_in_pieces(segment: siltstone.Segment) -> None:
    data = os.urandom(9_000_001)
    steps: list[siltstone.StreamProgress] = []
    made = segment.append_from(io.BytesIO(data), progress=steps.append)
    assert made == siltstone.StreamProgress(offset=0, length=len(data), end=len(data))
    assert [step.length for step in steps] == [4 * 2**20, 8 * 2**20, len(data)]
    with segment.open() as file:
        assert file.read() == data


def test_an_empty_stream_appends_nothing(segment: siltstone.Segment) -> None:
    assert segment.append_from(io.BytesIO()) == siltstone.StreamProgress()


class Failing(io.BytesIO):
    """Returns four pieces and then fails."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() > 3 * 2**20:
            raise OSError(5, "the disk is gone")
        return super().read(min(size or 0, 2**20))


def test_a_failed_stream_says_how_far_it_came(segment: siltstone.Segment) -> None:
    with pytest.raises(siltstone.PartialAppendError, match="the disk is gone") as caught:
        segment.append_from(Failing(bytes(2**23)))
    assert caught.value.progress.length == segment.info().length == 4 * 2**20
    assert isinstance(caught.value.__cause__, OSError)


def test_a_stream_to_nowhere_fails_as_an_append_does(store: siltstone.Store) -> None:
    with pytest.raises(siltstone.SegmentNotFoundError):
        store.segment("nobody").append_from(io.BytesIO(b"x"))


def test_what_arrives_on_a_pipe_is_appended_at_once(segment: siltstone.Segment) -> None:
    source, sink = os.pipe()
    seen = threading.Semaphore(0)

    def feed() -> None:
        for piece in (b"first", b"second"):
            os.write(sink, piece)
            assert seen.acquire(timeout=120)
        os.close(sink)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with open(source, "rb", buffering=0) as stream:
        assert _watched(segment, stream, seen.release).length == 11
    feeder.join()


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_pipe_that_has_nothing_now_is_not_at_its_end(
    segment: siltstone.Segment, buffering: int
) -> None:
    source, sink = os.pipe()
    os.set_blocking(source, False)
    reading = threading.Event()

    def feed() -> None:
        assert reading.wait(120)
        for piece in (b"first", b"second"):
            os.write(sink, piece)
        os.close(sink)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with open(source, "rb", buffering=buffering) as stream:
        assert stream.read(1) is None
        reading.set()
        made = segment.append_from(stream)
    feeder.join()
    assert segment.read(0, 100) == b"firstsecond"
    assert made.length == 11


def test_a_coroutine_waits_for_such_a_pipe_too(tmp_path: Path) -> None:
    source, sink = os.pipe()
    os.set_blocking(source, False)

    class Told(io.FileIO):
        """Gets its bytes only when it was found empty."""

        def read(self, size: int | None = -1, /) -> Any:
            data = super().read(-1 if size is None else size)
            if data is None:
                os.write(sink, b"late")
                os.close(sink)
            return data

    async def work() -> None:
        async with await siltstone.open_async(siltstone.init(tmp_path / "async")) as store:
            segment = await store.create("a")
            with Told(source) as stream:
                assert (await segment.append_from(stream)).length == 4
            assert await segment.read(0, 10) == b"late"

    asyncio.run(work())


class Small(io.RawIOBase):
    """Bytes without a descriptor, few at a time."""

    def __init__(self, left: bytes) -> None:
        super().__init__()
        self._left = left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        part, self._left = self._left[:100_000], self._left[100_000:]
        buffer[: len(part)] = part
        return len(part)


def test_a_raw_stream_needs_no_descriptor(segment: siltstone.Segment) -> None:
    data = os.urandom(1_000_000)
    assert segment.append_from(Small(data)).length == len(data)  # type: ignore[arg-type]
    assert segment.read(0, 2_000_000) == data


def test_a_stream_that_cannot_be_waited_for_is_refused(segment: siltstone.Segment) -> None:
    class Idle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> Any:
            return None

    with pytest.raises(BlockingIOError, match="nothing now"):
        segment.append_from(Idle())


def _watched(
    segment: siltstone.Segment, stream: io.FileIO, seen: Callable[[], None]
) -> siltstone.StreamProgress:
    """Append ``stream`` while another thread reports what a follower sees."""

    def watch() -> None:
        for _ in segment.follow():
            seen()

    watcher = threading.Thread(target=watch)
    watcher.start()
    made = segment.append_from(stream)
    segment.seal()
    watcher.join(120)
    return made
