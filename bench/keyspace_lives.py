"""Keyspaces after a kill and in a bucket: opening, folds and their memory, cold gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import siltstone
from bench.figure import MIB, MICROSECONDS, PER_SECOND, SECONDS, Figure, Unit, bounded
from bench.keyspace_child import NAME
from bench.leveled import Leveled, LeveledStore, leveled_reads
from bench.s3_place import s3_place
from bench.workshop import Workshop
from services.unavailable import UnavailableError
from siltstone import objects
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage

OBJECTS = (1_000_000, 2_000)
HEADS_AIM = 150_000.0
HEAD_CPU_US = 1e6 / HEADS_AIM
OPEN_AIM_S = 3.0
MEMORY_AIM_MIB = 64.0
"""Goals of heads a second, of an opening after a kill, and of what a fold of all heads takes."""

GETS = (200, 20)
VALUE_BYTES = 8 * 1024
MORE_BYTES = 1024
"""What a get may fetch besides the value."""

BYTES = Unit(text="B", better=MIB.better)
REQUESTS = Unit(text="requests", better=MIB.better)


def after_a_kill(workshop: Workshop, leveled: Leveled | None) -> list[Figure]:
    """Fill a keyspace and kill its process; then open it, and go through its heads."""
    count = workshop.pick(*OBJECTS)
    with workshop.place() as place:
        file = workshop.store(place)
        with _child(file, "fill", count) as filling:
            assert filling.stdout is not None
            line = filling.stdout.readline()
            filling.kill()
        assert line == "filled\n", "the child filled the keyspace"
        opened = _opened(file, count)
        with leveled_reads(leveled, place / "leveled", 0, count, VALUE_BYTES) as others:
            turns, theirs = _folded(file, count, others)
    heads = [turn["heads"] for turn in turns]
    what = f"heads of {count:,} keys, in order"
    return [
        bounded(f"open {count:,} objects after a kill", SECONDS, [opened["seconds"]], OPEN_AIM_S),
        bounded("processor time of that", SECONDS, [opened["cpu_s"]], OPEN_AIM_S),
        bounded(what, PER_SECOND, heads, HEADS_AIM),
        bounded(
            "processor time of each", MICROSECONDS, [turn["cpu_us"] for turn in turns], HEAD_CPU_US
        ),
        *(
            Figure(what=what, peer=peer, unit=PER_SECOND, ours=heads, theirs=their, goal=goal)
            for peer, their, goal in (
                ("scan of the rows alone", [turn["scans"] for turn in turns], None),
                *(("leveled's head fold", their, 1) for their in theirs),
            )
        ),
        bounded("memory of that", MIB, [turns[0]["memory_mib"]], MEMORY_AIM_MIB),
    ]


def _child(file: Path, verb: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.keyspace_child", str(file), verb, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _opened(file: Path, count: int) -> dict[str, float]:
    with _child(file, "open", count) as child:
        told, _ = child.communicate()
    assert child.returncode == 0, f"open ended with {child.returncode}"
    found: dict[str, float] = json.loads(told)
    return found


def _folded(
    file: Path, count: int, others: Sequence[LeveledStore]
) -> tuple[list[dict[str, float]], list[list[float]]]:
    """What the child tells of its turns; the rates of ``others``, whose turns come between."""
    turns: list[dict[str, float]] = []
    theirs: list[list[float]] = [[] for _ in others]
    with _child(file, "fold", count) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for line in child.stdout:
            turns.append(json.loads(line))
            for other, rates in zip(others, theirs, strict=True):
                rates.append(other.fold(count))
            print(file=child.stdin, flush=True)
    assert child.returncode == 0, f"fold ended with {child.returncode}"
    return turns, theirs


class _Fetched:
    """What is read of chunks of values in buckets: each call is one request."""

    def __init__(self) -> None:
        self.calls = self.bytes = 0
        read = S3ChunkStorage.read_into

        def counted(
            storage: S3ChunkStorage, name: str, offset: int, buffer: memoryview | bytearray
        ) -> int:
            if name.startswith("data/"):
                self.calls += 1
                self.bytes += len(buffer)
            return read(storage, name, offset, buffer)

        self._read = read
        S3ChunkStorage.read_into = counted  # type: ignore[assignment, method-assign]

    def end(self) -> None:
        """Count no more."""
        S3ChunkStorage.read_into = self._read  # type: ignore[method-assign]


def from_a_bucket(workshop: Workshop) -> list[Figure]:
    """Gets of a store that was just opened, whose values are in S3."""
    count = workshop.pick(*GETS)
    try:
        with s3_place() as bucket, workshop.place() as place:
            file = bucket.store(place / "store", "keyspace")
            with siltstone.open(file) as store:
                keyspace = objects.create(store, NAME)
                for number in range(count):
                    keyspace.put("bucket", f"key-{number:09}", os.urandom(VALUE_BYTES))
                store.flush()
            with siltstone.open(file) as store:
                keyspace = objects.open(store, NAME)
                fetched = _Fetched()
                try:
                    for number in range(count):
                        assert keyspace.get("bucket", f"key-{number * 7 % count:09}") is not None
                finally:
                    fetched.end()
    except UnavailableError as error:
        print(f"NOT MEASURED: gets from S3: {error}", file=sys.stderr, flush=True)
        return []
    what = f"get {VALUE_BYTES // 1024} KiB, cold, from S3"
    bound = float(VALUE_BYTES + MORE_BYTES)
    return [
        bounded(f"{what}, fetched", BYTES, [fetched.bytes / count], bound),
        bounded(f"{what}, requests", REQUESTS, [fetched.calls / count], 1.0),
    ]
