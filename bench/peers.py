"""Tables and creations of segments against embedded engines, every call awaiting durability.

SlateDB and LMDB are compared if they are installed (``make peers``); RocksDB always is.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import rocksdict

from bench.figure import PER_SECOND, Figure, alternate
from bench.workshop import Loop, Workshop, async_store, in_flight, seconds_of
from siltstone import AsyncStore

SIZES = {1: (200, 20), 1_000: (20_000, 2_000)}
"""In flight at a time: how many operations a full and a quick run make for one value."""

KEYS = 10_000
VALUE_BYTES = 100
SLATEDB_INTERVALS = ("100ms", "1ms")
"""How long SlateDB gathers writes before it stores them: its default, and a short one."""

LMDB_BYTES = 2**30
GOAL = 10.0
"""Against SlateDB, many in flight."""

Measure = Callable[[], float]
Batch = Callable[[Iterator[tuple[bytes, bytes]]], None]


def run(workshop: Workshop) -> list[Figure]:
    """Measure all available engines, alone and many at a time."""
    slatedb, lmdb = optional("slatedb.uniffi"), optional("lmdb")
    figures = []
    for width, (full, quick) in SIZES.items():
        with workshop.place() as place, Loop() as loop, ExitStack() as stack:
            contest = _Contest(loop, width, workshop.pick(full, quick))
            ours = contest.ours(stack.enter_context(async_store(loop, workshop.store(place))))
            peers = contest.batched("RocksDB", stack.enter_context(_rocksdb(place / "rocksdb")))
            if lmdb is not None:
                opened = stack.enter_context(_lmdb(lmdb, place / "lmdb"))
                peers |= contest.batched("LMDB", opened)
            for interval in SLATEDB_INTERVALS:
                if slatedb is None:
                    break
                folder = place / f"slatedb-{interval}"
                put = stack.enter_context(slatedb_put(slatedb, loop, folder, interval))
                name = f"SlateDB, on local files without sync, flush interval {interval}"
                peers[name] = partial(contest.rate, put)
            figures += contest.figures(workshop.rounds, ours, peers)
    return figures


class _Contest:
    """One number of operations in flight."""

    def __init__(self, loop: Loop, width: int, total: int) -> None:
        self._loop = loop
        self._width = width
        self._total = total
        self._keys = [f"key-{number:08}".encode() for number in range(KEYS)]
        self._value = os.urandom(VALUE_BYTES)

    def ours(self, store: AsyncStore) -> dict[str, Measure]:
        """What Siltstone does; for the others both are one put."""
        table = self._loop(store.create_table("table"))
        numbers = count()

        async def create(_: bytes, __: bytes) -> None:
            await store.create(f"made/{next(numbers):08}")

        return {
            f"put {VALUE_BYTES} B into a table": partial(self.rate, table.put),
            "create a segment": partial(self.rate, create),
        }

    def rate(self, put: Callable[[bytes, bytes], Awaitable[object]]) -> float:
        """Puts per second, with this many in flight."""
        keys, value = self._keys, self._value

        def one(number: int) -> Awaitable[object]:
            return put(keys[number % KEYS], value)

        seconds = seconds_of(lambda: self._loop(in_flight(self._width, self._total, one)))
        return self._total / seconds

    def batched(self, engine: str, write: Batch) -> dict[str, Measure]:
        """Synced batches of as many puts as others have in flight, one after the other."""
        keys, value, width = self._keys, self._value, self._width

        def all_of_them() -> None:
            for first in range(0, self._total, width):
                write((keys[number % KEYS], value) for number in range(first, first + width))

        name = f"{engine}, synced" + ("" if width == 1 else f", batches of {width:,}")
        return {name: lambda: self._total / seconds_of(all_of_them)}

    def figures(
        self, rounds: int, ours: dict[str, Measure], peers: dict[str, Measure]
    ) -> list[Figure]:
        """Measure all in turns."""
        measures = {**ours, **peers}
        named = dict(zip(measures, alternate(rounds, *measures.values()), strict=True))
        return [
            Figure(
                what=f"{what}, {self._width:,} in flight",
                peer=peer,
                unit=PER_SECOND,
                ours=named[what],
                theirs=named[peer],
                goal=GOAL if self._width > 1 and peer.startswith("SlateDB") else None,
            )
            for what in ours
            for peer in peers
        ]


@contextmanager
def _rocksdb(folder: Path) -> Iterator[Batch]:
    database = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
    synced = rocksdict.WriteOptions()
    synced.sync = True

    def write(puts: Iterator[tuple[bytes, bytes]]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in puts:
            batch.put(key, value)
        database.write(batch, synced)

    try:
        yield write
    finally:
        database.close()


@contextmanager
def _lmdb(lmdb: ModuleType, folder: Path) -> Iterator[Batch]:
    environment = lmdb.open(str(folder), map_size=LMDB_BYTES)

    def write(puts: Iterator[tuple[bytes, bytes]]) -> None:
        with environment.begin(write=True) as transaction:
            for key, value in puts:
                transaction.put(key, value)

    try:
        yield write
    finally:
        environment.close()


@contextmanager
def slatedb_put(
    slatedb: ModuleType, loop: Loop, folder: Path, interval: str
) -> Iterator[Callable[[bytes, bytes], Awaitable[None]]]:
    """A new database in ``folder``: a put that is awaited until it is stored."""
    folder.mkdir()

    path = f"{folder.resolve()}".lstrip("/")

    async def opened() -> Any:
        store = slatedb.ObjectStore.resolve("file:///")
        builder = slatedb.DbBuilder(path, store)
        settings = slatedb.Settings.default()
        settings.set("flush_interval", f'"{interval}"')
        builder.with_settings(settings)
        return await builder.build()

    database = loop(opened())

    async def put(key: bytes, value: bytes) -> None:
        handle = await database.put(key, value)
        await handle.await_durable()

    try:
        yield put
    finally:
        loop(_shut(database))


async def _shut(database: Any) -> None:
    async with asyncio.timeout(60):
        await database.shutdown()


def optional(name: str) -> ModuleType | None:
    """The module if it is installed; otherwise print that it is left out."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        print(
            f"NOT MEASURED: {package} is not installed; `make peers` does",
            file=sys.stderr,
            flush=True,
        )
        return None
