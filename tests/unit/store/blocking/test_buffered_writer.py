"""Events that are written without waiting, and what is told about each in the end."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

import siltstone
from siltstone.core.errors import OutcomeUnknownError

EVENTS = [b"event-%06d." % number for number in range(20_000)]


class Log:
    """Intercepts the appends of all segments: holds them, fails them, counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.open.set()
        self.sizes: list[int] = []
        self.fails: Callable[[int], Exception | None] = lambda _: None
        append = siltstone.AsyncSegment.append

        async def held(segment: siltstone.AsyncSegment, data: bytes) -> int:
            self.sizes.append(len(data))
            while not self.open.is_set():  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.001)
            if error := self.fails(len(self.sizes)):
                raise error
            return await append(segment, data)

        monkeypatch.setattr(siltstone.AsyncSegment, "append", held)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """The log that all appends of this test go through."""
    return Log(monkeypatch)


@pytest.mark.slow
def test_events_are_durable_after_a_flush_in_their_order(segment: siltstone.Segment) -> None:
    segment.append(b"before")
    writer = segment.buffered()
    assert [writer.write(event) for event in EVENTS] == list(range(len(EVENTS)))
    length = len(b"".join(EVENTS))
    assert writer.flush() == 6 + length
    assert segment.read(6, length) == b"".join(EVENTS)
    assert writer.durable_count == writer.written_count == len(EVENTS)
    assert writer.pending() == []
    assert segment.name in repr(writer)
    writer.close()
    writer.close()
    with pytest.raises(siltstone.ClosedError):
        writer.write(b"late")
    assert segment.info().length == 6 + length


def test_the_end_of_a_block_flushes(segment: siltstone.Segment) -> None:
    with segment.buffered() as writer:
        assert writer.flush() == 0
        writer.write(b"abc")
    assert segment.read(0, 9) == b"abc"


def test_each_event_is_told_of_once_with_its_offset(segment: siltstone.Segment) -> None:
    told: list[siltstone.DurableEvents] = []
    with segment.buffered(on_durable=told.append) as writer:
        for event in EVENTS:
            writer.write(event)
    assert told[0].first == 0
    assert all(a.first + len(a.lengths) == b.first for a, b in pairwise(told))
    offsets = [offset for durable in told for offset in durable.offsets()]
    assert len(offsets) == len(EVENTS)
    for number in (0, 1, 777, len(EVENTS) - 1):
        assert segment.read(offsets[number], len(EVENTS[number])) == EVENTS[number]


def test_what_is_written_meanwhile_goes_together(segment: siltstone.Segment, log: Log) -> None:
    log.open.clear()
    with segment.buffered() as writer:
        writer.write(EVENTS[0])
        while not log.sizes:
            pass
        for event in EVENTS[1:]:
            writer.write(event)
        log.open.set()
    assert log.sizes == [len(EVENTS[0]), len(b"".join(EVENTS[1:]))]


def test_threads_keep_their_own_order(segment: siltstone.Segment) -> None:
    def work(letter: bytes, writer: siltstone.BufferedWriter) -> None:
        for number in range(5_000):
            writer.write(b"%s%05d" % (letter, number))

    with segment.buffered(buffer_bytes=50_000) as writer:
        threads = [threading.Thread(target=work, args=(b"%c" % c, writer)) for c in b"abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    data = segment.read(0, 2**20)
    found = [data[start : start + 6] for start in range(0, len(data), 6)]
    for letter in (b"a", b"b", b"c", b"d"):
        expected = [b"%s%05d" % (letter, number) for number in range(5_000)]
        assert [event for event in found if event[:1] == letter] == expected


def test_a_full_buffer_lets_writers_wait(segment: siltstone.Segment, log: Log) -> None:
    log.open.clear()
    writer = segment.buffered(buffer_bytes=1_000)
    event = b"x" * 100
    done = threading.Event()

    def work() -> None:
        for _ in range(50):
            writer.write(event)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while writer.written_count < 6:
        pass
    assert not done.wait(0.05)
    assert writer.written_count == 6
    assert writer.pending() == [event] * 6
    log.open.set()
    assert done.wait(30)
    thread.join()
    assert writer.flush() == 5_000
    writer.close()


def test_after_a_failure_nothing_is_appended(segment: siltstone.Segment, log: Log) -> None:
    cause = OutcomeUnknownError("the log failed")
    log.fails = lambda count: cause if count == 2 else None
    writer = segment.buffered()
    writer.write(b"durable")
    writer.flush()
    log.open.clear()
    writer.write(b"unknown")
    while len(log.sizes) < 2:
        pass
    writer.write(b"waits")
    log.open.set()
    for call in (writer.flush, writer.flush, lambda: writer.write(b"later")):
        with pytest.raises(siltstone.BufferedWriteError, match="first 1 events") as raised:
            call()
        error = raised.value
        assert (error.durable_count, error.end, error.segment) == (1, 7, segment.name)
        assert error.outcome is siltstone.Outcome.UNKNOWN
        assert error.__cause__ is cause
    assert writer.pending() == [b"unknown", b"waits"]
    writer.close()
    assert len(log.sizes) == 2
    assert segment.read(0, 99) == b"durable"


def test_a_failure_that_no_call_told_of_is_told_by_the_end(
    segment: siltstone.Segment, log: Log
) -> None:
    log.fails = lambda _: siltstone.BackPressureError("no room")
    writer = segment.buffered()
    writer.write(b"x")
    with pytest.raises(siltstone.BufferedWriteError, match="no room") as raised:
        writer.close()
    assert raised.value.outcome is siltstone.Outcome.NOT_APPLIED
    writer.close()


@pytest.mark.slow
def test_a_failure_is_not_lost_with_its_writer(segment: siltstone.Segment, log: Log) -> None:
    log.fails = lambda _: siltstone.BackPressureError("no room")
    failed = threading.Event()
    writer = segment.buffered()
    writer.write(b"x")
    while not writer._writer._failure:
        failed.wait(0.001)
    with pytest.warns(ResourceWarning, match="no room"):  # noqa: PT031 - both are needed
        del writer
        gc.collect()


def test_a_segment_that_takes_no_bytes_is_told_of(
    store: siltstone.Store, segment: siltstone.Segment
) -> None:
    segment.append(b"abc")
    segment.seal()
    for target, kind in (
        (segment, siltstone.SegmentSealedError),
        (store.segment("never-made"), siltstone.SegmentNotFoundError),
    ):
        writer = target.buffered()
        writer.write(b"x")
        with pytest.raises(siltstone.BufferedWriteError) as raised:
            writer.flush()
        assert isinstance(raised.value.__cause__, kind)
    assert segment.info().length == 3


def test_a_callback_that_raises_fails_the_writer(segment: siltstone.Segment) -> None:
    def tell(_: siltstone.DurableEvents) -> None:
        raise KeyError("mine")

    writer = segment.buffered(on_durable=tell)
    writer.write(b"abc")
    with pytest.raises(siltstone.BufferedWriteError, match="mine"):
        writer.flush()
    assert writer.durable_count == 1
    writer.close()


def test_an_event_is_taken_as_it_is_now(segment: siltstone.Segment) -> None:
    event = bytearray(b"first")
    with segment.buffered() as writer:
        writer.write(event)
        event[:] = b"other"
        writer.write(memoryview(b"-second"))
    assert segment.read(0, 99) == b"first-second"


def test_bad_arguments_are_refused_and_change_nothing(segment: siltstone.Segment) -> None:
    for buffer_bytes in (0, -1):
        with pytest.raises(ValueError, match="buffer_bytes"):
            segment.buffered(buffer_bytes=buffer_bytes)
    with pytest.raises(TypeError, match="buffer_bytes"):
        segment.buffered(buffer_bytes=1.5)  # type: ignore[arg-type]
    with segment.buffered() as writer:
        with pytest.raises(TypeError, match="str"):
            writer.write("text")  # type: ignore[arg-type]
        with pytest.raises(siltstone.AppendTooLargeError):
            writer.write(bytes(segment.append_bytes_max + 1))
        writer.write(bytes(segment.append_bytes_max))
    assert segment.info().length == segment.append_bytes_max


def test_a_store_that_was_closed_first_is_told_of(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    store = siltstone.open(tmp_path)
    writer = store.create("a").buffered()
    store.close()
    with pytest.raises(siltstone.SiltstoneError):  # noqa: PT012 - either of the two tells
        writer.write(b"x")
        writer.flush()
    with pytest.raises(siltstone.SiltstoneError):
        writer.write(b"y")


def test_a_writer_without_pending_events_may_be_closed_after_its_store(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        writer = store.create("a").buffered()
        writer.write(b"durable")
        writer.flush()
    writer.close()
    writer.close()
    with pytest.raises(siltstone.ClosedError, match="the writer was closed"):
        writer.write(b"late")


def test_a_writer_with_pending_events_that_is_closed_after_its_store_tells_of_them(
    tmp_path: Path, log: Log
) -> None:
    siltstone.init(tmp_path)
    with siltstone.open(tmp_path) as store:
        writer = store.create("a").buffered()
        log.open.clear()
        writer.write(b"held")
        while not log.sizes:
            pass
        writer.write(b"waits")
    with pytest.raises(siltstone.BufferedWriteError, match="first 0 events"):
        writer.close()
    assert writer.pending() == [b"held", b"waits"]
    writer.close()


def test_a_forked_child_cannot_write(segment: siltstone.Segment) -> None:
    writer = segment.buffered()
    with writer._writer.buffer._lock:  # as if another thread were writing then
        child = os.fork()
        if child == 0:
            try:
                writer.write(b"from the child")
            except siltstone.ClosedError:
                os._exit(7)
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    writer.write(b"from the parent")
    writer.close()
    assert segment.read(0, 99) == b"from the parent"


async def _written(folder: Path) -> None:
    async with await siltstone.open_async(folder) as store:
        segment = await store.create("async")
        async with segment.buffered(buffer_bytes=5_000) as writer:
            numbers = [await writer.write(event) for event in EVENTS[:1_000]]
            assert numbers == list(range(1_000))
            assert await writer.flush() == len(b"".join(EVENTS[:1_000]))
            assert writer.durable_count == 1_000
            for event in EVENTS[1_000:1_010]:
                await writer.write(event)
        expected = b"".join(EVENTS[:1_010])
        assert await segment.read(0, 2**20) == expected
        with pytest.raises(siltstone.ClosedError):
            await writer.write(b"late")


def test_applications_of_asyncio_have_it_too(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    asyncio.run(_written(tmp_path))


async def _cancelled(folder: Path) -> None:
    async with await siltstone.open_async(folder) as store:
        segment = await store.create("cancelled")
        writer = segment.buffered(buffer_bytes=200)
        await writer.write(b"x" * 100)
        waiting = asyncio.create_task(writer.write(b"y" * 100))
        others = asyncio.create_task(writer.write(b"z" * 100))
        await asyncio.sleep(0)
        waiting.cancel()
        await others
        await writer.close()
        assert await segment.read(0, 999) == b"x" * 100 + b"z" * 100


def test_a_write_that_is_cancelled_while_it_waits_was_not_taken(tmp_path: Path) -> None:
    siltstone.init(tmp_path)
    asyncio.run(_cancelled(tmp_path))


async def _closed_twice(folder: Path, log: Log) -> None:
    async with await siltstone.open_async(folder) as store:
        writer = (await store.create("closed")).buffered()
        log.open.clear()
        await writer.write(b"x")
        first = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        again = asyncio.create_task(writer.close())
        await asyncio.sleep(0)
        assert (again.done(), writer.durable_count) == (False, 0)
        log.open.set()
        await again
        assert writer.durable_count == 1


def test_a_close_after_one_that_was_cancelled_flushes_too(tmp_path: Path, log: Log) -> None:
    siltstone.init(tmp_path)
    asyncio.run(_closed_twice(tmp_path, log))
