"""Volumes beside SQLite on a plain file, and what a sync asks of a place.

Graft's extension and Litestream's are not compared: neither is here.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw
import zstandard

from bench.figure import (
    MIB,
    MIB_PER_SECOND,
    MICROSECONDS,
    MILLISECONDS,
    PER_SECOND,
    Figure,
    Unit,
    alternate,
    bounded,
)
from bench.workshop import Stopwatch, Workshop, seconds_of
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.volumes import Volume, VolumeClient
from siltstone.volumes.settings import ClientSettings, Durability
from siltstone.volumes.sqlite import connect

T = TypeVar("T")

TRANSACTIONS = (500, 20)
QUERIES = (10_000, 200)
COMMITS = (1_000, 20)
PAGES = (1_000_000, 2_000)
HYDRATED_MIB = (128, 1)
ROWS = 10_000
TRANSACTION_CPU_US = 300.0
OPEN_MS = 300.0
BYTES = Unit(text="B", better=MIB.better)
REQUESTS = Unit(text="requests", better=MIB.better)
SCHEMA = "create table t(id integer primary key, name text, more text); create index n on t(name)"
INSERT = "insert into t(name, more) values (?, ?)"


def run(workshop: Workshop) -> list[Figure]:
    """Measure transactions, queries, syncs, an opening and a fetch of all pages."""
    print("NOT MEASURED: Graft, Litestream: their extensions are not here", file=sys.stderr)
    return [
        *_transactions(workshop),
        *_queries(workshop),
        *_syncs(workshop),
        *_opening(workshop),
        *_hydration(workshop),
    ]


class _Counted(WrappedChunkStorage):
    """A place that counts requests and bytes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(NfsChunkStorage(folder))
        self.requests: Counter[str] = Counter()
        self.page_bytes = 0

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        self.requests[operation] += 1
        return super()._call(operation, name, action)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """Count what is read of bundles."""
        count = super().read_into(name, offset, buffer)
        self.page_bytes += count if "/bundles/" in name else 0
        return count

    def close(self) -> None:
        """Stay open: another client may follow."""


@contextmanager
def _client(
    place: Path, name: str, durability: Durability = Durability.PROCESS
) -> Iterator[tuple[VolumeClient, _Counted]]:
    storage = _Counted(place / "place")
    settings = ClientSettings(place="bench", durability=durability)
    environment = SystemEnvironment()
    with VolumeClient(place / name, settings, lambda: storage, environment) as client:
        yield client, storage


@contextmanager
def _databases(
    place: Path, durability: Durability
) -> Iterator[tuple[apsw.Connection, apsw.Connection]]:
    """One in a volume, and one of SQLite alone, in WAL mode."""
    plain = apsw.Connection(str(place / "plain.db"))
    plain.pragma("journal_mode", "wal")
    plain.pragma("synchronous", "full" if durability is Durability.POWER else "normal")
    with _client(place, "client", durability) as (client, _):
        ours = connect(client.create("v"))
        for each in (ours, plain):
            each.execute(SCHEMA)
        yield ours, plain
        ours.close()
    plain.close()


def _insert(database: apsw.Connection, total: int, spent: list[float]) -> float:
    """Transactions of one insert a second."""
    with Stopwatch() as watch:
        for number in range(total):
            database.execute(INSERT, (f"name {random.random()}", "more" * number))
    spent.append(watch.cpu_s / total * 1e6)
    return total / watch.seconds


def _transactions(workshop: Workshop) -> list[Figure]:
    total = workshop.pick(*TRANSACTIONS)
    figures = []
    for durability, peer, goal in (
        (Durability.POWER, "SQLite, WAL, FULL", 0.5),
        (Durability.PROCESS, "SQLite, WAL, NORMAL", None),
    ):
        spent: list[float] = []
        with workshop.place() as place, _databases(place, durability) as (ours, plain):
            rates = alternate(
                workshop.rounds,
                partial(_insert, ours, total, spent),
                partial(_insert, plain, total, []),
            )
        what = f"transaction of one insert with an index, durability {durability}"
        figures.append(
            Figure(what=what, peer=peer, unit=PER_SECOND, ours=rates[0], theirs=rates[1], goal=goal)
        )
        what = f"processor time of that, durability {durability}"
        figures.append(bounded(what, MICROSECONDS, spent, TRANSACTION_CPU_US))
    return figures


def _queries(workshop: Workshop) -> list[Figure]:
    total = workshop.pick(*QUERIES)
    with workshop.place() as place, _databases(place, Durability.PROCESS) as databases:
        rows = [(f"name {number}", "more" * 20) for number in range(ROWS)]
        for each in databases:
            with each:
                each.executemany(INSERT, rows)

        def query(database: apsw.Connection) -> float:
            def ask() -> None:
                for _ in range(total):
                    database.execute(
                        "select more from t where id = ?", (random.randrange(ROWS) + 1,)
                    ).fetchall()

            return total / seconds_of(ask)

        ours, theirs = alternate(workshop.rounds, *(partial(query, each) for each in databases))
    what = "point query, pages at hand"
    return [Figure(what=what, peer="SQLite", unit=PER_SECOND, ours=ours, theirs=theirs, goal=0.4)]


def _commit(volume: Volume, pages: dict[int, bytes]) -> None:
    with volume.writer() as writer:
        for index, page in pages.items():
            writer.write(index, page)
        writer.commit()


def _page(number: int) -> bytes:
    """Half of it compresses."""
    return random.Random(number).randbytes(2048).ljust(4096, b"\7")


def _syncs(workshop: Workshop) -> list[Figure]:
    total = workshop.pick(*COMMITS)
    with (
        workshop.place() as place,
        _client(place, "a") as (one, first),
        _client(place, "b") as (other, second),
    ):
        volume = one.create("v")
        _commit(volume, {1: _page(0)})
        volume.push()
        clone = other.clone("v", volume.log)
        distinct = {}
        for number in range(total):
            distinct[1 + number % 200] = _page(number)
            _commit(volume, {1 + number % 200: _page(number)})
        first.requests.clear()
        volume.push()
        pushed = float(first.requests.total())
        sizes = [each.length for each in first.list(f"volumes/{volume.log}/bundles/")]
        slabs = [sorted(distinct)[start : start + 64] for start in range(0, len(distinct), 64)]
        least = sum(
            len(zstandard.compress(b"".join(distinct[index] for index in slab))) for slab in slabs
        )
        clone.pull()
        for number in range(total):
            _commit(volume, {1 + number % 200: _page(number + 7)})
            volume.push()
        second.requests.clear()
        second.page_bytes = 0
        clone.pull()
        pulled, fetched = float(second.requests.total()), float(second.page_bytes)
        second.requests.clear()
        clone.pull()
        polled = float(second.requests.total())
    return [
        bounded(f"push of {total:,} commits", REQUESTS, [pushed], 2),
        Figure(
            what="bytes of that",
            peer="zstd of the distinct pages",
            unit=MIB,
            ours=[max(sizes) / 2**20],
            theirs=[least / 2**20],
            goal=0.98,
        ),
        bounded(f"pull of {total:,} commits", REQUESTS, [pulled], 34),
        bounded("bytes of pages that it fetched, and one", BYTES, [fetched + 1], 1),
        bounded("poll without news", REQUESTS, [polled], 1),
    ]


def _opening(workshop: Workshop) -> list[Figure]:
    total = workshop.pick(*PAGES)
    with workshop.place() as place:
        with _client(place, "client") as (client, _):
            volume = client.create("v")
            for begin in range(1, total + 1, 20_000):
                end = min(begin + 20_000, total + 1)
                page = b"x" * 4096
                _commit(volume, dict.fromkeys(range(begin, end), page))

        def open_and_read() -> None:
            with _client(place, "client") as (client, _), client.volume("v").reader() as reader:
                assert reader.read(total // 2)[:1] == b"x"

        times = [seconds_of(open_and_read) * 1e3 for _ in range(workshop.rounds)]
    return [bounded(f"open a client with {total:,} pages", MILLISECONDS, times, OPEN_MS)]


def _hydration(workshop: Workshop) -> list[Figure]:
    mib = workshop.pick(*HYDRATED_MIB)
    with workshop.place() as place, _client(place, "a") as (one, storage):
        volume = one.create("v")
        for begin in range(mib):
            _commit(volume, {begin * 256 + number + 1: _page(number) for number in range(256)})
        volume.push()
        names = [each.name for each in storage.list(f"volumes/{volume.log}/bundles/")]
        numbers = iter(range(100))

        def hydrate() -> float:
            with _client(place, f"clone-{next(numbers)}") as (client, _):
                clone = client.clone("v", volume.log)
                return mib / seconds_of(clone.hydrate)

        def read() -> float:
            def all_of_it() -> None:
                buffer = bytearray(2 << 20)
                for name in names:
                    offset = 0
                    while count := storage.read_into(name, offset, buffer):
                        offset += count

            return mib / seconds_of(all_of_it)

        ours, theirs = alternate(workshop.rounds, hydrate, read)
    return [
        Figure(
            what=f"hydrate {mib} MiB of pages",
            peer="reading its bundles",
            unit=MIB_PER_SECOND,
            ours=ours,
            theirs=theirs,
            goal=0.7,
        )
    ]
