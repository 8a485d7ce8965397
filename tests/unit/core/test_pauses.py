"""Pauses that end when no caller waits for the work any more."""

from __future__ import annotations

import threading

import pytest

from siltstone.core.environment import SystemEnvironment
from siltstone.core.pauses import Stop, StoppedError, current_stop

LONG_S = 3_600.0


def test_a_stop_ends_pauses_of_its_own_work_and_no_others() -> None:
    environment, stop = SystemEnvironment(), Stop()
    pausing = threading.Event()
    found: list[str] = []

    def work() -> None:
        pausing.set()
        environment.pause(LONG_S)

    def thread() -> None:
        try:
            stop.run(work)
        except StoppedError:
            found.append("stopped")

    worker = threading.Thread(target=thread)
    worker.start()
    assert pausing.wait(60)
    stop.set()
    worker.join(60)
    assert found == ["stopped"]
    environment.pause(0.001)


def test_what_is_stopped_begins_nothing() -> None:
    stop = Stop()
    assert stop.run(lambda: 1) == 1
    assert current_stop() is None
    stop.set()
    with pytest.raises(StoppedError):
        stop.run(lambda: pytest.fail("it was begun"))
    assert current_stop() is None
