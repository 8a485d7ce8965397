"""An owner that appends and then waits for its death: ``python -m bench.owner_child FILE MIB``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import siltstone
from bench.workshop import distinct

SEGMENTS = 16
APPEND_BYTES = 2**20


def main() -> None:
    """Append this much, say so, and wait."""
    file, count = Path(sys.argv[1]), int(sys.argv[2])
    make = distinct(APPEND_BYTES)
    with siltstone.open(file) as store:
        segments = [store.create(f"segment-{number}") for number in range(SEGMENTS)]
        for number in range(count):
            segments[number % SEGMENTS].append(make(number))
        print("done", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
