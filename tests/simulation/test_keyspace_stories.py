"""Keyspaces on virtual time, each story from a seed: every owner, every fault, every loss.

What may fail: any call to long-term storage, the log or a place of backups, in each way; any
process may die or be paused, at any step, and continue late; wall clocks jump by days; tier 1 is
lost as a whole. What must hold: an acknowledged change is there, or one after it; one whose outcome
is unknown happened as a whole or not at all; no SQN is given twice; conditions, refusals and what
was replaced are true; the index is that of the heads; each value is what was put, by its SHA-256; a
snapshot does not change; without tier 1 the keyspace is what it was at one moment, not before the
last flush; a backup has what it says; in the end a rebuild finds the same objects, counts and
manifest are those of the rows, and no segment is left without a name or task.

A failure names its seed and the command that plays it again.
"""

from __future__ import annotations

import pytest

from tests.simulation.play import play
from tests.support.processor_limit import HOURS_S
from tests.support.simulation.seeds import SOAK_PARTS, soak_seeds, told_by_two_processes

FIRST = 100
SEEDS = 6
BATCH = 2
SMALL = 6
"""A short one, in which owners die and tier 1 is lost."""

# Each seed has a limit of its own, of the processor.
pytestmark = pytest.mark.timeout(HOURS_S)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, BATCH))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BATCH):
        play(seed, keyspaces=True)


def test_another_process_repeats_everything() -> None:
    """Also with other hashes of strings, which order sets."""
    first, again = told_by_two_processes(f"{SMALL}", "--keyspaces")
    assert b"made the keyspace" in first
    assert first == again


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_many_seeds(part: int) -> None:
    for seed in soak_seeds(part):
        play(seed, keyspaces=True)
