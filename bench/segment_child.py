"""One flush of a large segment, or one read of it, in a process of its own.

In this way its peak of memory is known. ``python -m bench.segment_child FILE flush|read COUNT``
prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import siltstone
from bench.flush_child import append
from bench.workshop import peak_mib, seconds_of

READ_BYTES = 8 * 2**20


def read(file: Path) -> float:
    """Read the whole segment in order; return seconds."""
    buffer = bytearray(READ_BYTES)
    with siltstone.open(file) as store:
        segment = store.segment("large")

        def work() -> None:
            offset = 0
            while count := segment.read_into(offset, buffer):
                offset += count

        return seconds_of(work)


def main() -> None:
    """Do what the arguments say."""
    file, verb, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    seconds = append(file, count) if verb == "flush" else read(file)
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib()}))


if __name__ == "__main__":
    main()
