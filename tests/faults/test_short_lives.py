"""Owners that live for seconds, with one fault at a time, at every call of their lives.

What may fail: one call to long-term storage or to the log, in an opening, in the work, or in what a
close settles: refused, lost, or applied with its reply lost; or the process dies there. What must
hold: an application that repeats what was not applied comes to its end; every acknowledged byte is
there; no chunk lies there that nothing names; and tier 1 does not grow with the number of lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from siltstone.core.errors import LogError, StorageFullError
from siltstone.testing.faults.faulty_chunk_storage import Fate
from siltstone.testing.faults.faulty_fenced_log import Fault, FaultPlan
from tests.support.container.container_world import with_settings
from tests.support.faults.container_life import Counting, Life, play
from tests.support.soak import shared

SETTINGS = with_settings(chunk_bytes=4_000, flush_bytes=6_000, garbage_delay_s=1.0)
LIVES = 6
SAMPLE = 20
"""Faults of each kind without ``soak``."""

FATES = (Fate.REFUSED, Fate.LOST_REPLY, Fate.LOST_CALL)
LOG_FAULTS: tuple[tuple[bool, Exception], ...] = (
    (True, LogError("injected: lost reply")),
    (False, LogError("injected: lost call")),
    (False, StorageFullError("injected: full")),
)


async def short_lives(life: Life) -> None:
    """Each opens, does a thing or two, and closes: small, large, with a table, flushed, never."""
    await life.create("a")
    await life.do(lambda c: c.create_table("table", exist_ok=True))
    for number in range(LIVES):
        await life.append("a", 100)
        if number % 3 == 1:
            await life.commit("a", 50, b"key %d" % number)
        if number % 3 == 2:
            await life.append_once("a", number, 7_000)
        await life.close()


def storage_cases() -> Iterator[tuple[int, Fate]]:
    plan = Counting()
    play(plan, None, short_lives, SETTINGS)
    yield from ((number, fate) for number in range(1, plan.count + 1) for fate in FATES)


def log_cases() -> Iterator[tuple[int, int]]:
    plan = FaultPlan()
    play(None, plan, short_lives, SETTINGS)
    for number in range(1, plan.counts["append"] + 1):
        yield from ((number, fault) for fault in range(len(LOG_FAULTS)))


def fail_storage(number: int, fate: Fate) -> None:
    plan = Counting(number, fate)
    try:
        play(plan, None, short_lives, SETTINGS)
    except BaseException as error:
        error.add_note(f"storage call {number} ({plan.hit}) was {fate.value}")
        raise


def fail_log(number: int, fault: int) -> None:
    applied, failure = LOG_FAULTS[fault]
    plan = FaultPlan(faults={("append", number): Fault(applied=applied, error=failure)})
    try:
        play(None, plan, short_lives, SETTINGS)
    except BaseException as error:
        error.add_note(f"log append {number}: {failure}")
        raise


def test_nothing_fails() -> None:
    made = play(None, None, short_lives, SETTINGS)
    assert len(made.shared_log.frames) < 20


@pytest.mark.slow
def test_one_storage_call_fails() -> None:
    cases = list(storage_cases())
    for number, fate in Random(1).sample(cases, min(SAMPLE, len(cases))):
        fail_storage(number, fate)


@pytest.mark.slow
def test_one_append_to_the_log_fails() -> None:
    cases = list(log_cases())
    for number, fault in Random(1).sample(cases, min(SAMPLE, len(cases))):
        fail_log(number, fault)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_storage_call_fails() -> None:
    for number, fate in shared(storage_cases()):
        fail_storage(number, fate)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_append_to_the_log_fails() -> None:
    for number, fault in shared(log_cases()):
        fail_log(number, fault)
