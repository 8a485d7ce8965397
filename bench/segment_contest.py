"""A large segment flushed to a binding and read back, and its client that puts as many bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.figure import MIB as MEBIBYTES
from bench.figure import MIB_PER_SECOND, Figure, alternate
from bench.sdk_contest import MIB
from bench.workshop import Workshop, seconds_of

CHUNK_BYTES = 64 * MIB
WIDTH = 4
PEAKS_MIB = {"flush": 556, "read": 300}
"""Of a flush: the bound of back-pressure and what is allowed in addition."""
LARGE_ROUNDS = 2
"""A gibibyte gives the same result each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentContest:
    """What is flushed, and which client does the same.

    Attributes:
        workshop: where and how large.
        peer: what the client alone does, for the table.
        make_store: makes a store on the service in a folder, and returns its settings file.
        put: lets the client alone put an object, given a number and its bytes.
        empty: removes all objects.
        child: the module that flushes and reads, each time in a process of its own.
        quick_mib: MiB of a quick run.
        told: what the processes reported, by verb.
    """

    workshop: Workshop
    peer: str
    make_store: Callable[[Path], Path]
    put: Callable[[int, bytes], object]
    empty: Callable[[], None]
    child: str = "bench.segment_child"
    quick_mib: int = 8
    told: dict[str, list[dict[str, float]]] = field(
        default_factory=lambda: {verb: [] for verb in PEAKS_MIB}
    )

    @property
    def count(self) -> int:
        """MiB of the segment."""
        return self.workshop.pick(1024, self.quick_mib)

    @property
    def rounds(self) -> int:
        """Alternations."""
        return min(LARGE_ROUNDS, self.workshop.rounds)

    def run(self) -> list[Figure]:
        """Measure the speed of both, and the peaks of memory of the store's processes."""
        rates, peer = alternate(self.rounds, self._flushed, self._put)
        speed = Figure(
            what=f"append {self.count:,} MiB to the log and flush, {self.rounds} times",
            peer=f"{self.peer}, {WIDTH} at a time, without a log",
            unit=MIB_PER_SECOND,
            ours=rates,
            theirs=peer,
        )
        peaks = [
            Figure(
                what=f"… peak memory of the process, {verb}",
                peer="limit",
                unit=MEBIBYTES,
                ours=[one["peak_mib"] for one in self.told[verb]],
                theirs=[float(limit)] * self.rounds,
                goal=1,
            )
            for verb, limit in PEAKS_MIB.items()
        ]
        return [speed, *peaks]

    def _flushed(self) -> float:
        with self.workshop.place() as folder:
            file = self.make_store(folder)
            for verb in self.told:
                self.told[verb].append(self._in_child(file, verb))
        self.empty()
        return self.count / self.told["flush"][-1]["seconds"]

    def _in_child(self, file: Path, verb: str) -> dict[str, float]:
        child = subprocess.run(
            [sys.executable, "-m", self.child, str(file), verb, str(self.count)],
            check=True,
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        told: dict[str, float] = json.loads(child.stdout)
        return told

    def _put(self) -> float:
        body = os.urandom(min(self.count * MIB, CHUNK_BYTES))
        numbers = range(self.count * MIB // len(body))

        def put(number: int) -> object:
            return self.put(number, body)

        with ThreadPoolExecutor(WIDTH) as threads:
            seconds = seconds_of(lambda: list(threads.map(put, numbers)))
        self.empty()
        return self.count / seconds
