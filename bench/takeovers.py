"""From the death of an owner to the first append that its successor acknowledges."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import siltstone
from bench.figure import MILLISECONDS, Figure, alternate
from bench.workshop import Loop, Stopwatch, Workshop

MIB = 2**20
SIZES_MIB = ((25, 1), (50, 2), (100, 3))
"""What only the log has when the owner dies, in a full and in a quick run."""
LIMIT_MS = 2_000.0
SETTINGS = """
back_pressure:
  bytes: 1GiB
flush:
  bytes: 1GiB
  age: 1h
"""


def run(workshop: Workshop) -> list[Figure]:
    """Kill an owner with more and more that is not flushed, and open the store again."""

    def after_death_ms(count: int) -> float:
        with workshop.place() as place:
            file = workshop.store(place, SETTINGS)
            _die(file, count)
            return _first_append_ms(file)

    figures = []
    for size in (workshop.pick(*pair) for pair in SIZES_MIB):
        (ours,) = alternate(workshop.rounds, partial(after_death_ms, size))
        figures.append(
            Figure(
                what=f"kill -9 with {size} MiB not flushed, to the next owner's first append",
                peer="limit",
                unit=MILLISECONDS,
                ours=ours,
                theirs=[LIMIT_MS] * len(ours),
                goal=1,
            )
        )
    return figures


def _die(file: Path, count: int) -> None:
    """Let an owner in a process of its own append, and kill it."""
    command = [sys.executable, "-m", "bench.owner_child", str(file), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        process.kill()


def _first_append_ms(file: Path) -> float:
    with Loop() as loop:
        with Stopwatch() as watch:
            store = loop(siltstone.open_async(file))
            loop(store.segment("segment-0").append(b"x"))
        loop(store.close())
    return watch.seconds * 1e3
