"""Calls that hang are given up, and closing lets others end."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from siltstone.bindings.hdfs import calls as module
from siltstone.bindings.hdfs.calls import Calls, CallStoppedError, GivenUpError, Turn
from siltstone.core import spare_threads
from siltstone.core.remote.deadline import Deadline, DeadlineError


def test_a_call_gives_its_result_and_its_error() -> None:
    def wrong(turn: Turn) -> int:
        raise TimeoutError("of the work, not of the call")

    calls = Calls()
    assert calls.call(lambda _: 7, Deadline(120)) == 7
    with pytest.raises(TimeoutError, match="of the work"):
        calls.call(wrong, Deadline(120))
    assert len(calls) == 0
    calls.close()
    calls.close()


def test_calls_one_after_the_other_share_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it takes long to report the thread as free."""

    class Slow(list[Any]):
        def append(self, queue: Any) -> None:
            time.sleep(0.01)
            super().append(queue)

    monkeypatch.setattr(spare_threads, "_idle", Slow())
    calls = Calls()
    threads = {calls.call(lambda _: threading.get_ident(), Deadline(120)) for _ in range(5)}
    assert len(threads) == 1
    calls.close()


def test_a_call_that_hangs_is_given_up_and_makes_no_further_step() -> None:
    proceed, ended = threading.Event(), threading.Event()
    steps = []

    def hang(turn: Turn) -> None:
        proceed.wait(120)
        try:
            turn.check()
            steps.append("another")
        except GivenUpError:
            ended.set()
            raise

    calls = Calls()
    with pytest.raises(DeadlineError):
        calls.call(hang, Deadline(0.05))
    proceed.set()
    assert ended.wait(120)
    assert steps == []
    assert calls.call(lambda _: 7, Deadline(120)) == 7
    calls.close()


def test_only_a_few_threads_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANGING_MAX", 2)
    proceed = threading.Event()
    calls = Calls()
    for _ in range(2):
        with pytest.raises(DeadlineError):
            calls.call(lambda _: proceed.wait(120), Deadline(0.02))
    with pytest.raises(DeadlineError, match="too many"):
        calls.call(lambda _: True, Deadline(120))
    proceed.set()
    until = time.monotonic() + 120
    while calls._hanging and time.monotonic() < until:
        time.sleep(0.001)
    assert calls.call(lambda _: 7, Deadline(120)) == 7


def test_a_deadline_that_has_passed_begins_nothing() -> None:
    begun: list[int] = []
    with pytest.raises(DeadlineError):
        Calls().call(lambda _: begun.append(1), Deadline(0))
    assert begun == []


def test_closing_waits_for_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls()
    with ThreadPoolExecutor(1) as threads:
        quick = threads.submit(calls.call, lambda turn: turn.sleep(0.05), Deadline(30))
        while not len(calls) and not quick.done():
            time.sleep(0.001)
        calls.close()
        assert quick.result(120) is None
    with pytest.raises(CallStoppedError):
        calls.call(lambda _: 7, Deadline(120))


def test_a_call_that_sleeps_is_told_at_once_when_its_caller_has_left() -> None:
    ended = threading.Event()

    def sleep(turn: Turn) -> None:
        try:
            turn.sleep(600)
        except GivenUpError:
            ended.set()
            raise

    with pytest.raises(DeadlineError):
        Calls().call(sleep, Deadline(0.02))
    assert ended.wait(120)


@pytest.mark.slow
def test_what_a_failed_call_has_seen_is_free_when_its_error_is() -> None:
    class Seen:
        """What the call refers to, such as a view of the caller's buffer."""

    made: list[weakref.ref[Seen]] = []

    def fail(turn: Turn) -> None:
        seen = Seen()
        made.append(weakref.ref(seen))
        raise KeyError(id(seen))

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(KeyError):
            Calls().call(fail, Deadline(120))
        until = time.monotonic() + 120
        while made[0]() is not None and time.monotonic() < until:
            time.sleep(0.001)
        assert made[0]() is None
    finally:
        gc.enable()
