"""One flush of a segment into S3, and one read of it, each in a process of its own.

``python -m bench.s3_child FILE flush|read COUNT`` prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import siltstone
from bench.flush_child import append
from bench.workshop import Stopwatch, peak_mib
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage

READ_BYTES = 8 * 2**20


class CountedReads:
    """How many ranges were requested; each is one request."""

    def __init__(self) -> None:
        self.count = 0
        read = S3ChunkStorage.read_into

        def counted(
            storage: S3ChunkStorage, name: str, offset: int, buffer: memoryview | bytearray
        ) -> int:
            if name.startswith("data/"):
                self.count += 1
            return read(storage, name, offset, buffer)

        S3ChunkStorage.read_into = counted  # type: ignore[assignment, method-assign]


def read(file: Path) -> Stopwatch:
    """Read the whole segment in order."""
    buffer = bytearray(READ_BYTES)
    watch = Stopwatch()
    with siltstone.open(file) as store:
        segment = store.segment("large")
        with watch:
            offset = 0
            while count := segment.read_into(offset, buffer):
                offset += count
    return watch


def main() -> None:
    """Do what the arguments say."""
    file, verb, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    reads = CountedReads()
    if verb == "flush":
        seconds, cpu_s = append(file, count), 0.0
    else:
        watch = read(file)
        seconds, cpu_s = watch.seconds, watch.cpu_s
    told = {"seconds": seconds, "cpu_s": cpu_s, "requests": reads.count, "peak_mib": peak_mib()}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
