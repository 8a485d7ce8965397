"""Keyspaces after a kill and in a bucket: opening, folds and their memory, cold gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import siltstone
from bench.figure import MIB, PER_SECOND, SECONDS, Figure, Unit, bounded
from bench.keyspace_child import NAME
from bench.s3_place import s3_place
from bench.workshop import Workshop
from services.unavailable import UnavailableError
from siltstone import objects
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage

OBJECTS = (1_000_000, 2_000)
HEADS_AIM = 150_000.0
OPEN_AIM_S = 3.0
MEMORY_AIM_MIB = 64.0
"""Goals of heads a second, of an opening after a kill, and of what a fold of all heads takes."""

GETS = (200, 20)
VALUE_BYTES = 8 * 1024
MORE_BYTES = 1024
"""What a get may fetch besides the value."""

BYTES = Unit(text="B", better=MIB.better)
REQUESTS = Unit(text="requests", better=MIB.better)


def after_a_kill(workshop: Workshop) -> list[Figure]:
    """Fill a keyspace and kill its process; then open it, and go through its heads."""
    count = workshop.pick(*OBJECTS)
    with workshop.place() as place:
        file = workshop.store(place)
        with _child(file, "fill", count) as filling:
            assert filling.stdout is not None
            line = filling.stdout.readline()
            filling.kill()
        assert line == "filled\n", "the child filled the keyspace"
        opened = _told(file, "open", count)
        folded = _told(file, "fold", count)
    heads = folded["heads"]
    return [
        bounded(f"open {count:,} objects after a kill", SECONDS, [opened["seconds"]], OPEN_AIM_S),
        bounded(f"heads of {count:,} keys, in order", PER_SECOND, heads, HEADS_AIM),
        Figure(
            what=f"heads of {count:,} keys, in order",
            peer="scan of the rows alone",
            unit=PER_SECOND,
            ours=heads,
            theirs=folded["scans"],
        ),
        bounded("memory of that", MIB, [folded["memory_mib"]], MEMORY_AIM_MIB),
    ]


def _child(file: Path, verb: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.keyspace_child", str(file), verb, str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _told(file: Path, verb: str, count: int) -> dict[str, Any]:
    with _child(file, verb, count) as child:
        told, _ = child.communicate()
    assert child.returncode == 0, f"{verb} ended with {child.returncode}"
    found: dict[str, Any] = json.loads(told)
    return found


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
