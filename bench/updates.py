"""Creations of segments and updates of tables: small commits of metadata."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import rocksdict

from bench.bare_pipeline import BarePipeline, PlainFile
from bench.figure import PER_SECOND, Figure, alternate
from bench.workshop import Loop, Workshop, async_store, in_flight, seconds_of
from siltstone import AsyncStore

SIZES = {1: (1_000, 100), 1_000: (20_000, 2_000)}
"""In flight at a time: how many operations a full and a quick run make for one value."""

CREATIONS_AIM = 13_000.0
"""What Pravega's layer of segments does on a machine like those of these pages."""
KEYS = 10_000
VALUE_BYTES = 100


def run(workshop: Workshop) -> list[Figure]:
    """Measure both, alone and many at a time."""
    with (
        workshop.place() as place,
        Loop() as loop,
        async_store(loop, workshop.store(place)) as store,
        PlainFile(place / "bare", overwrite=True) as file,
        BarePipeline(file, loop.loop) as bare,
    ):
        figures = []
        for width, (full, quick) in SIZES.items():
            parts = _Parts(workshop, loop, store, bare, width, workshop.pick(full, quick))
            figures += parts.creations()
            figures += parts.table_updates(place / f"rocksdb-{width}")
        return figures


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

    def table_updates(self, folder: Path) -> list[Figure]:
        """Updates of a table, one key each."""
        keys = [f"key-{number:08}".encode() for number in range(KEYS)]
        value = os.urandom(VALUE_BYTES)
        table = self._loop(self._store.create_table(f"table-{self._width}"))

        def put(number: int) -> Awaitable[object]:
            return table.put(keys[number % KEYS], value)

        data = bytes(self._logged_bytes(put))
        options = rocksdict.Options(raw_mode=True)
        database = rocksdict.Rdict(str(folder), options)
        synced = rocksdict.WriteOptions()
        synced.sync = True

        def put_all() -> None:
            for first in range(0, self._total, self._width):
                batch = rocksdict.WriteBatch(raw_mode=True)
                for number in range(first, first + self._width):
                    batch.put(keys[number % KEYS], value)
                database.write(batch, synced)

        try:
            ours, bare, rocksdb = alternate(
                self._workshop.rounds,
                lambda: self._rate(put),
                lambda: self._rate(lambda _: self._bare.append(data)),
                lambda: self._total / seconds_of(put_all),
            )
        finally:
            database.close()
        what = f"put {VALUE_BYTES} B into a table"
        batches = "" if self._width == 1 else f", batches of {self._width:,}"
        return [
            self._figure(what, f"bare pipeline, {len(data)} B each", ours, bare),
            self._figure(what, f"RocksDB, synced{batches}", ours, rocksdb),
        ]

    def _rate(self, operation: Callable[[int], Awaitable[object]]) -> float:
        seconds = seconds_of(lambda: self._loop(in_flight(self._width, self._total, operation)))
        self._loop(self._store.flush())
        return self._total / seconds

    def _logged_bytes(self, operation: Callable[[int], Awaitable[object]]) -> int:
        """Do the operation some times; return by how much each lets the table log grow."""
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
    ) -> Figure:
        return Figure(
            what=f"{what}, {self._width:,} in flight",
            peer=peer,
            unit=PER_SECOND,
            ours=ours,
            theirs=theirs,
            goal=goal,
        )
