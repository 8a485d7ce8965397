"""What tours of the flights in Spark have in common: how one is started, and how it fails."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from examples.flights.source import FLIGHTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(name: str, text: str | None, run: Callable[[SparkSession, Path, int], None]) -> None:
    """Run a tour with a session of its own, in a folder that is removed afterwards.

    Args:
        name: of its module.
        text: what it says of itself.
        run: takes the session, the folder, and how many flights to show.
    """
    parser = argparse.ArgumentParser(prog=f"python -m examples.flights.{name}", description=text)
    parser.add_argument("--flights", type=int, default=FLIGHTS, metavar="N")
    options = parser.parse_args()
    if not 2 <= options.flights <= FLIGHTS:
        parser.error(f"--flights is between 2 and {FLIGHTS}")
    from siltstone.spark import session

    spark = session(master="local[2]", settings={"spark.sql.shuffle.partitions": "2"})
    try:
        with tempfile.TemporaryDirectory(prefix="siltstone-tour-") as folder:
            run(spark, Path(folder), options.flights)
    finally:
        spark.stop()


def expect(what: str, found: object, wanted: object) -> None:
    """End with an error unless the two are equal."""
    if found != wanted:
        raise SystemExit(f"WRONG: {what}: {found} instead of {wanted}")
