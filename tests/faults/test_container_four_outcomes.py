"""One fault at a time, at every call of a scripted life of a container.

What may fail: one call to long-term storage or to the log, of any owner, boots included: refused,
lost, or applied with its reply lost; or the log is full. What must hold: an application that
repeats what was not applied, and opens again when it cannot know, comes to its end; every
acknowledged byte is there, exactly-once writers have no duplicates, every invariant holds, and a
later owner without a local index, and a read-only open, see the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from siltstone.testing.faults.faulty_chunk_storage import (
    Fate,
)
from siltstone.testing.faults.faulty_fenced_log import Fault, FaultPlan
from tests.support.faults.container_life import LOG_FAULTS, Counting, play
from tests.support.soak import shared

SAMPLE = 45
"""Runs of each kind without ``soak``."""


LOG_METHODS = ("append", "claim", "truncate", "newest_epoch", "read", "close")


def storage_cases() -> Iterator[tuple[int, Fate]]:
    plan = Counting()
    play(plan)
    for number in range(1, plan.count + 1):
        for fate in (Fate.REFUSED, Fate.LOST_REPLY, Fate.LOST_CALL):
            yield number, fate


def log_cases() -> Iterator[tuple[str, int, str]]:
    plan = FaultPlan()
    play(None, plan)
    for method in LOG_METHODS:
        for number in range(1, plan.counts[method] + 1):
            for fault in LOG_FAULTS:
                # A log that was never closed is that of a live owner, which is not taken over here.
                if (fault != "full" or method == "append") and (method, fault) != ("close", "lost"):
                    yield method, number, fault


def fail_storage(number: int, fate: Fate) -> None:
    plan = Counting(number, fate)
    try:
        play(plan)
    except BaseException as error:
        error.add_note(f"storage call {number} ({plan.hit}) was {fate.value}")
        raise


def fail_log(method: str, number: int, fault: str) -> None:
    applied, failure = LOG_FAULTS[fault]
    plan = FaultPlan(faults={(method, number): Fault(applied=applied, error=failure)})
    try:
        play(None, plan)
    except BaseException as error:
        error.add_note(f"log {method} {number} was {fault}")
        raise


def test_nothing_fails() -> None:
    play()


def test_one_storage_call_fails() -> None:
    cases = list(storage_cases())
    for number, fate in Random(1).sample(cases, min(SAMPLE, len(cases))):
        fail_storage(number, fate)


def test_one_log_call_fails() -> None:
    cases = list(log_cases())
    for method, number, fault in Random(1).sample(cases, min(SAMPLE, len(cases))):
        fail_log(method, number, fault)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_storage_call_fails() -> None:
    for number, fate in shared(storage_cases()):
        fail_storage(number, fate)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_log_call_fails() -> None:
    for method, number, fault in shared(log_cases()):
        fail_log(method, number, fault)
