"""From the death of an owner to the first append that its successor acknowledges."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import siltstone
from bench.figure import MILLISECONDS, Figure, alternate
from bench.workshop import Loop, Stopwatch, Workshop

MIB = 2**20
SIZES_MIB = ((25, 1), (50, 2), (100, 3))
"""Bytes that only the log has when the owner dies, in a full and in a quick run."""
LIMIT_MS = 2_000.0
SETTINGS = """
back_pressure:
  bytes: 1GiB
flush:
  bytes: 1GiB
  age: 1h
"""


def run(workshop: Workshop) -> list[Figure]:
    """Measure with the file log."""
    return takeovers(workshop, workshop.store, LIMIT_MS)


def takeovers(
    workshop: Workshop, make_store: Callable[[Path, str], Path], limit_ms: float
) -> list[Figure]:
    """Kill owners with more and more unflushed bytes, and open the store again each time.

    Args:
        workshop: where and how large.
        make_store: makes a store in a folder with some settings, and returns its settings file.
        limit_ms: how long the next owner's first append may take.
    """

    def after_death_ms(count: int) -> float:
        with workshop.place() as place:
            file = make_store(place, SETTINGS)
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
                theirs=[limit_ms] * len(ours),
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
            loop(_append(store.segment("segment-0")))
        loop(store.close())
    return watch.seconds * 1e3


async def _append(segment: siltstone.AsyncSegment) -> None:
    await segment.append(b"x")
