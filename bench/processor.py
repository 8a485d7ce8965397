"""Processor time of a family of processes: here the JVM, its Python daemon and the workers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.figure import Better, Unit, alternate

MIB_PER_CPU_SECOND: Final = Unit(text="MiB a CPU second", better=Better.HIGHER)

CPU_S_MIN: Final = 0.01
"""What the kernel can tell apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the alternations of one way took, in seconds."""

    wall_s: list[float]
    cpu_s: list[float]

    def per_wall(self, amount: float) -> list[float]:
        """``amount``, which each alternation does, per second of the clock."""
        return [amount / spent for spent in self.wall_s]

    def per_cpu(self, amount: float) -> list[float]:
        """``amount`` per second of the processor."""
        return [amount / spent for spent in self.cpu_s]


def spend(
    warm_ups: int,
    rounds: int,
    ways: Mapping[str, Callable[[], object]],
    after: Callable[[], object] = lambda: None,
) -> dict[str, Spent]:
    """Run all ``ways`` in turn, so that each pair is of neighbours; return what each took.

    Args:
        warm_ups: turns before those that count.
        rounds: turns that count.
        ways: by name.
        after: tidies up after each of them, and is not measured.
    """
    cpus: dict[str, list[float]] = {name: [] for name in ways}

    def timed(name: str) -> float:
        cpu, start = cpu_s(), time.monotonic()
        ways[name]()
        wall_s = time.monotonic() - start
        cpus[name].append(max(CPU_S_MIN, cpu_s() - cpu))
        after()
        return wall_s

    measures = [partial(timed, name) for name in ways]
    alternate(warm_ups, *measures)
    for values in cpus.values():
        values.clear()
    walls = alternate(rounds, *measures)
    return {
        name: Spent(wall_s=wall_s, cpu_s=cpus[name])
        for name, wall_s in zip(ways, walls, strict=True)
    }


def cpu_s() -> float:
    """CPU seconds of this process and of all below it, including the ended ones."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    total, todo = 0, [os.getpid()]
    while todo:
        process = todo.pop()
        total += ticks.get(process, 0)
        todo += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")
