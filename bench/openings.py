"""Opening a store of many segments, as its owner and as a reader next to one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import rocksdict

import siltstone
from bench.figure import MILLISECONDS, Figure, alternate
from bench.workshop import Loop, Stopwatch, Workshop, async_store, in_flight, seconds_of

RECORD_BYTES = 100


def run(workshop: Workshop) -> list[Figure]:
    """Open with and without a local index, and read-only."""
    count = workshop.pick(10_000, 300)
    with workshop.place() as place, Loop() as loop:
        file = workshop.store(place)
        _fill(loop, file, count)
        root = file.parent
        copy = place / "index"
        shutil.copytree(root / "index" / "c0", copy)

        def open_cold() -> float:
            shutil.rmtree(root / "index")
            return _opening_ms(loop, file, read_only=False)

        peers = (lambda: _reading_ms(_files(root)), lambda: _rocksdb_ms(copy))
        cold, warm, reader, reading, rocksdb = alternate(
            workshop.rounds,
            open_cold,
            lambda: _opening_ms(loop, file, read_only=False),
            lambda: _opening_ms(loop, file, read_only=True),
            *peers,
        )
    what = f"open a store of {count:,} segments"
    cases = (
        (f"{what}, index rebuilt from the checkpoint", cold, "read the same files", reading),
        (f"{what}, index at hand", warm, "open RocksDB", rocksdb),
        (f"{what}, read-only", reader, "read the same files", reading),
    )
    return [
        Figure(what=name, peer=peer, unit=MILLISECONDS, ours=ours, theirs=theirs)
        for name, ours, peer, theirs in cases
    ]


def _fill(loop: Loop, file: Path, count: int) -> None:
    """Make the segments, each with some bytes that are only in tier 1."""
    record = os.urandom(RECORD_BYTES)
    with async_store(loop, file) as store:

        async def make(number: int) -> None:
            segment = await store.create(f"segment-{number:06}")
            await segment.append(record)

        loop(in_flight(min(count, 1_000), count, make))


def _opening_ms(loop: Loop, file: Path, *, read_only: bool) -> float:
    with Stopwatch() as watch:
        store = loop(siltstone.open_async(file, read_only=read_only))
    loop(store.close())
    return watch.seconds * 1e3


def _files(root: Path) -> list[Path]:
    """What an opening without an index has to read: metadata on long-term storage."""
    return sorted(path for path in (root / "chunks").rglob("*") if path.is_file())


def _reading_ms(paths: Iterable[Path]) -> float:
    buffer = bytearray(2**20)

    def read() -> None:
        for path in paths:
            with path.open("rb", buffering=0) as opened:
                while opened.readinto(buffer):
                    pass

    return seconds_of(read) * 1e3


def _rocksdb_ms(folder: Path) -> float:
    with Stopwatch() as watch:
        database = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
    database.close()
    return watch.seconds * 1e3
