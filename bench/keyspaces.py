"""Keyspaces beside engines that keep large values, and beside what the disk itself does.

LMDB is compared if it is installed (``make peers``), Leveled if there is a checkout of it and
Erlang; RocksDB and SQLite always are.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import rocksdict

import siltstone
from bench.bare_pipeline import BarePipeline, PlainFile
from bench.figure import MIB, MICROSECONDS, PER_SECOND, Figure, Unit, alternate, bounded
from bench.keyspace_bounds import (
    BareCommits,
    BareRecords,
    lmdb_batches,
    looked_up,
    rows_of,
    timed,
)
from bench.keyspace_child import WIDTH, index_of, put_object
from bench.keyspace_differences import differences_of_keyspaces
from bench.keyspace_lives import after_a_kill, from_a_bucket
from bench.keyspace_rebuilds import rebuilds
from bench.leveled import PROCESSES, Leveled, compiled, leveled_puts, leveled_reads
from bench.peers import optional
from bench.workshop import Loop, Workshop, async_store, in_flight, seconds_of
from siltstone import objects
from siltstone.objects import AsyncKeyspace

VALUE_BYTES = 8 * 1024
ALONE = (200, 20)
MANY = (20_000, 2_000)
READS = (10_000, 500)
HEADS = (50_000, 2_000)
PUT_CPU_US = 50.0
WRITTEN_AIM = 1.03
PER_LIVE_BYTE = Unit(text="written a live byte", better=MIB.better)
"""Goals of a put's processor time, and of what compaction writes."""

_RECORDS = "hashes, sums, records and rows, no store"
"""What a put is made into, which takes the same time whatever keeps it."""

Measure = Callable[[], float]


def run(workshop: Workshop) -> list[Figure]:
    """Measure puts, reads, a fold, a compaction, a comparison and a rebuild."""
    with compiled(workshop) as leveled:
        return [
            *_puts(workshop, leveled),
            *_reads(workshop, leveled),
            *after_a_kill(workshop, leveled),
            *from_a_bucket(workshop),
            *_compaction(workshop),
            *differences_of_keyspaces(workshop),
            *rebuilds(workshop),
        ]


class _Puts:
    """Puts of one keyspace, and of a file that takes the same bytes."""

    def __init__(self, loop: Loop, keyspace: AsyncKeyspace, bare: BarePipeline) -> None:
        self._loop = loop
        self._keyspace = keyspace
        self._bare = bare
        self._value = os.urandom(VALUE_BYTES)
        self._numbers = count()
        self.spent: list[float] = []
        self.bare_spent: list[float] = []

    def ours(self, width: int, total: int) -> float:
        """Puts a second."""
        first = next(self._numbers) * MANY[0]

        def put(number: int) -> asyncio.Future[objects.PutResult]:
            return put_object(self._keyspace, first + number, self._value)

        return timed(lambda: self._loop(in_flight(width, total, put)), total, self.spent)

    def bare(self, width: int, total: int) -> float:
        """Group commits of the same values a second, without anything else."""
        work = in_flight(width, total, lambda _: self._bare.append(self._value))
        return timed(lambda: self._loop(work), total, self.bare_spent)


def _puts(workshop: Workshop, leveled: Leveled | None) -> list[Figure]:
    lmdb = optional("lmdb")
    with (
        workshop.place() as place,
        Loop() as loop,
        async_store(loop, workshop.store(place)) as store,
        PlainFile(place / "bare", overwrite=True) as file,
        BarePipeline(file, loop.loop) as bare,
        _sqlite(place / "sqlite") as sqlite,
        _rocksdb(place / "rocksdb") as rocksdb,
        ExitStack() as stack,
    ):
        commits = BareCommits(loop, store, VALUE_BYTES, workshop.pick(*MANY))
        records = BareRecords(VALUE_BYTES)
        puts = _Puts(loop, loop(objects.create_async(store, "bench")), bare)
        figures = []
        for width, total in ((1, workshop.pick(*ALONE)), (WIDTH, workshop.pick(*MANY))):
            for each in (puts.spent, puts.bare_spent, commits.spent):
                each.clear()
            few = min(total, 2_000)
            peers: dict[str, tuple[Measure, float | None]] = {
                "write and fdatasync" if width == 1 else "bare group commit": (
                    partial(puts.bare, width, total),
                    0.6 if width == 1 else 0.5,
                ),
                "SQLite FULL, each a transaction": (
                    partial(_rate, sqlite, few, 1),
                    None if width == 1 else 5,
                ),
                "commit of the same rows and bytes": (partial(commits.rate, width, total), None),
            }
            if width > 1:
                peers[_RECORDS] = partial(records.rate, total), None
                name = "RocksDB with blob files, synced, batches of 100"
                peers[name] = partial(_rate, rocksdb, total, 100), None
            if width > 1 and lmdb is not None:
                writes = stack.enter_context(lmdb_batches(lmdb, place / "lmdb", VALUE_BYTES))
                peers["LMDB, batches of 100"] = partial(_rate, writes, total, 100), None
            if width > 1 and leveled is not None:
                folder = place / "leveled"
                rate = stack.enter_context(leveled_puts(leveled, folder, VALUE_BYTES))
                peers[f"leveled, sync, {PROCESSES} processes"] = partial(rate, total), 5
            ours = partial(puts.ours, width, total)
            measured = alternate(workshop.rounds, ours, *(each for each, _ in peers.values()))
            what = f"put {VALUE_BYTES // 1024} KiB, 2 index entries, {width:,} in flight"
            for (peer, (_, goal)), theirs in zip(peers.items(), measured[1:], strict=True):
                figures.append(
                    Figure(
                        what=what,
                        peer=peer,
                        unit=PER_SECOND,
                        ours=measured[0],
                        theirs=theirs,
                        goal=goal,
                    )
                )
        what = f"processor time of a put, {WIDTH:,} in flight"
        figures.append(bounded(what, MICROSECONDS, puts.spent, PUT_CPU_US))
        for peer, theirs in (
            ("bare group commit", puts.bare_spent),
            ("commit of the same rows and bytes", commits.spent),
            (_RECORDS, records.spent),
        ):
            figures.append(
                Figure(what=what, peer=peer, unit=MICROSECONDS, ours=puts.spent, theirs=theirs)
            )
    return figures


Write = Callable[[range], None]


def _rate(write: Write, total: int, width: int) -> float:
    def all_of_them() -> None:
        for first in range(0, total, width):
            write(range(first, first + width))

    return total / seconds_of(all_of_them)


@contextmanager
def _sqlite(path: Path) -> Iterator[Write]:
    """Transactions of blobs with the same two index entries, each durable."""
    value = os.urandom(VALUE_BYTES)
    numbers = count()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE objects (key TEXT PRIMARY KEY, owner, day, value BLOB)")
        database.execute("CREATE INDEX owners ON objects (owner)")
        database.execute("CREATE INDEX days ON objects (day)")

        def write(wanted: range) -> None:
            database.execute("BEGIN")
            for number in wanted:
                row = (f"key-{next(numbers):09}", number % 1000, number % 28, value)
                database.execute("INSERT INTO objects VALUES (?, ?, ?, ?)", row)
            database.execute("COMMIT")

        yield write


@contextmanager
def _rocksdb(folder: Path) -> Iterator[Write]:
    """Batches of values in blob files, synced."""
    value = os.urandom(VALUE_BYTES)
    numbers = count()
    options = rocksdict.Options(raw_mode=True)
    options.set_enable_blob_files(True)
    database = rocksdict.Rdict(str(folder), options)
    synced = rocksdict.WriteOptions()
    synced.sync = True

    def write(wanted: range) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for _ in wanted:
            batch.put(b"key-%09d" % next(numbers), value)
        database.write(batch, synced)

    try:
        yield write
    finally:
        database.close()


def _reads(workshop: Workshop, leveled: Leveled | None) -> list[Figure]:
    """Heads and values of blocking callers, at random."""
    total, reads = workshop.pick(*HEADS), workshop.pick(*READS)
    with workshop.place() as place:
        path = workshop.store(place)
        with Loop() as loop, async_store(loop, path) as store:
            made = loop(objects.create_async(store, "bench"))
            value = os.urandom(VALUE_BYTES)
            few = min(total, reads)

            def put(number: int) -> asyncio.Future[objects.PutResult]:
                return put_object(made, number, value if number < few else value[:100])

            loop(in_flight(WIDTH, total, put))
            loop(store.flush())
        plain = place / "plain"
        plain.write_bytes(value * few)
        with (
            siltstone.open(path) as opened,
            closing(_opened_rocksdb(place / "rocks", value[:300], total)) as rocks,
            plain.open("rb") as file,
            leveled_reads(leveled, place / "leveled", few, total, VALUE_BYTES) as opened_leveled,
        ):
            keyspace = objects.open(opened, "bench")
            random = Random(7)
            wanted = [random.randrange(few) for _ in range(reads)]

            def rate(read: Callable[[int], object]) -> float:
                return reads / seconds_of(
                    lambda: deque(map(read, wanted), maxlen=0)  # what is read is not kept
                )

            def head() -> float:
                return rate(lambda number: keyspace.head("bucket", f"key-{number:09}"))

            def rocks_get() -> float:
                return rate(lambda number: rocks.get(b"key-%09d" % number))

            def get() -> float:
                return rate(lambda number: keyspace.get("bucket", f"key-{number:09}"))

            def preadv() -> float:
                buffer = bytearray(VALUE_BYTES)
                descriptor = file.fileno()
                return rate(lambda number: os.preadv(descriptor, [buffer], number * VALUE_BYTES))

            bare_get = rows_of(opened, wanted)
            their_heads = [partial(each.head, reads, few) for each in opened_leveled]
            their_gets = [partial(each.get, reads, few, VALUE_BYTES) for each in opened_leveled]
            ours, theirs, bare, *heads = alternate(
                workshop.rounds, head, rocks_get, bare_get, *their_heads
            )
            bare_read = looked_up(file.fileno(), value, wanted)
            got, read, least, *gets = alternate(
                workshop.rounds, get, preadv, bare_read, *their_gets
            )
    return [
        Figure(
            what="head, random",
            peer="get of RocksDB",
            unit=PER_SECOND,
            ours=ours,
            theirs=theirs,
            goal=0.25,
        ),
        Figure(
            what="head, random",
            peer="get of the row from its table",
            unit=PER_SECOND,
            ours=ours,
            theirs=bare,
        ),
        Figure(
            what="get 8 KiB, random, flushed",
            peer="preadv",
            unit=PER_SECOND,
            ours=got,
            theirs=read,
            goal=0.3,
        ),
        Figure(
            what="get 8 KiB, random, flushed",
            peer="dictionary, preadv and a sum, in Python",
            unit=PER_SECOND,
            ours=got,
            theirs=least,
        ),
        *(
            Figure(what=what, peer=peer, unit=PER_SECOND, ours=mine, theirs=their, goal=2)
            for what, peer, mine, found in (
                ("head, random", "leveled's head", ours, heads),
                ("get 8 KiB, random, flushed", "leveled's get", got, gets),
            )
            for their in found
        ),
    ]


def _opened_rocksdb(folder: Path, value: bytes, total: int) -> rocksdict.Rdict:
    database = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
    for number in range(total):
        database.put(b"key-%09d" % number, value)
    database.flush()
    return database


def _compaction(workshop: Workshop) -> list[Figure]:
    """A compaction of segments of which half is needed."""
    total = workshop.pick(*MANY)
    with (
        workshop.place() as place,
        Loop() as loop,
        async_store(loop, workshop.store(place)) as store,
    ):
        keyspace = loop(objects.create_async(store, "bench"))
        value = os.urandom(VALUE_BYTES)

        def put(number: int) -> asyncio.Future[objects.PutResult]:
            # Two puts of each key: the first of them is not needed.
            return keyspace.put("bucket", f"key-{number // 2:09}", value, index=index_of(number))

        written = []
        for _ in range(workshop.rounds):
            loop(in_flight(WIDTH, total, put))
            loop(store.flush())
            written += loop(_compacted(keyspace))
    if not written:
        print("NOT MEASURED: no value segment was full", file=sys.stderr, flush=True)
        return []
    return [bounded("value compaction", PER_LIVE_BYTE, written, WRITTEN_AIM)]


async def _compacted(keyspace: AsyncKeyspace) -> list[float]:
    """Bytes written for each byte of the records that are kept, of each compaction."""
    found = []
    while (report := await keyspace.compact()).run:
        if report.kept_bytes:
            found.append(report.written_bytes / report.kept_bytes)
    return found
