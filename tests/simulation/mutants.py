"""Breaks the code on purpose, one rule at a time, and counts the seeds until that is seen.

``python -m tests.simulation.mutants`` prints how many each one took; with words after it, only
those whose names hold one of them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.simulation.age_mutants import AGE_MUTANTS
from tests.simulation.collection_mutants import COLLECTION_MUTANTS
from tests.simulation.engine_mutants import ENGINE_MUTANTS
from tests.simulation.kafka_mutants import KAFKA_MUTANTS
from tests.simulation.keyspace_mutants import KEYSPACE_MUTANTS
from tests.simulation.life_mutants import LIFE_MUTANTS
from tests.simulation.log_mutants import LOG_MUTANTS
from tests.simulation.mutant import Mutant

ROOT = Path(__file__).parents[2]
SEEDS_MAX = 200
PROCESSOR_S_MAX = 1_000

MUTANTS = (
    *ENGINE_MUTANTS,
    *AGE_MUTANTS,
    *LOG_MUTANTS,
    *KAFKA_MUTANTS,
    *LIFE_MUTANTS,
    *COLLECTION_MUTANTS,
    *KEYSPACE_MUTANTS,
)


def seeds_until_seen(mutant: Mutant, seeds: int = SEEDS_MAX) -> int | None:
    """Play seeds with a rule left out; which one was the first to fail, if any was.

    One that never ends counts as seen.
    """
    with TemporaryDirectory(prefix="siltstone-mutant-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "siltstone", folder / "siltstone")
        (folder / "tests").symlink_to(ROOT / "tests")
        file = folder / "siltstone" / mutant.file
        text = file.read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, f"{mutant.name}: {text.count(mutant.old)} places"
        file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        play = [sys.executable, "-m", "tests.simulation", "0", "--count", f"{seeds}"]
        play += [] if mutant.story == "long" else [f"--{mutant.story}"]
        # Of the processor, for other work on the machine must not count as a failure.
        command = ["sh", "-c", f"ulimit -t {PROCESSOR_S_MAX}; exec {shlex.join(play)}"]
        environment = {**os.environ, "PYTHONPATH": name}
        ended = subprocess.run(command, cwd=name, env=environment, capture_output=True, check=False)
        return ended.stdout.count(b"\n") + 1 if ended.returncode else None


def main() -> None:
    """Print a table of those that the command line names."""
    for mutant in MUTANTS:
        if sys.argv[1:] and not any(word in mutant.name for word in sys.argv[1:]):
            continue
        seen = seeds_until_seen(mutant)
        sys.stdout.write(f"{'not seen' if seen is None else seen:>8}  {mutant.name}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
