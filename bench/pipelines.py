"""``python -m bench.pipelines``: a scrub on threads, in tasks of Spark, and in plain Python.

Two stores of the same bytes or so: very many small chunks, and a few large ones. Plain Python opens
each file, reads it and computes one checksum, in one process; it knows the paths beforehand and
checks nothing else. CPU is that of the driver, of the JVM and of its Python workers together.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import siltstone
from bench.spark_lines import cpu_s
from siltstone.core.checksums import crc32c
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub import ScrubItem, plan_scrub, scrub
from siltstone.pipelines.store_view import StoreView, store_view
from siltstone.pipelines.work import OK, Executor

KIB, MIB = 2**10, 2**20
READ_BYTES = 4 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A store: so many chunks of so many bytes."""

    chunks: int
    chunk_bytes: int

    @property
    def name(self) -> str:
        size = self.chunk_bytes
        return (
            f"{self.chunks:,} of {size // MIB} MiB"
            if size >= MIB
            else (f"{self.chunks:,} of {size // KIB} KiB")
        )


SHAPES = (
    Shape(chunks=10_000, chunk_bytes=16 * KIB),
    Shape(chunks=16, chunk_bytes=64 * MIB),
)


@dataclass(slots=True)
class Timing:
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pipelines", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--share", type=float, default=1.0, help="of the chunks; default: all")
    parser.add_argument("--no-spark", action="store_true", help="threads and plain Python alone")
    options = parser.parse_args()
    Path("build").mkdir(exist_ok=True)
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir="build", prefix="bench-jobs-"))
        ).absolute()
        executors: dict[str, Executor] = {
            "1 thread": LocalExecutor(1),
            "2 threads": LocalExecutor(2),
        }
        if not options.no_spark:
            from siltstone.spark import session
            from siltstone.spark.executor import SparkExecutor

            spark = SparkExecutor(session(master="local[2]"), stops=True)
            stack.callback(spark.close)
            executors["Spark local[2]"] = spark
        for shape in SHAPES:
            count = max(1, int(shape.chunks * options.share))
            store = write(folder / f"{shape.chunk_bytes}", count, shape.chunk_bytes)
            measure(shape, store, executors, options.rounds)


def write(store: Path, count: int, chunk_bytes: int) -> Path:
    settings = siltstone.init(store)
    with settings.open("a", encoding="utf-8") as file:
        file.write(f"\nsegments:\n  chunk_size: {chunk_bytes}\nflush:\n  age: 1h\n")
        file.write("optimiser:\n  enabled: false\n")
    piece = min(4 * MIB, chunk_bytes * count)
    with siltstone.open(store) as opened:
        segment = opened.create("bench")
        left = count * chunk_bytes
        while left:
            segment.append(os.urandom(min(piece, left)))
            left -= min(piece, left)
        opened.flush()
    return store


def measure(shape: Shape, store: Path, executors: dict[str, Executor], rounds: int) -> None:
    with store_view(store) as view:
        rows = [row for row in view.chunk_rows() if row.chunk.name.startswith("data/")]
        items = plan_scrub(rows)
        total = sum(item.length for item in items)
        ways: dict[str, Callable[[], int]] = {"plain Python": lambda: plain(store, items)}
        for name, executor in executors.items():
            ways[name] = lambda executor=executor: job(view, executor, items)  # type: ignore[misc]
        timings = {name: Timing() for name in ways}
        for number in range(rounds + 1):
            for name, way in ways.items():
                cpu, start = cpu_s(), time.monotonic()
                if way() != total:
                    raise SystemExit(f"{name}: not all bytes were read")
                if number:  # the first round warms up
                    timings[name].wall_s.append(time.monotonic() - start)
                    timings[name].cpu_s.append(cpu_s() - cpu)
    print(f"\n{shape.name}: {len(items):,} chunks, {total / MIB:,.0f} MiB, {rounds} rounds")
    for name, timing in timings.items():
        wall, cpu = median(timing.wall_s), median(timing.cpu_s)
        plain_s = timings["plain Python"]
        ratios = [
            ours / max(theirs, 0.01)
            for ours, theirs in zip(timing.cpu_s, plain_s.cpu_s, strict=True)
        ]
        print(
            f"{name:16} {len(items) / wall:10,.0f} chunks/s {total / MIB / wall:8,.0f} MiB/s  "
            f"wall {wall:6.2f} s  cpu {cpu:6.2f} s, {median(ratios):.1f} times that of plain Python"
        )


def plain(store: Path, items: list[ScrubItem]) -> int:
    total = 0
    buffer = memoryview(bytearray(READ_BYTES))
    for item in items:
        value = 0
        with (store / "chunks" / item.name).open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                value = crc32c(buffer[:count], value)
                total += count
    return total


def job(view: StoreView, executor: Executor, items: list[ScrubItem]) -> int:
    found = list(scrub(view, executor, items))
    if any(outcome.status != OK for outcome in found):
        raise SystemExit("a chunk is damaged")
    return sum(outcome.length for outcome in found)


if __name__ == "__main__":
    main()
