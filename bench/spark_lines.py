"""``python -m bench.spark_lines``: lines of a segment in Spark, against ``spark.read.text``.

The same bytes, once as a segment in its chunks and once as plain files of the same size, read by
turns in one session. CPU is that of the JVM and of its Python workers together.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import siltstone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIB = 2**20
PIECE_BYTES = 4 * MIB
FILE_BYTES = 64 * MIB
SEGMENT = "lines"


@dataclass(slots=True)
class Timing:
    """What the rounds of one reader took."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_lines", description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="bytes read; default: %(default)s MiB")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    options = parser.parse_args()
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build", prefix="bench-spark-") as name:
        folder = Path(name).absolute()
        length, count = write(folder, options.mib * MIB)
        print(f"{length:,} bytes in {count:,} lines; {options.rounds} rounds after one to warm up")
        measure(folder, length, count, options.rounds)


def write(folder: Path, length: int) -> tuple[int, int]:
    """Write about ``length`` bytes as a segment and as files; return the bytes and lines."""
    chance = random.Random(1)
    siltstone.init(folder / "store")
    texts = folder / "texts"
    texts.mkdir()
    pieces, total, count = [], 0, 0
    with siltstone.open(folder / "store") as store:
        segment = store.create(SEGMENT)
        while total < length:
            lines = []
            size = 0
            while size < PIECE_BYTES:
                lines.append(b"%0*d\n" % (chance.randint(40, 159), chance.getrandbits(100)))
                size += len(lines[-1])
            piece = b"".join(lines)
            segment.append(piece)
            pieces.append(piece)
            total += len(piece)
            count += len(lines)
        segment.flush()
    each = FILE_BYTES // PIECE_BYTES
    for number, begin in enumerate(range(0, len(pieces), each)):
        (texts / f"{number:04}.txt").write_bytes(b"".join(pieces[begin : begin + each]))
    return total, count


def measure(folder: Path, length: int, count: int, rounds: int) -> None:
    from siltstone.spark import session

    spark = session(master="local[2]", settings={"spark.driver.memory": "2g"})
    try:
        readers = {
            "spark.read.text": lambda: spark.read.text(str(folder / "texts")),
            "siltstone": lambda: lines_of(spark, folder / "store"),
        }
        timings = {name: Timing() for name in readers}
        for number in range(rounds + 1):
            for name, reader in readers.items():
                wall_s, cpu_s = timed(reader, (count, length - count))
                if number:
                    timings[name].wall_s.append(wall_s)
                    timings[name].cpu_s.append(cpu_s)
    finally:
        spark.stop()
    report(timings, length)


def lines_of(spark: SparkSession, store: Path) -> DataFrame:
    reader = spark.read.format("siltstone").option("store", str(store))
    return reader.option("segment", SEGMENT).load()


def timed(reader: Callable[[], DataFrame], wanted: tuple[int, int]) -> tuple[float, float]:
    """Count lines and their bytes; return wall and CPU seconds."""
    cpu, start = cpu_s(), time.monotonic()
    row = reader().selectExpr("count(1)", "sum(octet_length(value))").collect()[0]
    wall = time.monotonic() - start
    if tuple(row) != wanted:
        raise SystemExit(f"wrong result: {tuple(row)} instead of {wanted}")
    return wall, cpu_s() - cpu


def cpu_s() -> float:
    """CPU seconds of this process and of all below it, the ended ones included."""
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


def report(timings: dict[str, Timing], length: int, peer_name: str = "spark.read.text") -> None:
    peer = timings[peer_name]
    for name, timing in timings.items():
        wall, cpu = statistics.median(timing.wall_s), statistics.median(timing.cpu_s)
        walls = sorted(b / a for a, b in zip(timing.wall_s, peer.wall_s, strict=True))
        cpus = sorted(b / a for a, b in zip(timing.cpu_s, peer.cpu_s, strict=True))
        print(
            f"{name:16} wall {wall:6.2f} s {length / MIB / wall:6.0f} MiB/s   "
            f"cpu {cpu:6.2f} s {length / MIB / cpu:6.0f} MiB per CPU second   "
            f"speed to {peer_name}: wall {spread(walls)}, cpu {spread(cpus)}"
        )


def spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


if __name__ == "__main__":
    main()
