"""Rows of Spark into a segment, next to ``df.write.text``, and commits of very many batches.

The same lines, read from plain files, go in turn into a new segment and into a new folder of text.
Processor time is that of the JVM and of its Python workers together. Ours is durable when it
returns; a text file of Spark is in the page cache. A third way passes the lines to Python by Arrow,
as Spark does for any sink in Python, and drops them: this cost is not ours.

Then come the ends of batches of a stream, each with a session of its own, compared with the first
ones of the same run: with one owner, with a claim for each step, and everything by Spark.
"""

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import siltstone
from bench.figure import MIB_PER_SECOND, MILLISECONDS, Figure
from bench.processor import MIB_PER_CPU_SECOND, spend
from bench.silt import write_lines
from bench.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIB: Final = 2**20
FILE_BYTES: Final = 64 * MIB
BATCH: Final = b"one line of a batch of a stream\n" * 100
GOAL: Final = 0.6
AT_ONCE: Final = "\ngarbage:\n  delay: 0s\n"
"""The written bytes are deleted before the next turn, like the peer's."""
FLAT: Final = 0.8
"""A ratio to the time of the first batches; neighbours of one kind differ by as much."""

TENTHS: Final = 10


def run(workshop: Workshop) -> list[Figure]:
    """Measure whole writes by processor and by wall, and whether commits get slower."""
    try:
        from siltstone.spark import session
    except ImportError as error:
        print(f"left out: {error}")
        return []
    with workshop.place() as place:
        figures = [
            flat("commit of a batch, one owner", by_one_owner(place, workshop.pick(10_000, 20))),
            flat("commit of a batch by the sink", by_claims(place, workshop.pick(200, 10))),
        ]
        spark = session(master="local[2]", settings={"spark.driver.memory": "2g"})
        try:
            batches = by_spark(spark, place, workshop.pick(55, 10))
            return [
                *writes(workshop, spark, place),
                *figures,
                # A JVM that has just started is slower, whatever it does.
                flat("a batch from segment to segment by Spark", batches[len(batches) // TENTHS :]),
            ]
        finally:
            spark.stop()


def writes(workshop: Workshop, spark: SparkSession, place: Path) -> list[Figure]:
    """Lines into a segment and into a folder."""
    length = rows = 0
    texts = place / "texts"
    texts.mkdir()
    for number in range(workshop.pick(16, 2)):
        path = texts / f"{number:02}.txt"
        write_lines(path, workshop.pick(FILE_BYTES, 4 * MIB))
        length += path.stat().st_size
        rows += path.read_bytes().count(b"\n")
    frame = spark.read.text(str(texts))
    target = workshop.store(place, AT_ONCE)
    folder = place / "text"

    def ours() -> None:
        writer = frame.write.format("siltstone").mode("append").option("store", str(target))
        writer.option("segment", "s").save()

    def remove() -> None:
        if folder.exists():
            shutil.rmtree(folder)
        with siltstone.open(target) as store:
            if any(store.list()):
                check(target, "s", length)
                store.segment("s").delete()
                store.collect()
        os.sync()
        use_memory(place, length)

    ways: dict[str, Callable[[], object]] = {
        "ours": ours,
        "theirs": lambda: frame.write.text(str(folder)),
        "dropped": lambda: drop(frame, rows),
    }
    spent = spend(1, workshop.rounds, ways, remove)
    mib = length / MIB
    what, peer = "lines from text files into a segment", "df.write.text"
    return [
        Figure(
            what=what,
            peer=peer,
            unit=MIB_PER_CPU_SECOND,
            ours=spent["ours"].per_cpu(mib),
            theirs=spent["theirs"].per_cpu(mib),
            goal=GOAL,
        ),
        Figure(
            what=f"… {what}: wall",
            peer=peer,
            unit=MIB_PER_SECOND,
            ours=spent["ours"].per_wall(mib),
            theirs=spent["theirs"].per_wall(mib),
        ),
        Figure(
            what="… nothing of ours: the same lines handed to Python by Arrow, and dropped",
            peer=peer,
            unit=MIB_PER_CPU_SECOND,
            ours=spent["dropped"].per_cpu(mib),
            theirs=spent["theirs"].per_cpu(mib),
        ),
    ]


def use_memory(place: Path, length: int) -> None:
    """Leave as much recently used free memory as a turn needs, whatever came before.

    Memory that was free for some seconds is expensive if a machine shares it with others.
    """
    scratch, piece = place / "scratch", bytes(MIB)
    with scratch.open("wb") as file:
        for _ in range(0, length, MIB):
            file.write(piece)
    scratch.unlink()


def drop(frame: DataFrame, rows: int) -> None:
    """Let Spark pass all rows to Python by Arrow, as for any sink in Python, and nothing else."""

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        yield pyarrow.RecordBatch.from_pydict({"rows": [sum(map(len, batches))]})

    if sum(row.rows for row in frame.mapInArrow(count, "rows long").collect()) != rows:
        raise SystemExit("rows are missing")


def flat(what: str, took_s: Sequence[float]) -> Figure:
    """The last tenth of these times, compared with the first."""
    size = max(1, len(took_s) // TENTHS)
    return Figure(
        what=f"{what}, the last {size:,} of {len(took_s):,}",
        peer=f"the first {size:,}",
        unit=MILLISECONDS,
        ours=[1_000 * median(took_s[-size:])],
        theirs=[1_000 * median(took_s[:size])],
        goal=FLAT,
    )


def check(target: Path, segment: str, length: int) -> None:
    with siltstone.open(target, read_only=True) as store:
        found = store.segment(segment).info().length
    if found != length:
        raise SystemExit(f"wrong length: {found} instead of {length}")


def by_one_owner(place: Path, batches: int) -> list[float]:
    """Seconds of each commit of a batch by a store that stays open."""
    file = siltstone.init(place / "owner")
    took = []
    with siltstone.open(file) as store:
        for number in range(batches):
            ticket = store.open_import(f"batch {number}", "s")
            with siltstone.ImportWriter(file, ticket, partition=0, attempt=0) as writer:
                writer.write(BATCH)
                chunks = writer.finish()
            mode = siltstone.ImportMode.APPEND
            output = siltstone.ImportOutput(segment="s", chunks=chunks, mode=mode)
            batch = siltstone.ImportBatch(query="q", number=number)
            start = time.monotonic()
            store.commit_import(ticket, [output], batch=batch)
            took.append(time.monotonic() - start)
    check(file, "s", batches * len(BATCH))
    return took


def by_claims(place: Path, batches: int) -> list[float]:
    """Seconds of each commit of a batch by the class that Spark calls, which claims the store."""
    import pyarrow
    from pyspark.sql.types import StringType, StructField, StructType

    from siltstone.spark.data_source import SegmentSource
    from siltstone.spark.sink import SegmentStreamWriter

    file = siltstone.init(place / "claims")
    source = SegmentSource({"store": str(file), "segment": "s"})
    schema = StructType([StructField("value", StringType())])
    lines = BATCH.decode().splitlines()
    took = []
    for number in range(batches):
        planned: SegmentStreamWriter = pickle.loads(
            pickle.dumps(source.streamWriter(schema, overwrite=False))
        )
        rows = iter([pyarrow.RecordBatch.from_pydict({"value": lines})])
        # Outside of a task nothing names the query.
        message = replace(planned.write(rows), query="bench")
        start = time.monotonic()
        source.streamWriter(schema, overwrite=False).commit([message], number)
        took.append(time.monotonic() - start)
    check(file, "s", batches * len(BATCH))
    return took


def by_spark(spark: SparkSession, place: Path, batches: int) -> list[float]:
    """Seconds of each trigger of a query that copies a segment, this much in a batch."""
    files = {name: siltstone.init(place / f"batches-{name}") for name in ("from", "to")}
    with siltstone.open(files["from"]) as store:
        segment = store.create("s")
        for _ in range(batches):
            segment.append(BATCH)
    reader = spark.readStream.format("siltstone").option("store", str(files["from"]))
    frame = reader.option("segment", "s").option("maxBytesPerTrigger", str(len(BATCH))).load()
    writer = frame.writeStream.format("siltstone").option("store", str(files["to"]))
    writer = writer.option("segment", "s").option("checkpointLocation", str(place / "point"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    check(files["to"], "s", batches * len(BATCH))
    took = [step["durationMs"]["triggerExecution"] / 1_000 for step in query.recentProgress]
    if len(took) < batches:
        raise SystemExit(f"{len(took)} batches instead of {batches}")
    return took[:batches]
