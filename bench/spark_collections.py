"""Collections in Spark beside its own Parquet: reads of the same files, writes of the same rows.

Then a stream of a collection beside a stream of a segment.

Each read looks at all columns of all rows and keeps nothing (the sink ``noop`` of Spark). What is
written is durable here when the write returns; a file of Spark is in the page cache.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

from bench.collection_rows import NAME, SCHEMA, rows
from bench.figure import MILLISECONDS, PER_SECOND, Figure, alternate
from bench.processor import Spent, spend
from bench.spark_plain_source import plain_frame
from bench.spark_sink import drop
from bench.workshop import Stopwatch, Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS: Final = 10_000_000
APPENDS: Final = 10
NATIVE_GOAL: Final = 0.95
SPLITS_GOAL: Final = 0.5
WRITE_GOAL: Final = 0.8
COLUMNS: Final = {
    "key": "bigint not null",
    "station": "string",
    "gust": "double",
    "seen": "boolean",
}
TASKS: Final = 2
MAX_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
ANY_BYTES: Final = str(2**31 - 1)
"""A limit of batches by which Spark does not look for the size of a batch after each row."""
LATENCY_GOAL: Final = 0.83
"""At most 1.2 times as long."""
LATENCIES: Final = 40
SETTINGS: Final = "\ngarbage:\n  delay: 0s\n"
"""What was written goes before the next turn, like the peer's."""


def run(workshop: Workshop) -> list[Figure]:
    """Reads by Spark's own reader and by splits, and writes."""
    try:
        from siltstone.spark import session
    except ImportError as error:
        print(f"left out: {error}")
        return []
    with workshop.place() as place:
        store = workshop.store(place, SETTINGS)
        total = workshop.pick(ROWS, 20_000)
        fill(store, place / "source", total)
        spark = session(master="local[2]", settings={"spark.driver.memory": "2g"})
        try:
            return [
                *reads(workshop, spark, store, total),
                *writes(workshop, spark, place, store, total),
                latency(workshop, spark, store),
            ]
        finally:
            spark.stop()


def fill(store: Path, source: Path, total: int) -> None:
    """Append the rows to a collection, and write them into files for the writes."""
    from siltstone.collections.blocking import open_collections

    source.mkdir()
    with open_collections(store) as collections:
        made = collections.create(NAME, SCHEMA, key=["key"])
        for number in range(APPENDS):
            table = rows(total // APPENDS)
            made.append(table)
            pq.write_table(table, source / f"{number}.parquet")
        collections.settle()


def reads(workshop: Workshop, spark: SparkSession, store: Path, total: int) -> list[Figure]:
    """All rows by Spark's own reader, through us and without us, and by splits."""
    from siltstone.collections.blocking import open_collections
    from siltstone.spark import collection

    with (
        open_collections(store) as collections,
        collections.collection(NAME).snapshot(lease=True) as snapshot,
    ):
        uris = [file.uri for file in snapshot.files().files]
        check(spark.read.parquet(*uris), total)
        paths = [unquote(urlsplit(uri).path) for uri in uris]
        plain = plain_frame(spark, paths, COLUMNS, TASKS)
        check(plain(), total)

        def native() -> None:
            with collection(spark, store, NAME) as frame:
                consume(frame)

        ways: dict[str, Callable[[], object]] = {
            "native": native,
            "theirs": lambda: consume(spark.read.parquet(*uris)),
            "splits": lambda: consume(load(spark, store)),
            "plain": lambda: consume(plain()),
        }
        spent = spend(1, workshop.rounds, ways)
    peer = "spark.read.parquet of the same files"
    alone = (
        "… nothing of ours: the same files read by pyarrow in tasks, and handed to Spark by Arrow"
    )
    by_reader, by_splits, theirs = spent["native"], spent["splits"], spent["theirs"]
    return [
        *figures("rows by Spark's own reader", peer, by_reader, theirs, total, NATIVE_GOAL),
        *figures("rows by splits", peer, by_splits, theirs, total, SPLITS_GOAL),
        *figures(alone, peer, spent["plain"], theirs, total, None),
    ]


def writes(
    workshop: Workshop, spark: SparkSession, place: Path, store: Path, total: int
) -> list[Figure]:
    """A data frame into a new collection, and into a folder."""
    from siltstone.collections.blocking import open_collections

    frame = spark.read.parquet(str(place / "source"))
    folder, plain = place / "parquet", place / "plain"
    numbers = count()
    with open_collections(store) as collections:
        target = f"target-{next(numbers)}"
        collections.create(target, SCHEMA, key=["key"])

        def ours() -> None:
            writer = frame.write.format("siltstone").mode("append").option("store", str(store))
            writer.option("collection", target).save()

        def remove() -> None:
            nonlocal target
            for written in (folder, plain):
                if written.exists():
                    check(spark.read.parquet(str(written)), total)
                    shutil.rmtree(written)
            if collections.collection(target).info().upper:
                check(load(spark, store, target), total)
                collections.drop(target)
                collections.collect()
                target = f"target-{next(numbers)}"
                collections.create(target, SCHEMA, key=["key"])
            os.sync()

        def dropped() -> None:
            drop(frame, total)

        ways: dict[str, Callable[[], object]] = {
            "theirs": lambda: frame.write.parquet(str(folder)),
            "ours": ours,
            "dropped": dropped,
            "fast ours": by_rows(spark, ours),
            "fast plain": by_rows(spark, lambda: write_sorted(frame, plain, total)),
            "fast dropped": by_rows(spark, dropped),
        }
        spent = spend(1, workshop.rounds, ways, remove)
    what, peer = "rows from Parquet into a collection", "df.write.parquet"
    handed = "… nothing of ours: the same rows handed to Python by Arrow, and dropped"
    alone = "… nothing of ours: the same rows handed to Python, sorted and written by pyarrow"
    few = ", batches of any bytes"
    theirs = spent["theirs"]
    return [
        *figures(what, peer, spent["ours"], theirs, total, WRITE_GOAL),
        *figures(handed, peer, spent["dropped"], theirs, total, None),
        *figures(f"{what}{few}", peer, spent["fast ours"], theirs, total, WRITE_GOAL),
        *figures(f"{alone}{few}", peer, spent["fast plain"], theirs, total, None),
        *figures(f"{handed}{few}", peer, spent["fast dropped"], theirs, total, None),
    ]


def by_rows(spark: SparkSession, way: Callable[[], object]) -> Callable[[], object]:
    """The same way, with batches of ``ANY_BYTES`` meanwhile."""

    def run_it() -> None:
        before = spark.conf.get(MAX_BYTES)
        assert before is not None, "it has a default"
        spark.conf.set(MAX_BYTES, ANY_BYTES)
        try:
            way()
        finally:
            spark.conf.set(MAX_BYTES, before)

    return run_it


def write_sorted(frame: DataFrame, folder: Path, total: int) -> None:
    """Let pyarrow sort the rows of each task by the key, and write them into a file that is synced.

    It is what a collection keeps, by the shortest way that pyarrow has: no sums, no limits of
    memory, one file for a task.
    """
    folder.mkdir()

    def write(batches: Iterable[Any]) -> Iterator[Any]:
        import os
        import uuid

        import pyarrow
        import pyarrow.parquet

        rows = pyarrow.Table.from_batches(list(batches)).combine_chunks()
        rows = rows.take(pyarrow.compute.sort_indices(rows["key"]))
        with (folder / f"{uuid.uuid4()}.parquet").open("wb") as file:
            pyarrow.parquet.write_table(
                rows,
                file,
                compression="zstd",
                compression_level=1,
                use_dictionary=["station"],
                row_group_size=65_536,
                write_page_checksum=True,
            )
            file.flush()
            os.fsync(file.fileno())
        yield pyarrow.RecordBatch.from_pydict({"rows": [len(rows)]})

    if sum(row.rows for row in frame.mapInArrow(write, "rows long").collect()) != total:
        raise SystemExit("rows are missing")


def latency(workshop: Workshop, spark: SparkSession, store: Path) -> Figure:
    """From an append of one row until a running stream has done with it, and of one line."""
    import siltstone
    from siltstone.collections.blocking import open_collections

    def started(**options: str) -> StreamingQuery:
        reader = spark.readStream.format("siltstone").option("store", str(store))
        for name, value in options.items():
            reader = reader.option(name, value)
        query = reader.load().writeStream.format("noop").start()
        query.processAllAvailable()
        return query

    with open_collections(store) as collections, siltstone.open(store) as opened:
        made = collections.create("streamed", SCHEMA, key=["key"])
        segment = opened.create("streamed")
        row = rows(1)
        ours = started(collection="streamed", bookmark="bench")
        theirs = started(segment="streamed")

        def timed(append: Callable[[], object], query: StreamingQuery) -> float:
            with Stopwatch() as watch:
                append()
                query.processAllAvailable()
            return watch.seconds * 1_000

        def of_collection() -> float:
            return timed(lambda: made.append(row), ours)

        def of_segment() -> float:
            return timed(lambda: segment.append(b"a line of about as many bytes\n"), theirs)

        try:
            alternate(2, of_collection, of_segment)  # The first batches start workers.
            found = alternate(workshop.pick(LATENCIES, 2), of_collection, of_segment)
        finally:
            ours.stop()
            theirs.stop()
    return Figure(
        what="one row appended until a stream has done with it",
        peer="a line of a segment, in the same way",
        unit=MILLISECONDS,
        ours=found[0],
        theirs=found[1],
        goal=LATENCY_GOAL,
    )


def figures(
    what: str, peer: str, ours: Spent, theirs: Spent, total: int, goal: float | None
) -> list[Figure]:
    """By the clock, with the goal if there is one, and by the processor."""
    return [
        Figure(
            what=what,
            peer=peer,
            unit=PER_SECOND,
            ours=ours.per_wall(total),
            theirs=theirs.per_wall(total),
            goal=goal,
        ),
        Figure(
            what=f"… {what.removeprefix('… ')}: a CPU second",
            peer=peer,
            unit=PER_SECOND,
            ours=ours.per_cpu(total),
            theirs=theirs.per_cpu(total),
        ),
    ]


def load(spark: SparkSession, store: Path, name: str = NAME) -> DataFrame:
    """A collection by splits."""
    reader = spark.read.format("siltstone").option("store", str(store))
    return reader.option("collection", name).load()


def consume(frame: DataFrame) -> None:
    """Make all columns of all rows, and drop them."""
    frame.write.format("noop").mode("overwrite").save()


def check(frame: DataFrame, total: int) -> None:
    """Stop where rows are missing or there twice."""
    found = frame.count()
    if found != total:
        raise SystemExit(f"wrong number of rows: {found} instead of {total}")
