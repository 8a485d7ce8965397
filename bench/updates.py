"""Creations of segments, and tables: small commits of metadata, and reads of them.

SlateDB is compared if it is installed (``make peers``); RocksDB always is.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import rocksdict

import siltstone
from bench.bare_pipeline import BarePipeline, PlainFile
from bench.figure import MICROSECONDS, PER_SECOND, Figure, Unit, alternate
from bench.peers import SLATEDB_INTERVALS, optional, slatedb_put
from bench.workshop import Loop, Stopwatch, Workshop, async_store, in_flight, seconds_of
from siltstone import AsyncStore, Put

SIZES = {1: (1_000, 100), 1_000: (20_000, 2_000)}
"""In flight at a time: how many operations a full and a quick run make for one value."""

CREATIONS_AIM = 40_000.0
PUTS_AIM = 100_000.0
ROWS_AIM = 500_000.0
GETS_AIM = 100_000.0
PUT_COST_GOAL = 0.13
"""Processor time of a put; the bare pipeline has no checksum, key, index or version for it."""

SLATEDB_ALONE = 20
"""Puts of SlateDB one after the other: each waits for a flush interval, whatever it costs."""

COMMIT_COUNT = 1_000
COMMITS_IN_FLIGHT = 4
KEYS = 10_000
VALUE_BYTES = 100

Costs = list[float]
Batch = Callable[[range], None]
"""Puts the keys of this many numbers at once, durably."""


def run(workshop: Workshop) -> list[Figure]:
    """Measure both, alone and many at a time, and reads of tables."""
    with (
        workshop.place() as place,
        Loop() as loop,
        async_store(loop, workshop.store(place)) as store,
        PlainFile(place / "bare", overwrite=True) as file,
        BarePipeline(file, loop.loop) as bare,
        ExitStack() as stack,
    ):
        figures = []
        rocksdb = stack.enter_context(_rocksdb(place / "rocksdb"))
        slatedb = optional("slatedb.uniffi")
        slates = {}
        for interval in SLATEDB_INTERVALS if slatedb is not None else ():
            assert slatedb is not None, "there are no intervals without it"
            opened = slatedb_put(slatedb, loop, place / f"slatedb-{interval}", interval)
            slates[interval] = stack.enter_context(opened)
        for width, (full, quick) in SIZES.items():
            parts = _Parts(workshop, loop, store, bare, width, workshop.pick(full, quick))
            figures += parts.creations()
            figures += parts.puts(rocksdb, slates)
            if width > 1:
                figures += parts.conditional_puts()
                figures += parts.commits(rocksdb)
    return [*figures, *_reads(workshop)]


@contextmanager
def _rocksdb(folder: Path) -> Iterator[Batch]:
    """Batches of puts, synced."""
    value = os.urandom(VALUE_BYTES)
    database = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
    synced = rocksdict.WriteOptions()
    synced.sync = True

    def write(numbers: range) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for number in numbers:
            batch.put(_key(number), value)
        database.write(batch, synced)

    try:
        yield write
    finally:
        database.close()


def _key(number: int) -> bytes:
    return b"key-%08d" % (number % KEYS)


class _Parts:
    """The operations at one depth."""

    def __init__(
        self,
        workshop: Workshop,
        loop: Loop,
        store: AsyncStore,
        bare: BarePipeline,
        width: int,
        total: int,
    ) -> None:
        self._workshop = workshop
        self._loop = loop
        self._store = store
        self._bare = bare
        self._width = width
        self._total = total
        self._value = os.urandom(VALUE_BYTES)
        self._table = loop(store.create_table(f"table-{width}"))

    def creations(self) -> list[Figure]:
        """Creations of segments."""
        numbers = count()

        def create(_: int) -> Awaitable[object]:
            return self._store.create(f"created-{self._width}/{next(numbers):08}")

        data = bytes(self._logged_bytes(create))
        ours, theirs = alternate(
            self._workshop.rounds,
            lambda: self._rate(create),
            lambda: self._rate(lambda _: self._bare.append(data)),
        )
        what = "create a segment"
        figures = [self._figure(what, f"bare pipeline, {len(data)} B each", ours, theirs)]
        if self._width > 1:
            figures.append(self._figure(what, "bound", ours, [CREATIONS_AIM] * len(ours), goal=1))
        return figures

    def puts(
        self, rocksdb: Batch, slates: dict[str, Callable[[bytes, bytes], Awaitable[None]]]
    ) -> list[Figure]:
        """Puts of one key each, into a table of few keys."""

        def put(number: int) -> Awaitable[object]:
            return self._table.put(_key(number), self._value)

        def slate(store: Callable[[bytes, bytes], Awaitable[None]]) -> float:
            total = self._total if self._width > 1 else min(self._total, SLATEDB_ALONE)
            return self._rate(lambda number: store(_key(number), self._value), total=total)

        data = bytes(self._logged_bytes(put))
        ours_us, bare_us = Costs(), Costs()
        ours, bare, rocks, *others = alternate(
            self._workshop.rounds,
            lambda: self._rate(put, ours_us),
            lambda: self._rate(lambda _: self._bare.append(data), bare_us),
            lambda: self._batches(rocksdb, self._width),
            *(partial(slate, store) for store in slates.values()),
        )
        what = f"put {VALUE_BYTES} B into a table"
        pipeline = f"bare pipeline, {len(data)} B each"
        batches = "" if self._width == 1 else f", batches of {self._width:,}"
        figures = [
            self._figure(what, pipeline, ours, bare),
            self._figure(what, f"RocksDB, synced{batches}", ours, rocks),
        ]
        for interval, theirs in zip(slates, others, strict=True):
            peer = f"SlateDB, on local files without sync, flush interval {interval}"
            figures.append(self._figure(what, peer, ours, theirs))
        cost = "… processor time of one put"
        if self._width == 1:
            return [*figures, self._figure(cost, pipeline, ours_us, bare_us, unit=MICROSECONDS)]
        return [
            *figures,
            self._figure(what, "bound", ours, [PUTS_AIM] * len(ours), goal=1),
            self._figure(cost, pipeline, ours_us, bare_us, goal=PUT_COST_GOAL, unit=MICROSECONDS),
        ]

    def conditional_puts(self) -> list[Figure]:
        """Puts of keys that must be absent, and are."""
        numbers = count()

        def put(_: int) -> Awaitable[object]:
            key = b"new-%08d" % next(numbers)
            return self._table.update({key: self._value}, expected={key: None})

        data = bytes(self._logged_bytes(put))
        ours_us, bare_us = Costs(), Costs()
        ours, bare = alternate(
            self._workshop.rounds,
            lambda: self._rate(put, ours_us),
            lambda: self._rate(lambda _: self._bare.append(data), bare_us),
        )
        what = f"put {VALUE_BYTES} B under a new key if it is absent"
        peer = f"bare pipeline, {len(data)} B each"
        return [
            self._figure(what, peer, ours, bare),
            self._figure("… processor time of one put", peer, ours_us, bare_us, unit=MICROSECONDS),
        ]

    def commits(self, rocksdb: Batch) -> list[Figure]:
        """Commits of many puts each, counted in puts."""
        name, value = self._table.name, self._value
        operations = [Put(name, _key(number), value) for number in range(COMMIT_COUNT)]
        total = self._total // COMMIT_COUNT

        def ours(costs: Costs) -> float:
            with Stopwatch() as watch:
                work = in_flight(COMMITS_IN_FLIGHT, total, lambda _: self._store.commit(operations))
                self._loop(work)
            costs.append(watch.cpu_s / total / COMMIT_COUNT * 1e6)
            self._loop(self._store.flush())
            return total * COMMIT_COUNT / watch.seconds

        ours_us, rocks_us = Costs(), Costs()
        rates, theirs = alternate(
            self._workshop.rounds,
            lambda: ours(ours_us),
            lambda: self._batches(rocksdb, COMMIT_COUNT, rocks_us),
        )
        what = f"commit of {COMMIT_COUNT:,} puts of {VALUE_BYTES} B, puts"
        peer = f"RocksDB, synced, batches of {COMMIT_COUNT:,}"
        depth = f", {COMMITS_IN_FLIGHT} in flight"
        return [
            Figure(what=what + depth, peer=peer, unit=PER_SECOND, ours=rates, theirs=theirs),
            Figure(
                what=f"… processor time of one put{depth}",
                peer=peer,
                unit=MICROSECONDS,
                ours=ours_us,
                theirs=rocks_us,
            ),
        ]

    def _batches(self, write: Batch, size: int, costs: Costs | None = None) -> float:
        with Stopwatch() as watch:
            for first in range(0, self._total, size):
                write(range(first, first + size))
        if costs is not None:
            costs.append(watch.cpu_s / self._total * 1e6)
        return self._total / watch.seconds

    def _rate(
        self,
        operation: Callable[[int], Awaitable[object]],
        costs: Costs | None = None,
        *,
        total: int | None = None,
    ) -> float:
        total = self._total if total is None else total
        with Stopwatch() as watch:
            self._loop(in_flight(self._width, total, operation))
        if costs is not None:
            costs.append(watch.cpu_s / total * 1e6)
        self._loop(self._store.flush())
        return total / watch.seconds

    def _logged_bytes(self, operation: Callable[[int], Awaitable[object]]) -> int:
        """Do the operation several times; return how much each one grows the table log."""
        before = self._table_version()
        self._loop(in_flight(1, 10, operation))
        return (self._table_version() - before) // 10

    def _table_version(self) -> int:
        return sum(stats.table_version for stats in self._store.stats())

    def _figure(
        self,
        what: str,
        peer: str,
        ours: list[float],
        theirs: list[float],
        goal: float | None = None,
        unit: Unit = PER_SECOND,
    ) -> Figure:
        return Figure(
            what=f"{what}, {self._width:,} in flight",
            peer=peer,
            unit=unit,
            ours=ours,
            theirs=theirs,
            goal=goal,
        )


def _reads(workshop: Workshop) -> list[Figure]:
    """Scans and gets of a blocking caller, next to the same rows in RocksDB."""
    total = workshop.pick(100_000, 2_000)
    rows = {b"row-%08d" % number: os.urandom(VALUE_BYTES) for number in range(total)}
    keys = list(rows)[:: max(1, total // KEYS)]
    with workshop.place() as place, siltstone.open(workshop.store(place)) as store:
        table = store.create_table("table")
        database = rocksdict.Rdict(str(place / "rocksdb"), rocksdict.Options(raw_mode=True))
        try:
            for first in range(0, total, COMMIT_COUNT):
                part = {key: rows[key] for key in list(rows)[first : first + COMMIT_COUNT]}
                table.update({**part})
                for key, value in part.items():
                    database.put(key, value)

            def scan() -> float:
                return total / seconds_of(lambda: _drain(value.value for _, value in table.scan()))

            def iterate() -> float:
                return total / seconds_of(lambda: _drain(value for _, value in database.items()))

            def gets(get: Callable[[bytes], object]) -> float:
                return len(keys) / seconds_of(lambda: _drain(map(get, keys)))

            scans, iterations, ours, theirs = alternate(
                workshop.rounds,
                scan,
                iterate,
                lambda: gets(table.get),
                lambda: gets(database.get),
            )
        finally:
            database.close()
    what = {"rows": f"scan a table of rows of {VALUE_BYTES} B, rows", "get": "get from a table"}
    peers = {"rows": "RocksDB, iterated", "get": "RocksDB, get"}
    return [
        Figure(
            what=what[kind],
            peer=peers[kind] if goal is None else "bound",
            unit=PER_SECOND,
            ours=found,
            theirs=other,
            goal=goal,
        )
        for kind, found, peer, aim in (
            ("rows", scans, iterations, ROWS_AIM),
            ("get", ours, theirs, GETS_AIM),
        )
        for other, goal in ((peer, None), ([aim] * len(found), 1))
    ]


def _drain(items: Iterator[object]) -> None:
    for _ in items:
        pass
