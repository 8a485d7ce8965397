"""Signals while Spark is started and while it runs.

Injected: SIGINT and SIGTERM in the middle of a start, and SIGINT in the middle of the work. Must
hold: what was started is stopped, and the user is told by one line.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest

import siltstone.spark
from siltstone.cli.deferred_signals import held_signals, told_once
from siltstone.cli.interrupts import Interrupted
from tests.support.command import Command


class Started:
    """Stands for a session."""

    stopped = 0

    def stop(self) -> None:
        self.stopped += 1


def test_an_interrupt_while_spark_starts_stops_it(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, threads = Started(), []

    def start(**_: Any) -> Started:
        threads.append(threading.current_thread())
        os.kill(os.getpid(), signal.SIGINT)
        return made

    monkeypatch.setattr(siltstone.spark, "session", start)
    ran = command("spark", "scrub")
    assert (ran.code, ran.err) == (130, "siltstone: interrupted\n")
    assert made.stopped == 1
    # On the main thread pyspark would handle the signal itself.
    assert threads[0] is not threading.main_thread()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_held_to_the_end_and_not_lost(number: signal.Signals) -> None:
    came: list[int] = []
    before = signal.signal(number, lambda number, frame: came.append(number))
    try:
        with held_signals():
            signal.raise_signal(number)
            assert came == []
        assert came == [number]
    finally:
        signal.signal(number, before)


def test_while_spark_runs_an_interrupt_is_no_keyboard_interrupt() -> None:
    with pytest.raises(Interrupted), told_once():
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with told_once():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
