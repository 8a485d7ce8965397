"""The binding ``hdfs`` on a server beside its own client, with the processor's time.

Both sync what they write and close it. The binding alone compares what it sees with what the
NameNode knows, and gives each call a thread and a deadline.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import siltstone
from bench.figure import MIB as MEBIBYTES
from bench.figure import MIB_PER_SECOND, Figure, alternate
from bench.hdfs_place import HdfsPlace, hdfs_place
from bench.sdk_contest import MIB, Client, Contest
from bench.workshop import Workshop, seconds_of
from services.unavailable import UnavailableError
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage

PEER = "hdfs-native"
SMALL_BYTES = 2**16
CHUNK_BYTES = 64 * MIB
PEAKS_MIB = {"flush": 556, "read": 300}
"""Of a flush: the bound of back-pressure and what is allowed beside it."""
LARGE_ROUNDS = 2
"""A gibibyte says the same each time."""


def run(workshop: Workshop) -> list[Figure]:
    """Measure files alone, then a whole segment; nothing where the server is not."""
    try:
        with hdfs_place() as place:
            with place.storage() as storage:
                contest = Contest(
                    workshop=workshop,
                    peer=PEER,
                    clients=partial(_clients, storage, place, os.urandom(CHUNK_BYTES)),
                    empty=place.empty,
                )
                figures = [*contest.large("files"), *contest.small("files", SMALL_BYTES)]
            return [*figures, *_segment(workshop, place)]
    except UnavailableError as error:
        print(f"NOT MEASURED: {error}", file=sys.stderr, flush=True)
        return []


def _clients(
    storage: HdfsChunkStorage, place: HdfsPlace, content: bytes, length: int
) -> Sequence[Client]:
    view, whole = memoryview(content)[:length], content[:length]
    buffers = [bytearray(length) for _ in range(4)]

    def get(number: int) -> None:
        assert storage.read_into(f"d/{number}", 0, buffers[number % 4]) == length

    def sdk_get(number: int) -> None:
        assert len(place.get(number, length)) == length

    return (
        Client(put=lambda number: storage.create(f"d/{number}", [view]), get=get),
        Client(put=lambda number: place.put(number, whole), get=sdk_get),
    )


def _segment(workshop: Workshop, place: HdfsPlace) -> list[Figure]:
    """Flush and read a segment in processes of their own."""
    count = workshop.pick(1024, 8)
    rounds = min(LARGE_ROUNDS, workshop.rounds)
    told: dict[str, list[dict[str, float]]] = {"flush": [], "read": []}

    def ours() -> float:
        with workshop.place() as folder:
            file = siltstone.init(folder / "store", binding="hdfs", options=place.options)
            for verb in told:
                told[verb].append(_in_child(file, verb, count))
        place.empty()
        return count / told["flush"][-1]["seconds"]

    rates, peer = alternate(rounds, ours, partial(_put, place, count))
    figures = [
        Figure(
            what=f"append {count:,} MiB to the log and flush, {rounds} times",
            peer=f"{PEER}: files of 64 MiB, 4 at a time, without a log",
            unit=MIB_PER_SECOND,
            ours=rates,
            theirs=peer,
        )
    ]
    figures += [
        Figure(
            what=f"… peak memory of the process, {verb}",
            peer="limit",
            unit=MEBIBYTES,
            ours=[one["peak_mib"] for one in told[verb]],
            theirs=[float(limit)] * rounds,
            goal=1,
        )
        for verb, limit in PEAKS_MIB.items()
    ]
    return figures


def _in_child(file: Path, verb: str, count: int) -> dict[str, float]:
    child = subprocess.run(
        [sys.executable, "-m", "bench.segment_child", str(file), verb, str(count)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    told: dict[str, float] = json.loads(child.stdout)
    return told


def _put(place: HdfsPlace, count: int) -> float:
    body = os.urandom(min(count * MIB, CHUNK_BYTES))
    with ThreadPoolExecutor(4) as threads:
        numbers = range(count * MIB // len(body))
        seconds = seconds_of(lambda: list(threads.map(lambda one: place.put(one, body), numbers)))
    place.empty()
    return count / seconds
