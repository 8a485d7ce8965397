"""Calls end for their caller in time, and after a few that did not end no more are sent."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from siltstone.bindings.s3 import obstore_calls, obstore_runtime
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.obstore_calls import ObstoreCalls, Progress
from siltstone.bindings.s3.obstore_runtime import LOST_MAX, ObstoreRuntime, runtime
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.remote.deadline import Deadline, DeadlineError
from tests.support.stubs.s3_stub import Stub

SHORT_S, LONG_S = 0.05, 60.0


@pytest.fixture(autouse=True)
def _runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstore_runtime, "_here", ObstoreRuntime())
    monkeypatch.setattr(obstore_calls, "JOIN_S", LONG_S)


@pytest.fixture
def calls() -> Iterator[ObstoreCalls]:
    """Calls that wait as long as an answer takes, also on a busy machine."""
    made = ObstoreCalls("s3-test", LONG_S)
    yield made
    made.close()


@pytest.fixture
def impatient() -> Iterator[ObstoreCalls]:
    made = ObstoreCalls("s3-test", SHORT_S)
    yield made
    made.close()


async def answer(_: Progress) -> str:
    return "answer"


async def for_ever(_: Progress) -> None:
    await asyncio.Event().wait()


def begin_for_ever(progress: Progress) -> Coroutine[Any, Any, None]:
    progress.has_begun = True  # at once, however late the event loop is
    return for_ever(progress)


async def fail(_: Progress) -> None:
    raise TimeoutError("its own")


def test_the_end_waits_for_threads_that_hand_over_an_answer(
    calls: ObstoreCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's threads must not be in Python when the interpreter ends."""
    handed, may_leave, left = threading.Event(), threading.Event(), threading.Event()
    hand_over = asyncio.SelectorEventLoop.call_soon_threadsafe

    def slowly(loop: asyncio.SelectorEventLoop, *given: Any, **more: Any) -> asyncio.Handle:
        handle = hand_over(loop, *given, **more)
        if threading.current_thread().name == "library":
            handed.set()
            may_leave.wait(LONG_S)
            left.set()
        return handle

    async def ask(_: Progress) -> str:
        loop = asyncio.get_running_loop()
        answered = loop.create_future()
        hand = partial(loop.call_soon_threadsafe, answered.set_result, "answer")
        threading.Thread(target=hand, name="library").start()
        return str(await answered)

    monkeypatch.setattr(asyncio.SelectorEventLoop, "call_soon_threadsafe", slowly)
    assert calls.run(ask, Deadline(LONG_S)) == "answer"
    assert handed.wait(LONG_S)
    threading.Timer(SHORT_S, may_leave.set).start()
    calls.close()
    assert left.is_set()


def test_a_call_returns_and_raises_what_it_does(calls: ObstoreCalls) -> None:
    assert calls.run(answer, Deadline(LONG_S)) == "answer"
    for _ in range(LOST_MAX):
        with pytest.raises(TimeoutError, match="its own"):
            calls.run(fail, Deadline(LONG_S))
    assert runtime().is_usable()


def test_silence_ends_a_call_long_before_its_deadline(impatient: ObstoreCalls) -> None:
    with pytest.raises(DeadlineError):
        impatient.run(for_ever, Deadline(LONG_S))


def test_an_answer_that_began_has_until_the_deadline() -> None:
    calls = ObstoreCalls("s3-test", SHORT_S)
    begun = time.monotonic()
    with pytest.raises(DeadlineError):
        calls.run(begin_for_ever, Deadline(4 * SHORT_S))
    assert time.monotonic() - begun >= 4 * SHORT_S
    calls.close()


def test_a_deadline_shorter_than_silence_counts() -> None:
    calls = ObstoreCalls("s3-test", LONG_S)
    for call in (for_ever, begin_for_ever):
        with pytest.raises(DeadlineError):
            calls.run(call, Deadline(SHORT_S))
    calls.close()


def test_some_lost_calls_in_a_row_end_its_use_and_one_log_says_so(
    calls: ObstoreCalls, impatient: ObstoreCalls, caplog: pytest.LogCaptureFixture
) -> None:
    def lose() -> None:
        with pytest.raises(DeadlineError):
            impatient.run(for_ever, Deadline(LONG_S))

    for _ in range(LOST_MAX - 1):
        lose()
    calls.run(answer, Deadline(LONG_S))
    for _ in range(LOST_MAX - 1):
        lose()
    assert runtime().is_usable()
    lose()
    for _ in range(3):
        assert not runtime().is_usable()
    (told,) = caplog.records
    assert told.levelno == logging.WARNING
    assert "calls in a row did not end" in told.getMessage()


def test_then_the_sdk_reads_and_nothing_is_lost(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime(), "is_usable", lambda: False)
    stub.objects["a"] = b"abc"
    storage = S3ChunkStorage(stub.settings(transport="obstore"))
    assert storage.stat("a").length == 3
    assert storage.read_into("a", 0, bytearray(3)) == 3
    assert {request.headers["user-agent"].partition("/")[0] for request in stub.asked} == {
        "siltstone"
    }
    storage.close()


def test_a_read_that_is_lost_is_no_read_and_leaves_the_buffer(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.objects["a"] = b"abc"
    storage = S3ChunkStorage(stub.settings(transport="obstore"))
    monkeypatch.setattr(obstore_calls.ObstoreCalls, "run", _lost)
    buffer = bytearray(3)
    with pytest.raises(ChunkUnavailableError, match="DeadlineError"):
        storage.read_into("a", 0, buffer)
    assert buffer == bytes(3)
    storage.close()


def _lost(*_: object) -> None:
    raise DeadlineError("lost")


def test_closing_ends_the_thread_also_of_calls_that_were_left() -> None:
    calls = ObstoreCalls("s3-closing", SHORT_S)
    with pytest.raises(DeadlineError):
        calls.run(for_ever, Deadline(LONG_S))
    assert threads() == ["s3-closing"]
    calls.close()
    calls.close()
    assert threads() == []


def test_a_call_on_its_way_ends_before_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstore_calls, "JOIN_S", 0.0)
    calls = ObstoreCalls("s3-closing", LONG_S)
    begun, found = threading.Event(), []

    async def last(_: Progress) -> str:
        begun.set()
        await asyncio.sleep(SHORT_S)
        return "last"

    caller = threading.Thread(target=lambda: found.append(calls.run(last, Deadline(LONG_S))))
    caller.start()
    begun.wait(LONG_S)
    calls.close()
    caller.join(LONG_S)
    assert found == ["last"]


def test_forgetting_it_ends_the_thread() -> None:
    ObstoreCalls("s3-forgotten", LONG_S).run(answer, Deadline(LONG_S))
    assert "s3-forgotten" not in threads()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("s3-")]
