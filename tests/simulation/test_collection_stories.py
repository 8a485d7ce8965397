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

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.play import play
from tests.support.processor_limit import HOURS_S
from tests.support.soak import shared

FIRST = 100
SEEDS = 8
BATCH = 2
SMALL = 17
"""A short one."""
SOAK_FIRST = int(os.environ.get("SILTSTONE_SOAK_FIRST_SEED", "1000000"))
SOAK_SEEDS = int(os.environ.get("SILTSTONE_SOAK_SEEDS", "3000"))
SOAK_PARTS = 10

ROOT = Path(__file__).parents[2]

# Each seed has a limit of its own, of the processor.
pytestmark = pytest.mark.timeout(HOURS_S)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, BATCH))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BATCH):
        play(seed, collections=True)


def test_another_process_repeats_everything() -> None:
    """Also with other hashes of strings, which order sets."""
    told = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", f"{SMALL}", "--collections", "--trace"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    first, again = (text.rpartition(b" seconds=")[0] for text in told)
    assert b"acknowledged append" in first
    assert first == again


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
def test_many_seeds(part: int) -> None:
    for seed in shared(range(SOAK_FIRST + part, SOAK_FIRST + SOAK_SEEDS, SOAK_PARTS)):
        play(seed, collections=True)
