"""``python -m bench.spark_sink``: rows of Spark into a segment, against ``df.write.text``.

The same lines, read from plain files, go by turns into a new segment and into a new folder of text.
CPU is that of the JVM and of its Python workers together. Ours is durable when it returns; a text
file of Spark is in the page cache. Then the ends of many batches of a stream, each with a session
of its own: by one owner, and by the sink, which claims the store for each.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import siltstone
from bench.spark_lines import MIB, Timing, cpu_s, report, write

BATCH = b"one line of a batch of a stream\n" * 100
TENTHS = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_sink", description=__doc__)
    parser.add_argument("--mib", type=int, default=256, help="bytes; default: %(default)s MiB")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--batches", type=int, default=10_000, help="default: %(default)s")
    parser.add_argument("--claims", type=int, default=1_000, help="default: %(default)s")
    options = parser.parse_args()
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build", prefix="bench-spark-") as name:
        folder = Path(name).absolute()
        if options.rounds:
            length, count = write(folder, options.mib * MIB)
            print(f"{length:,} bytes in {count:,} lines; {options.rounds} rounds after a warm-up")
            measure(folder, length, options.rounds)
        if options.batches:
            tell("batches of one owner", by_one_owner(folder / "owner", options.batches))
        if options.claims:
            tell("batches, a claim for each step", by_claims(folder / "claims", options.claims))


def measure(folder: Path, length: int, rounds: int) -> None:
    from siltstone.spark import session

    spark = session(master="local[2]", settings={"spark.driver.memory": "2g"})
    frame = spark.read.text(str(folder / "texts"))
    target = folder / "target"
    siltstone.init(target)

    def ours(number: int) -> None:
        writer = frame.write.format("siltstone").mode("append").option("store", str(target))
        writer.option("segment", f"s{number}").save()

    def theirs(number: int) -> None:
        frame.write.text(str(folder / f"text-{number}"))

    sinks: dict[str, Callable[[int], None]] = {"df.write.text": theirs, "siltstone": ours}
    timings = {name: Timing() for name in sinks}
    try:
        for number in range(rounds + 1):
            for name, sink in sinks.items():
                os.sync()
                cpu, start = cpu_s(), time.monotonic()
                sink(number)
                if number:
                    timings[name].wall_s.append(time.monotonic() - start)
                    timings[name].cpu_s.append(cpu_s() - cpu)
            check(target, f"s{number}", length)
            remove(folder, target, number)
    finally:
        spark.stop()
    report(timings, length, peer_name="df.write.text")


def check(target: Path, segment: str, length: int) -> None:
    with siltstone.open(target, read_only=True) as store:
        found = store.segment(segment).info().length
    if found != length:
        raise SystemExit(f"wrong length: {found} instead of {length}")


def remove(folder: Path, target: Path, number: int) -> None:
    shutil.rmtree(folder / f"text-{number}")
    with siltstone.open(target) as store:
        store.segment(f"s{number}").delete()


def by_one_owner(folder: Path, count: int) -> list[float]:
    """Seconds of each commit of a batch by a store that stays open."""
    siltstone.init(folder)
    took = []
    with siltstone.open(folder) as store:
        for number in range(count):
            ticket = store.open_import(f"batch {number}", "s")
            with siltstone.ImportWriter(folder, ticket, partition=0, attempt=0) as writer:
                writer.write(BATCH)
                chunks = writer.finish()
            mode = siltstone.ImportMode.APPEND
            output = siltstone.ImportOutput(segment="s", chunks=chunks, mode=mode)
            batch = siltstone.ImportBatch(query="q", number=number)
            start = time.monotonic()
            store.commit_import(ticket, [output], batch=batch)
            took.append(time.monotonic() - start)
    check(folder, "s", count * len(BATCH))
    return took


def by_claims(folder: Path, count: int) -> list[float]:
    """Seconds of each commit of a batch by the class that Spark calls."""
    import pyarrow
    from pyspark.sql.types import StringType, StructField, StructType

    from siltstone.spark.data_source import SegmentSource
    from siltstone.spark.sink import SegmentStreamWriter

    siltstone.init(folder)
    source = SegmentSource({"store": str(folder), "segment": "s"})
    schema = StructType([StructField("value", StringType())])
    lines = BATCH.decode().splitlines()
    took = []
    for number in range(count):
        planned: SegmentStreamWriter = pickle.loads(
            pickle.dumps(source.streamWriter(schema, overwrite=False))
        )
        rows = iter([pyarrow.RecordBatch.from_pydict({"value": lines})])
        # Outside of a task nothing tells the query.
        message = replace(planned.write(rows), query="bench")
        start = time.monotonic()
        source.streamWriter(schema, overwrite=False).commit([message], number)
        took.append(time.monotonic() - start)
    check(folder, "s", count * len(BATCH))
    return took


def tell(what: str, took: list[float]) -> None:
    """Print the median of each tenth of the commits."""
    size = max(1, len(took) // TENTHS)
    medians = [statistics.median(took[begin : begin + size]) for begin in range(0, len(took), size)]
    shown = " ".join(f"{1_000 * median:.1f}" for median in medians[:TENTHS])
    print(f"{len(took):,} {what}: commit {shown} ms, the median of each tenth")


if __name__ == "__main__":
    main()
