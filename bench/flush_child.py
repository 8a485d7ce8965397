"""One append and flush in a process of its own, so that its peak of memory is known.

``python -m bench.flush_child FILE append|file COUNT`` prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import siltstone
from bench.workshop import Loop, async_store, distinct, in_flight, peak_mib, seconds_of

APPEND_BYTES = 2**20
WIDTH = 16
"""Appends in flight, as in an application that continues to read while the log syncs."""


def append(file: Path, count: int) -> float:
    """Append through ``AsyncSegment.append``, then flush; return seconds."""
    make = distinct(APPEND_BYTES)
    with Loop() as loop, async_store(loop, file) as store:
        segment = loop(store.create("large"))

        async def work() -> None:
            await in_flight(WIDTH, count, lambda number: segment.append(make(number)))
            await segment.flush()

        return seconds_of(lambda: loop(work()))


def write(file: Path, count: int) -> float:
    """Write to ``Segment.open("ab")``, then flush; return seconds."""
    make = distinct(APPEND_BYTES)
    with siltstone.open(file) as store:
        segment = store.create("large")

        def work() -> None:
            with segment.open("ab") as opened:
                for number in range(count):
                    opened.write(make(number))
            segment.flush()

        return seconds_of(work)


def main() -> None:
    """Do what the arguments say."""
    file, verb, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    seconds = append(file, count) if verb == "append" else write(file, count)
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib()}))


if __name__ == "__main__":
    main()
