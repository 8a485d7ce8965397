"""``python -m examples.flights [--keep FOLDER] [--writers N]``: the demo, step by step."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import siltstone
from examples.flights import querying
from examples.flights.checking import check_lines
from examples.flights.loader import SEGMENT
from examples.flights.loading import acknowledged, load_and_kill, load_rest
from examples.flights.source import FLIGHTS, Source, read_source, unpack

SETTINGS = """
# Small, so that this demo makes many chunks of few bytes.
segments:
  chunk_size: 2MiB
flush:
  bytes: 1MiB
"""


class Steps:
    """Prints what happens, and how long each step took."""

    def __init__(self) -> None:
        self._number = 0
        self._start = self._last = time.monotonic()

    def begin(self, title: str) -> None:
        """Begin a step."""
        self._number += 1
        self._last = time.monotonic()
        print(f"\n{self._number}. {title}", flush=True)

    def say(self, text: str) -> None:
        """Say something about the step."""
        print(f"   {text} [{time.monotonic() - self._last:.1f} s]", flush=True)

    @property
    def total_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._start


def main() -> None:
    """Run the demo in a folder that is removed or kept."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="work here and leave all of it")
    parser.add_argument("--writers", type=int, default=4, metavar="N", help="default: %(default)s")
    options = parser.parse_args()
    if not 1 <= options.writers <= 64:
        parser.error("--writers is between 1 and 64")
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
        run(options.keep.absolute(), options.writers)
        print(f"kept in {options.keep.absolute()}")
        return
    with tempfile.TemporaryDirectory(prefix="siltstone-flights-") as folder:
        run(Path(folder), options.writers)


def run(folder: Path, writers: int) -> None:
    """Do every step; end with an error as soon as anything differs."""
    steps = Steps()
    store = folder / "store"
    steps.begin("Make a store, and unpack the flights")
    settings = siltstone.init(store)
    with settings.open("a", encoding="utf-8") as file:
        file.write(SETTINGS)
    source = read_source(unpack(folder))
    steps.say(f"store in {store}; {len(source.lines):,} flights in {source.path}")

    loaded_before = load(steps, store, source, writers)
    chunks = show_chunks(steps, store)
    groups, rows = query(steps, store, source)

    print(f"\nAll is well after {steps.total_s:.0f} s.")
    print(f"   {FLIGHTS:,} flights in the file, {rows:,} in the segment by Spark's count")
    print(f"   {loaded_before:,} were loaded before the kill; no acknowledged one was lost")
    print(f"   {chunks} chunks; {groups} averages by carrier and month agree to the last bit")


def load(steps: Steps, store: Path, source: Source, writers: int) -> int:
    """Load in two runs with a kill between them; return how far the first one came."""
    count = len(source.lines)
    steps.begin(f"Load line by line with {writers} exactly-once writers; kill -9 half-way")
    progress = load_and_kill(store, source, writers, enough=count // 2)
    vouched = list(acknowledged(progress, writers))
    steps.say(f"killed when {len(vouched):,} lines were acknowledged")

    steps.begin("Open the store again, and look for every acknowledged line")
    with siltstone.open(store) as opened:
        found = check_lines(opened.segment(SEGMENT), source, vouched)
    steps.say(
        f"all {len(vouched):,} are there exactly once, and {found - len(vouched):,} "
        "whose answer the kill cut off"
    )

    steps.begin("Go on: each writer asks for its last line, and continues after it")
    load_rest(store, source, writers)
    steps.say("the loader ended")
    with siltstone.open(store, read_only=True) as opened:
        complete = check_lines(opened.segment(SEGMENT), source, range(count))
    if complete != count:
        raise SystemExit(f"WRONG: the segment has {complete} lines, the file {count}")
    steps.say(f"all {complete:,} lines are there exactly once")
    return found


def show_chunks(steps: Steps, store: Path) -> int:
    """Show where the bytes are; return the count of chunks."""
    steps.begin("Where the bytes are")
    with siltstone.open(store, read_only=True) as opened:
        segment = opened.segment(SEGMENT)
        info = segment.info()
        chunks = list(segment.chunks())
    shown = [*chunks[:3], *chunks[-1:]]
    for chunk in shown:
        print(
            f"   {chunk.start:>10,} + {chunk.length:>9,}  crc32c {chunk.crc32c:08x}  "
            f"{store / 'chunks' / chunk.chunk}"
        )
    steps.say(
        f"{len(chunks)} chunks ({len(shown)} shown), and {info.length - info.flushed_length:,} "
        f"bytes that are still in the tier-1 log, {store / 'tier1'}"
    )
    return len(chunks)


def query(steps: Steps, store: Path, source: Source) -> tuple[int, int]:
    """Ask Spark the same for segment and file; return the count of averages and of flights."""
    steps.begin("Average departure delay by carrier and month, by Spark")
    from siltstone.spark import session

    spark = session(master="local[2]", settings={"spark.sql.shuffle.partitions": "2"})
    try:
        steps.say(f"Spark {spark.version} is up")
        schema = querying.columns(source)
        flights = querying.flights_of_segment(spark, store, schema)
        from_segment = querying.average_delays(flights)
        steps.say(f"asked the segment: {len(from_segment)} averages")
        from_file = querying.average_delays(querying.flights_of_file(spark, source, schema))
        steps.say(f"asked the CSV file: {len(from_file)} averages")
        rows = flights.count()
    finally:
        spark.stop()
    for carrier, month, delay, count in from_segment[:3]:
        print(f"   {carrier} in month {month}: {delay:.2f} minutes over {count} flights")
    if from_segment != from_file or rows != len(source.lines):
        raise SystemExit(f"WRONG: segment and file differ; {rows} rows")
    return len(from_segment), rows


if __name__ == "__main__":
    main()
