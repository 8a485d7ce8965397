"""The data source for Spark: lines, blocks and events as rows, at once and as a stream.

Processor time is that of the JVM, its Python daemon and the workers together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import siltstone
from bench.figure import MIB_PER_SECOND, MILLISECONDS, Figure, alternate
from bench.processor import CPU_S_MIN, MIB_PER_CPU_SECOND, spend
from bench.workshop import Workshop
from siltstone.events import encode_many

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIB: Final = 2**20
PIECE_BYTES: Final = 4 * MIB
SETTINGS: Final = "\nsegments:\n  chunk_size: 64MiB\n"
WARM_UPS: Final = 2
LATENCIES: Final = (30, 2)
ANSWER_S: Final = 60.0

_numbers = count()


def run(workshop: Workshop) -> list[Figure]:
    """Measure whole reads by processor and by wall, and how long a row takes to arrive."""
    try:
        from siltstone.spark import session
    except ImportError as error:
        print(f"left out: {error}")
        return []
    spark = session(master="local[2]", settings={"spark.driver.memory": "2g"})
    try:
        with workshop.place() as place:
            store = workshop.store(place, SETTINGS)
            length = write(place, store, workshop.pick(1024, 8) * MIB)
            bench = Bench(workshop, spark, place, store, length)
            return [*bench.reads(), *bench.latency()]
    finally:
        spark.stop()


def write(place: Path, store: Path, length: int) -> int:
    """Write lines of 40 to 160 bytes as a file and as a segment, and without newlines as events.

    Returns:
        Bytes of the lines.
    """
    chance = Random(1)
    lines, size = [], 0
    while size < PIECE_BYTES:
        lines.append(b"%0*d" % (chance.randint(40, 159), chance.getrandbits(100)))
        size += len(lines[-1]) + 1
    half = len(lines) // 2
    text = b"".join(line + b"\n" for line in lines)
    halves = encode_many(lines[:half]), encode_many(lines[half:])  # each fits in one append
    times = -(-length // len(text))
    (place / "texts").mkdir()
    with siltstone.open(store) as opened, (place / "texts" / "lines.txt").open("wb") as file:
        segments = {name: opened.create(name) for name in ("lines", "events")}
        for _ in range(times):
            file.write(text)
            segments["lines"].append(text)
            for framed in halves:
                segments["events"].append(framed)
        opened.create("one").append(b"a stream begins for this, and ends\n")
        opened.flush()
    return times * len(text)


class Bench:
    """The same bytes read in several ways, in turn."""

    def __init__(
        self, workshop: Workshop, spark: SparkSession, place: Path, store: Path, length: int
    ) -> None:
        self._workshop = workshop
        self._spark = spark
        self._place = place
        self._store = store
        self._length = length

    def _load(self, segment: str, schema: str = "", **options: object) -> DataFrame:
        reader = self._spark.read.format("siltstone").option("store", str(self._store))
        if schema:
            reader = reader.schema(schema)
        for name, value in ({"segment": segment} | options).items():
            reader = reader.option(name, str(value))
        return reader.load()

    def _stream(self, segment: str) -> None:
        """Read a segment as one micro-batch, and count in it what the batches count."""
        reader = self._spark.readStream.format("siltstone").option("store", str(self._store))
        frame = reader.option("segment", segment).load()
        found: list[Any] = []
        writer = frame.writeStream.foreachBatch(lambda rows, _: found.append(counted(rows)))
        writer = writer.option("checkpointLocation", str(self._place / f"point{next(_numbers)}"))
        writer.trigger(availableNow=True).start().awaitTermination()
        if len(found) != 1:
            raise SystemExit(f"{len(found)} batches instead of one")

    def reads(self) -> list[Figure]:
        """All ways in one alternation, so that each pair is of neighbours."""
        texts = str(self._place / "texts")
        ways: dict[str, Callable[[], object]] = {
            "text": lambda: counted(self._spark.read.text(texts)),
            "lines": lambda: counted(self._load("lines")),
            "blocks": lambda: counted(self._load("lines", mode="bytes")),
            "binary": lambda: counted(self._load("lines", "value BINARY")),
            "strings": lambda: counted(self._load("events", "value STRING", mode="events")),
            "events": lambda: counted(self._load("events", mode="events")),
            "stream": partial(self._stream, "lines"),
            "one": partial(self._stream, "one"),
        }
        warm_ups = 1 if self._workshop.quick else WARM_UPS
        spent = spend(warm_ups, self._workshop.rounds, ways)
        mib = self._length / MIB
        figures = []
        for what, ours, peer, theirs, goal in (
            ("lines as rows", "lines", "spark.read.text of one file", "text", 0.5),
            ("blocks of 1 MiB as rows", "blocks", "spark.read.text of one file", "text", 0.85),
            ("the same as events, value STRING", "strings", "lines as rows", "lines", 1.0),
            # The JVM makes an array for each BINARY value, and events without a schema are
            # BINARY.
            ("the same as events, value BINARY", "events", "lines as rows", "lines", None),
            ("the same as events, both BINARY", "events", "lines, value BINARY", "binary", 1.0),
            ("the same lines, value BINARY", "binary", "lines as rows", "lines", None),
            ("a stream, one trigger", "stream", "lines as rows", "lines", 0.8),
        ):
            figures.append(
                Figure(
                    what=what,
                    peer=peer,
                    unit=MIB_PER_CPU_SECOND,
                    ours=spent[ours].per_cpu(mib),
                    theirs=spent[theirs].per_cpu(mib),
                    goal=goal,
                )
            )
            figures.append(
                Figure(
                    what=f"… {what}: wall",
                    peer=peer,
                    unit=MIB_PER_SECOND,
                    ours=spent[ours].per_wall(mib),
                    theirs=spent[theirs].per_wall(mib),
                )
            )
        # The header of an event is longer than a newline, so more bytes are read.
        with siltstone.open(self._store, read_only=True) as store:
            framed = store.segment("events").info().length / MIB
        figures.append(
            Figure(
                what="… the same as events, value STRING, counted with their headers",
                peer="lines as rows",
                unit=MIB_PER_CPU_SECOND,
                ours=spent["strings"].per_cpu(framed),
                theirs=spent["lines"].per_cpu(mib),
            )
        )
        # Spark starts processes for each query, however little it reads.
        rest = [
            max(CPU_S_MIN, all_of_it - beginning)
            for all_of_it, beginning in zip(spent["stream"].cpu_s, spent["one"].cpu_s, strict=True)
        ]
        figures.append(
            Figure(
                what="… a stream, one trigger, without what the stream of one line takes",
                peer="lines as rows",
                unit=MIB_PER_CPU_SECOND,
                ours=[mib / each for each in rest],
                theirs=spent["lines"].per_cpu(mib),
            )
        )
        return figures

    def latency(self) -> list[Figure]:
        """From the append of a line, or the rename of a file, to its row in the sink."""
        folder = self._place / "arriving"
        folder.mkdir()
        reader = self._spark.readStream.format("siltstone").option("store", str(self._store))
        with siltstone.open(self._store) as store:
            segment = store.create("arriving")
            ours = Arrivals(reader.option("segment", "arriving").load(), self._place / "p-ours")
            theirs = Arrivals(self._spark.readStream.text(str(folder)), self._place / "p-theirs")

            def arrive(text: str) -> None:
                draft = self._place / text
                draft.write_text(text + "\n", encoding="ascii")
                draft.rename(folder / text)

            count = self._workshop.pick(*LATENCIES)
            try:
                found = alternate(
                    self._workshop.rounds,
                    lambda: ours.time_ms(lambda text: segment.append(f"{text}\n".encode()), count),
                    lambda: theirs.time_ms(arrive, count),
                )
            finally:
                ours.stop()
                theirs.stop()
        return [
            Figure(
                what="a row arrives, median, micro-batches one behind the other",
                peer="a file that readStream.text finds",
                unit=MILLISECONDS,
                ours=found[0],
                theirs=found[1],
            )
        ]


class Arrivals:
    """A running query that reports which rows came."""

    def __init__(self, frame: DataFrame, checkpoint: Path) -> None:
        self._came: Queue[str] = Queue()

        def take(rows: DataFrame, _: int) -> None:
            for row in rows.collect():
                self._came.put(row.value)

        writer = frame.writeStream.foreachBatch(take)
        self._query = writer.option("checkpointLocation", str(checkpoint)).start()

    def time_ms(self, send: Callable[[str], object], count: int) -> float:
        """Send some rows, each when the one before has come; return the median time."""
        times = []
        for _ in range(count):
            text = f"row{next(_numbers)}"
            start = time.monotonic()
            send(text)
            try:
                while self._came.get(timeout=ANSWER_S) != text:
                    pass
            except Empty:
                raise SystemExit(f"no row came: {self._query.exception()}") from None
            times.append(time.monotonic() - start)
        return 1000 * median(times)

    def stop(self) -> None:
        self._query.stop()


def counted(frame: DataFrame) -> Any:
    """Count rows and their bytes."""
    return frame.selectExpr("count(1)", "sum(octet_length(value))").collect()[0]
