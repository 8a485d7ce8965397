"""Segments as files in Spark, and plain files of the same bytes, read by Spark's own readers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import siltstone
from bench.figure import SECONDS, Figure
from bench.processor import spend
from bench.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIB: Final = 2**20
PIECE_BYTES: Final = 4 * MIB
SETTINGS: Final = "\nsegments:\n  chunk_size: 64MiB\n"
GOAL: Final = 0.95
WARM_UPS: Final = 2


def run(workshop: Workshop) -> list[Figure]:
    """Measure whole reads of lines, and of two columns of Parquet, by wall and by processor."""
    try:
        from siltstone.spark import files, session
        from siltstone.spark.jvm import JarError, find_jar

        find_jar()
    except (ImportError, JarError) as error:
        print(f"left out: {error}")
        return []
    spark = session(master="local[2]", settings={"spark.driver.memory": "2g"})
    try:
        with workshop.place() as place:
            store = workshop.store(place, SETTINGS)
            length = workshop.pick(1024, 8) * MIB
            write_lines(place / "lines.txt", length)
            write_parquet(spark, place, length)
            for name in ("lines.txt", "rows.parquet"):
                append_file(store, place / name)
            figures = []
            for verify in (True, False):
                paths = {
                    name: files(spark, store, name, verify=verify)
                    for name in ("lines.txt", "rows.parquet")
                }
                how = "each block compared with its sum" if verify else "not verified"
                figures += _pair(
                    workshop,
                    f"lines, {how}",
                    partial(count_lines, spark, paths["lines.txt"]),
                    partial(count_lines, spark, [str(place / "lines.txt")]),
                )
                figures += _pair(
                    workshop,
                    f"Parquet, {how}",
                    partial(sum_columns, spark, paths["rows.parquet"]),
                    partial(sum_columns, spark, [str(place / "rows.parquet")]),
                )
            return figures
    finally:
        spark.stop()


def write_lines(path: Path, length: int) -> None:
    """Lines of 40 to 160 bytes."""
    chance = Random(1)
    piece, size = [], 0
    while size < PIECE_BYTES:
        piece.append(b"%0*d\n" % (chance.randint(40, 159), chance.getrandbits(100)))
        size += len(piece[-1])
    text = b"".join(piece)
    with path.open("wb") as file:
        for _ in range(-(-length // len(text))):
            file.write(text)


def write_parquet(spark: SparkSession, place: Path, length: int) -> None:
    """One file of uncompressed rows, about as long."""
    rows = spark.range(length // 40).selectExpr("id", "rand(1) share", "hex(hash(id)) text")
    rows = rows.selectExpr("*", "reverse(text) other")
    writer = rows.coalesce(1).write.option("compression", "none")
    writer.parquet(str(place / "folder"))
    (found,) = islice((place / "folder").glob("*.parquet"), 1)
    found.rename(place / "rows.parquet")


def append_file(store: Path, path: Path) -> None:
    """Append a file to a segment of its name, and flush."""
    with siltstone.open(store) as opened, path.open("rb") as file:
        segment = opened.create(path.name)
        while piece := file.read(PIECE_BYTES):
            segment.append(piece)
        segment.flush()


def count_lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Count lines and their bytes."""
    return spark.read.text(paths).selectExpr("count(1)", "sum(octet_length(value))")


def sum_columns(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Two of the four columns."""
    return spark.read.parquet(*paths).selectExpr("sum(id)", "sum(octet_length(text))")


def _pair(
    workshop: Workshop,
    what: str,
    ours: Callable[[], DataFrame],
    theirs: Callable[[], DataFrame],
) -> list[Figure]:
    """The figures of wall time and of processor time, from the same alternations."""
    wanted = theirs().collect()

    def checked(make: Callable[[], DataFrame]) -> None:
        if (found := make().collect()) != wanted:
            raise SystemExit(f"{what}: wrong result: {found} instead of {wanted}")

    ways = {"ours": partial(checked, ours), "theirs": partial(checked, theirs)}
    spent = spend(WARM_UPS, workshop.rounds, ways)
    peer = "the same bytes as one plain file"
    return [
        Figure(
            what=what,
            peer=peer,
            unit=SECONDS,
            ours=spent["ours"].wall_s,
            theirs=spent["theirs"].wall_s,
            goal=GOAL,
        ),
        Figure(
            what=f"… {what}: processor time",
            peer=peer,
            unit=SECONDS,
            ours=spent["ours"].cpu_s,
            theirs=spent["theirs"].cpu_s,
            goal=GOAL,
        ),
    ]
