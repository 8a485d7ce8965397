"""A keyspace in a process of its own, which is killed, or tells how much memory its folds take.

``python -m bench.keyspace_child FILE fill COUNT`` prints a line when all is durable, and waits to
be killed. ``... FILE open COUNT`` prints one JSON object, and ``... FILE fold COUNT`` one for each
turn, and waits for a line before the next.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import siltstone
from bench.workshop import Loop, Stopwatch, async_store, in_flight, peak_mib
from siltstone import objects
from siltstone.objects.space_names import SpaceNames

NAME = "bench"
WIDTH = 1_000
FOLDS = 3


def index_of(number: int) -> dict[str, list[str]]:
    """Two index entries of an object."""
    return {"owner": [f"user-{number % 1000}"], "day": [f"2026-01-{number % 28 + 1:02}"]}


def put_object(
    keyspace: objects.AsyncKeyspace, number: int, value: bytes
) -> asyncio.Future[objects.PutResult]:
    """Put the object that has this number."""
    return keyspace.put("bucket", f"key-{number:09}", value, index=index_of(number))


def fill(file: Path, count: int) -> None:
    """Put ``count`` objects of 100 bytes, and wait for the end."""
    value = bytes(100)
    with Loop() as loop, async_store(loop, file) as store:
        keyspace = loop(objects.create_async(store, NAME))
        loop(in_flight(WIDTH, count, lambda number: put_object(keyspace, number, value)))
        print("filled", flush=True)
        sys.stdin.read()


def opened(file: Path, count: int) -> dict[str, object]:
    """Open store and keyspace, and look at the newest object."""
    with Stopwatch() as watch:
        store = siltstone.open(file)
        head = objects.open(store, NAME).head("bucket", f"key-{count - 1:09}")
    assert head is not None, "all were durable"
    store.close()
    return {"seconds": watch.seconds, "cpu_s": watch.cpu_s}


def folded(file: Path, count: int) -> Iterator[dict[str, object]]:
    """Each turn go through all heads, and through their rows in the table alone."""
    with siltstone.open(file) as store:
        keyspace = objects.open(store, NAME)
        ledger = store.table(SpaceNames(NAME).ledger)
        assert list(keyspace.keys("bucket", end="key-000000100"))
        before = _resident_mib()
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins here
        for _ in range(FOLDS):
            with Stopwatch() as heads:
                size = sum(head.size for head in keyspace.heads())
            assert size == 100 * count
            memory_mib = peak_mib() - before
            with Stopwatch() as scan:
                assert sum(1 for _ in ledger.scan(b"\x10", b"\x11")) == count
            yield {
                "heads": count / heads.seconds,
                "cpu_us": heads.cpu_s / count * 1e6,
                "scans": count / scan.seconds,
                "memory_mib": memory_mib,
            }


def _resident_mib() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel tells the memory of a process")


def main() -> None:
    """Do what the arguments say."""
    file, verb, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if verb == "fill":
        fill(file, count)
    elif verb == "open":
        print(json.dumps(opened(file, count)))
    else:
        for found in folded(file, count):
            print(json.dumps(found), flush=True)
            sys.stdin.readline()


if __name__ == "__main__":
    main()
