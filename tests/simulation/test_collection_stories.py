"""Collections as several processes hold them, on virtual time, each story from a seed.

What may fail: any request to long-term storage, in each way, and any may come late, also after its
sender has died; any process may die, or stand still for longer than its leases, at any step; wall
clocks jump by days, each by itself. What must hold: an append that was acknowledged is there once,
at the time that was told, one that was refused is not, any other at most once; all reads, by rows
and by changes, show the same history; a refusal is true; neither since nor upper goes back; the
since passes no bookmark; what a lease holds is there until an entry ends it; in the end all drains,
and only what the newest state names is left.

A failure names its seed and the command that plays it again.
"""

from __future__ import annotations

import pytest

from tests.simulation.play import play
from tests.support.processor_limit import HOURS_S
from tests.support.simulation.seeds import SOAK_PARTS, soak_seeds, told_by_two_processes

FIRST = 100
SEEDS = 8
BATCH = 2
SMALL = 17
"""A short one."""

# Each seed has a limit of its own, of the processor.
pytestmark = pytest.mark.timeout(HOURS_S)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, BATCH))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BATCH):
        play(seed, collections=True)


def test_another_process_repeats_everything() -> None:
    """Also with other hashes of strings, which order sets."""
    first, again = told_by_two_processes(f"{SMALL}", "--collections")
    assert b"acknowledged append" in first
    assert first == again


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_many_seeds(part: int) -> None:
    for seed in soak_seeds(part):
        play(seed, collections=True)
