"""One of every few calls fails, over a whole life of a container.

What may fail: calls to long-term storage, journal and checkpoints included, each before it takes
effect or after it; appends to the log likewise, and each of those ends an owner. What must hold:
an application that repeats what was not applied comes to its end, and everything is there.
"""

from __future__ import annotations

from random import Random

import pytest

from siltstone.core.errors import LogError
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from siltstone.testing.faults.faulty_fenced_log import Fault, FaultPlan
from tests.support.container.container_world import small_slices, with_settings
from tests.support.faults.container_life import Life, play

SETTINGS = with_settings(
    chunk_bytes=4_000,
    garbage_delay_s=1.0,
    append_deadline_s=5.0,
    flush_age_s=1e6,
    table_flush_age_s=1e6,
    checkpoint_age_s=1e6,
    garbage_interval_s=1e6,
    optimiser_enabled=False,
)


async def short_life(life: Life) -> None:
    """Each verb once or twice, with the flushes and checkpoints by hand."""
    await life.create("a")
    await life.do(lambda c: c.create_table("table", exist_ok=True))
    await life.append("a", 700)
    await life.append_once("a", 0, 200)
    await life.do(lambda c: c.flush())
    await life.commit("a", 100, b"one")
    await life.do(lambda c: c.checkpoint())
    await life.create("b")
    for _ in range(5):
        await life.append("b", 300)
        await life.do(lambda c: c.flush("b"))
    await life.seal("b")
    await life.concat("a", "b")
    await life.truncate("a", 1_000)
    await life.append_once("a", 1, 300)
    await life.do(lambda c: c.flush())
    await life.wait(20)
    await life.do(lambda c: c.checkpoint())


class OneOf:
    """A storage plan by which one of every ``n`` mutations has a fate; looks are repeated anyway.

    Which one is drawn, so that the repeats of a step do not keep time with the failures.
    """

    def __init__(self, n: int, fate: Fate) -> None:
        self.n = n
        self.fate = fate
        self.count = 0

    def __call__(self, call: StorageCall) -> Fate:
        if call.operation in ("read_into", "stat", "list"):
            return Fate.DONE
        self.count += 1
        return self.fate if is_chosen(self.count, self.n) else Fate.DONE


def is_chosen(number: int, n: int) -> bool:
    """Whether a call is the one of its ``n`` that fails: drawn for each ``n``, always alike."""
    return number % n == Random(number // n).randrange(n)


@pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.LOST_REPLY, Fate.LOST_CALL])
@pytest.mark.parametrize("n", [3, 5, 7, 11])
def test_one_of_n_changes_of_storage_fails(n: int, fate: Fate) -> None:
    plan = OneOf(n, fate)
    with small_slices(3):
        play(plan, None, short_life, SETTINGS)
    assert plan.count > n


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("n", [7, 11, 13])
def test_one_of_n_appends_to_the_log_fails(n: int, applied: bool) -> None:
    """An owner needs a few appends to open; if more of them failed, none would ever serve."""
    plan = FaultPlan()
    for number in (each for each in range(1, 4_000) if is_chosen(each, n)):
        fault = Fault(applied=applied, error=LogError("injected: lost reply or lost call"))
        plan.faults["append", number] = fault
    with small_slices(3):
        play(None, plan, short_life, SETTINGS)
