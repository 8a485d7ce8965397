"""Opening stores of very many segments: seconds and memory, with and without the local index."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from bench.figure import MIB, MILLISECONDS, Figure, alternate
from bench.workshop import Loop, Workshop, async_store, in_flight

FEW = 100
COUNTS = ((100_000, 1_000), (1_000_000, 3_000))
"""Segments of a full and of a quick run."""

CASES = (
    ("index at hand", "owner", False),
    ("index rebuilt", "owner", True),
    ("read-only", "reader", False),
)
LIMIT_MIB = 512.0
"""What an opening may take, however many segments there are."""

WIDTH = 1_000


def run(workshop: Workshop) -> list[Figure]:
    """Open stores of few and of many segments in turns, each time in a process of its own."""
    figures = []
    for full, quick in COUNTS:
        with workshop.place() as place:
            few, many = place / "few", place / "many"
            count = workshop.pick(full, quick)
            for folder, segments in ((few, FEW), (many, count)):
                folder.mkdir()
                _fill(workshop.store(folder), segments)
            for name, who, cold in CASES:
                figures += _compared(
                    workshop, few / "store", many / "store", count, name, who, cold=cold
                )
    return figures


def _compared(
    workshop: Workshop, few: Path, many: Path, count: int, name: str, who: str, *, cold: bool
) -> list[Figure]:
    peaks: list[float] = []

    def ours() -> float:
        seconds, peak_mib = _opening(many, who, cold=cold)
        peaks.append(peak_mib)
        return seconds * 1e3

    values, theirs = alternate(
        workshop.rounds, ours, lambda: _opening(few, who, cold=cold)[0] * 1e3
    )
    what = f"open a store of {count:,} segments, {name}"
    return [
        Figure(
            what=what, peer=f"one of {FEW} segments", unit=MILLISECONDS, ours=values, theirs=theirs
        ),
        Figure(
            what="… peak memory of the process",
            peer="limit",
            unit=MIB,
            ours=peaks,
            theirs=[LIMIT_MIB] * workshop.rounds,
            goal=1,
        ),
    ]


def _fill(file: Path, count: int) -> None:
    """Make empty segments; log and index hold only what their making left."""
    with Loop() as loop, async_store(loop, file) as store:
        loop(in_flight(min(WIDTH, count), count, lambda number: store.create(f"some/{number:09}")))


def _opening(root: Path, who: str, *, cold: bool) -> tuple[float, float]:
    if cold:
        shutil.rmtree(root / "index")
    arguments = [sys.executable, "-m", "bench.opening_child", str(root / "siltstone.yaml"), who]
    printed = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    measured = json.loads(printed)
    return measured["seconds"], measured["peak_mib"]
