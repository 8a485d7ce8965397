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

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.play import play
from tests.support.processor_limit import HOURS_S
from tests.support.soak import shared

FIRST = 100
SEEDS = 6
BATCH = 2
SMALL = 6
"""A short one, in which owners die and tier 1 is lost."""
SOAK_FIRST = int(os.environ.get("SILTSTONE_SOAK_FIRST_SEED", "1000000"))
SOAK_SEEDS = int(os.environ.get("SILTSTONE_SOAK_SEEDS", "3000"))
SOAK_PARTS = 10

ROOT = Path(__file__).parents[2]

# Each seed has a limit of its own, of the processor.
pytestmark = pytest.mark.timeout(HOURS_S)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, BATCH))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BATCH):
        play(seed, keyspaces=True)


def test_another_process_repeats_everything() -> None:
    """Also with other hashes of strings, which order sets."""
    told = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", f"{SMALL}", "--keyspaces", "--trace"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    first, again = (text.rpartition(b" seconds=")[0] for text in told)
    assert b"made the keyspace" in first
    assert first == again


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_many_seeds(part: int) -> None:
    for seed in shared(range(SOAK_FIRST + part, SOAK_FIRST + SOAK_SEEDS, SOAK_PARTS)):
        play(seed, keyspaces=True)
