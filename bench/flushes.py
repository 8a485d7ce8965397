"""Large appends and their flush: throughput, and the memory that they take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.figure import MIB, MIB_PER_SECOND, Figure, alternate
from bench.flush_child import APPEND_BYTES
from bench.workshop import Workshop, distinct, seconds_of

SYNC_BYTES = 8 * 2**20
GOAL = 0.8
EXTRA_MIB = 300
"""Memory that may be used in addition to the bound of back-pressure."""

BOUNDS_MIB = (256, 64)


def run(workshop: Workshop) -> list[Figure]:
    """Append and flush as appends and as a file; each time in a process of its own."""
    count = workshop.pick(1024, 24)
    peaks: dict[int, list[float]] = {bound: [] for bound in BOUNDS_MIB}

    def ours(verb: str, bound: int) -> float:
        seconds, peak_mib = _in_child(workshop, verb, bound, count)
        if verb == "append":
            peaks[bound].append(peak_mib)
        return count / seconds

    runs = [("append", bound) for bound in BOUNDS_MIB]
    runs.append(("file", BOUNDS_MIB[0]))
    *values, peer = alternate(
        workshop.rounds,
        *(lambda verb=verb, bound=bound: ours(verb, bound) for verb, bound in runs),
        lambda: count / _write_twice(workshop, count),
    )
    names = {"append": "append, 1 MiB each, and flush", "file": 'open("ab") and flush'}
    figures = [
        Figure(
            what=f"{names[verb]}, {count:,} MiB, back-pressure at {bound} MiB",
            peer="write twice, fdatasync each 8 MiB",
            unit=MIB_PER_SECOND,
            ours=ours_values,
            theirs=peer,
            goal=GOAL,
        )
        for (verb, bound), ours_values in zip(runs, values, strict=True)
    ]
    figures += [
        Figure(
            what=f"… peak memory of the process, back-pressure at {bound} MiB",
            peer=f"limit: the bound and {EXTRA_MIB} MiB",
            unit=MIB,
            ours=peaks[bound],
            theirs=[float(bound + EXTRA_MIB)] * workshop.rounds,
            goal=1,
        )
        for bound in BOUNDS_MIB
    ]
    return figures


def _in_child(workshop: Workshop, verb: str, bound: int, count: int) -> tuple[float, float]:
    with workshop.place() as place:
        file = workshop.store(place, f"back_pressure:\n  bytes: {bound}MiB\n")
        child = subprocess.run(
            [sys.executable, "-m", "bench.flush_child", str(file), verb, str(count)],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[1],
        )
    told = json.loads(child.stdout)
    return told["seconds"], told["peak_mib"]


def _write_twice(workshop: Workshop, count: int) -> float:
    """Only what every byte must go through: once as a log, once as a chunk."""
    make = distinct(APPEND_BYTES)
    group = SYNC_BYTES // APPEND_BYTES

    def write() -> None:
        for first in range(0, count, group):
            buffers = [make(number) for number in range(first, min(first + group, count))]
            for fd in files:
                if os.writev(fd, buffers) != APPEND_BYTES * len(buffers):
                    raise OSError("a write was cut short")
                os.fdatasync(fd)

    with workshop.place() as place:
        files = [os.open(place / name, os.O_WRONLY | os.O_CREAT) for name in ("log", "chunk")]
        try:
            return seconds_of(write)
        finally:
            for fd in files:
                os.close(fd)
