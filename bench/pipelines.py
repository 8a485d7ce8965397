"""A scrub on threads, in tasks of Spark, and in plain Python.

There are two stores of about the same bytes: very many small chunks, and a few large ones. Plain
Python opens each file, reads it and computes one checksum, in one process; it knows the paths in
advance and checks nothing else. Processor time is that of the driver, of the JVM and of its Python
workers together.

A job of Spark has a high cost whatever its tasks do: the plan, and its way to the workers and back.
So the same job with a step that does nothing is measured too, and shown separately; the figures
that compare Spark with plain Python include that cost. Each way is run three times before it
counts, because the JVM compiles what it does often.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import siltstone
from bench.figure import MIB_PER_SECOND, Better, Figure, Unit
from bench.processor import CPU_S_MIN, Spent, spend
from bench.workshop import Workshop
from siltstone.core.checksums import crc32c
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.scrub import ScrubItem, plan_scrub, scrub
from siltstone.pipelines.store_view import StoreView, store_view
from siltstone.pipelines.work import OK, Executor, ItemOutcome, Step, packed

KIB, MIB = 2**10, 2**20
READ_BYTES: Final = 4 * MIB
CHUNKS_PER_SECOND: Final = Unit(text="chunks/s", better=Better.HIGHER)
CHUNKS_PER_CPU_SECOND: Final = Unit(text="chunks a CPU second", better=Better.HIGHER)
GOAL: Final = 0.5
PLAIN: Final = "plain Python in one process"
SPARK: Final = "Spark local[2]"
NOTHING: Final = "the same tasks, which do nothing"
CPU_SECONDS: Final = Unit(text="CPU s", better=Better.LOWER)
WARM_UPS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A store: the count of its chunks, and the bytes of each."""

    chunks: int
    chunk_bytes: int

    @property
    def name(self) -> str:
        size = self.chunk_bytes
        unit = f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"
        return f"{self.chunks:,} chunks of {unit}"


def run(workshop: Workshop) -> list[Figure]:
    """Measure scrubs by wall and by processor."""
    executors: dict[str, Executor] = {"1 thread": LocalExecutor(1), "2 threads": LocalExecutor(2)}
    try:
        from siltstone.spark import session
        from siltstone.spark.executor import SparkExecutor
    except ImportError as error:
        print(f"without Spark: {error}")
    else:
        executors[SPARK] = SparkExecutor(session(master="local[2]"), stops=True)
    try:
        figures = []
        for shape in (
            Shape(chunks=workshop.pick(10_000, 100), chunk_bytes=16 * KIB),
            Shape(chunks=workshop.pick(16, 2), chunk_bytes=workshop.pick(64, 4) * MIB),
        ):
            with workshop.place() as place:
                figures += measure(workshop, shape, write(workshop, place, shape), executors)
        return figures
    finally:
        for executor in executors.values():
            executor.close()


def write(workshop: Workshop, place: Path, shape: Shape) -> Path:
    file = workshop.store(
        place,
        f"\nsegments:\n  chunk_size: {shape.chunk_bytes}\nflush:\n  age: 1h\n"
        "optimiser:\n  enabled: false\n",
    )
    left = shape.chunks * shape.chunk_bytes
    with siltstone.open(file) as opened:
        segment = opened.create("bench")
        while left:
            segment.append(os.urandom(min(4 * MIB, left)))
            left -= min(4 * MIB, left)
        opened.flush()
    return file


def measure(
    workshop: Workshop, shape: Shape, file: Path, executors: dict[str, Executor]
) -> list[Figure]:
    with store_view(file) as view:
        rows = [row for row in view.chunk_rows() if row.chunk.name.startswith("data/")]
        items = plan_scrub(rows)
        total = sum(item.length for item in items)

        def whole(way: Callable[[], int]) -> None:
            if way() != total:
                raise SystemExit("not all bytes were read")

        ways: dict[str, Callable[[], None]] = {
            name: partial(whole, partial(job, view, executor, items))
            for name, executor in executors.items()
        }
        ways[PLAIN] = partial(whole, partial(plain, file.parent, items))
        if SPARK in executors:
            ways[NOTHING] = partial(whole, partial(nothing, executors[SPARK], items))
        spent = spend(WARM_UPS, workshop.rounds, ways)
    figures = []
    for name in executors:
        for what, unit, ours, theirs in (
            (
                "by processor",
                CHUNKS_PER_CPU_SECOND,
                spent[name].per_cpu(len(items)),
                spent[PLAIN].per_cpu(len(items)),
            ),
            (
                "by wall",
                CHUNKS_PER_SECOND,
                spent[name].per_wall(len(items)),
                spent[PLAIN].per_wall(len(items)),
            ),
            (
                "by wall, bytes",
                MIB_PER_SECOND,
                spent[name].per_wall(total / MIB),
                spent[PLAIN].per_wall(total / MIB),
            ),
        ):
            figures.append(
                Figure(
                    what=f"scrub, {shape.name}, {name}, {what}",
                    peer=PLAIN,
                    unit=unit,
                    ours=ours,
                    theirs=theirs,
                    goal=GOAL if unit is CHUNKS_PER_CPU_SECOND else None,
                )
            )
    if SPARK in executors:
        figures += apart(shape, len(items), spent)
    return figures


def apart(shape: Shape, count: int, spent: Mapping[str, Spent]) -> list[Figure]:
    """What the job of Spark costs whatever it does, and what the chunks cost in addition."""
    pairs = zip(spent[SPARK].cpu_s, spent[NOTHING].cpu_s, strict=True)
    return [
        Figure(
            what=f"scrub, {shape.name}, {SPARK}, processor of all",
            peer=NOTHING,
            unit=CPU_SECONDS,
            ours=spent[SPARK].cpu_s,
            theirs=spent[NOTHING].cpu_s,
        ),
        Figure(
            what=f"scrub, {shape.name}, {SPARK}, without what tasks cost that do nothing",
            peer=PLAIN,
            unit=CHUNKS_PER_CPU_SECOND,
            ours=[count / max(CPU_S_MIN, all_s - fixed_s) for all_s, fixed_s in pairs],
            theirs=spent[PLAIN].per_cpu(count),
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """Work that reports each chunk as good."""

    rate: int | None = None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        yield lambda item: ItemOutcome(subject=item.name, status=OK, length=item.length)


def nothing(executor: Executor, items: list[ScrubItem]) -> int:
    found = executor.run(Nothing(), packed(items, executor.workers))
    return sum(outcome.length for outcome in found)


def plain(folder: Path, items: list[ScrubItem]) -> int:
    total = 0
    buffer = memoryview(bytearray(READ_BYTES))
    for item in items:
        value = 0
        with (folder / "chunks" / item.name).open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                value = crc32c(buffer[:count], value)
                total += count
    return total


def job(view: StoreView, executor: Executor, items: list[ScrubItem]) -> int:
    found = list(scrub(view, executor, items))
    if any(outcome.status != OK for outcome in found):
        raise SystemExit("a chunk is damaged")
    return sum(outcome.length for outcome in found)
