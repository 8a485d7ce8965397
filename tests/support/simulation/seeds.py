"""Which seeds a soak of the simulation plays, and whether another process plays one alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.soak import shared

SOAK_PARTS = 10
_FIRST = int(os.environ.get("SILTSTONE_SOAK_FIRST_SEED", "1000000"))
_SEEDS = int(os.environ.get("SILTSTONE_SOAK_SEEDS", "3000"))
_ROOT = Path(__file__).parents[3]


def soak_seeds(part: int) -> list[int]:
    """The seeds of one of ``SOAK_PARTS`` parts of a soak, or of this share of it."""
    return shared(range(_FIRST + part, _FIRST + _SEEDS, SOAK_PARTS))


def told_by_two_processes(*arguments: str) -> tuple[bytes, bytes]:
    """What two processes with other hashes of strings, which order sets, tell of a seed."""
    first, again = (
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", *arguments, "--trace"],
            cwd=_ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(_ROOT)},
            capture_output=True,
            check=True,
        ).stdout.rpartition(b" seconds=")[0]
        for hash_seed in ("1", "2")
    )
    return first, again
