"""Collections of rows beside table formats on files, and beside the same bytes written by hand.

deltalake and pyiceberg are compared if they are installed (``make peers``). deltalake syncs
nothing, so it is compared as it is, and with its two files of each append synced afterwards.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import collection_changes, collection_crowds, collection_readers, collection_tables
from bench.collection_changes import objects_of
from bench.collection_rows import NAME, SCHEMA, Append, append_ms, rows
from bench.figure import MILLISECONDS, PER_SECOND, Figure, Unit, alternate
from bench.peers import optional
from bench.workshop import Stopwatch, Workshop
from siltstone.collections.blocking import Collection, open_collections
from siltstone.core.constants import Buffer
from siltstone.core.storage.optional_verbs import create_whole
from siltstone.store.store_assembly import storage_of

ROWS = 1_000
FEW_ROWS = 20
BULK_ROWS = 10_000_000
RUNS, RUN_ROWS = 8, 500_000
EARLY, LATE = 100, 10_000
WINDOW = 100


def run(workshop: Workshop) -> list[Figure]:
    """Appends, reads and merges; then those who wait for news, and several processes."""
    return [
        *_appends(workshop),
        *_many_appends(workshop),
        *_late_appends(workshop),
        *_bulk_reads(workshop),
        *_compactions(workshop),
        *collection_changes.run(workshop),
        *collection_readers.run(workshop),
        *collection_crowds.run(workshop),
        *collection_tables.run(workshop),
    ]


# --- appends --------------------------------------------------------------------------------------


def _appends(workshop: Workshop) -> list[Figure]:
    """One append of a thousand rows, durable."""
    total = workshop.pick(30, 3)
    delta, iceberg = optional("deltalake"), optional("pyiceberg")
    with workshop.place() as place, _collection(workshop, place) as ours:
        peers: dict[str, Append] = {"raw: a part and an entry by the binding": _raw(place)}
        if delta is not None:
            peers["deltalake, its files synced"] = _delta(delta, place / "synced", synced=True)
            peers["deltalake, nothing synced"] = _delta(delta, place / "delta", synced=False)
        if iceberg is not None:
            peers["pyiceberg, sqlite, nothing synced"] = _iceberg(place / "iceberg")
        cpu: dict[str, list[float]] = {name: [] for name in ("ours", *peers)}
        measures = {
            name: partial(append_ms, append, ROWS, total, cpu[name])
            for name, append in {"ours": ours.append, **peers}.items()
        }
        seconds = dict(zip(measures, alternate(workshop.rounds, *measures.values()), strict=True))
    goals = {"raw": (0.6, None), "deltalake, its": (1.0, 2.0), "pyiceberg": (10.0, None)}
    what = f"append {ROWS:,} rows"
    figures = []
    for name in peers:
        wall, processor = next(
            (both for begin, both in goals.items() if name.startswith(begin)), (None, None)
        )
        figures += [
            _figure(what, name, seconds["ours"], seconds[name], wall),
            _figure(f"… processor time of {what}", name, cpu["ours"], cpu[name], processor),
        ]
    return figures


def _many_appends(workshop: Workshop) -> list[Figure]:
    """Many appends of few rows, by one handle; then a new one opens and reads it all."""
    total = workshop.pick(1_000, 20)
    delta = optional("deltalake")
    with workshop.place() as place:
        file = workshop.store(place)
        with open_collections(file) as collections:
            ours = collections.create(NAME, SCHEMA, key=["key"])
            append_ms = _appends_ms(ours.append, total)
        read_ms = _processor_ms(lambda: _opened_and_read(file))
        bare_ms = _creates_ms(place, total)
        if delta is None:
            return []
        folder = place / "delta"
        append = _delta(delta, folder, synced=False)
        their_append_ms = _appends_ms(append, total)
        their_read_ms = _processor_ms(lambda: delta.DeltaTable(str(folder)).to_pyarrow_table())
    what = f"of {total:,} appends of {FEW_ROWS} rows, processor time"
    return [
        _figure(f"each {what}", "deltalake, nothing synced", [append_ms], [their_append_ms], 20),
        _figure(
            f"each {what}", "an entry by the binding: create and stat", [append_ms], [bare_ms], None
        ),
        _figure(
            f"open and read after them, processor time of {total:,} appends of {FEW_ROWS} rows",
            "deltalake",
            [read_ms],
            [their_read_ms],
            20,
        ),
    ]


def _late_appends(workshop: Workshop) -> list[Figure]:
    """Whether an append gets dearer with those before it."""
    late = workshop.pick(LATE, 300)
    with workshop.place() as place, _collection(workshop, place) as ours:
        _appends_ms(ours.append, EARLY)
        early = _appends_ms(ours.append, WINDOW)
        _appends_ms(ours.append, late - EARLY - WINDOW)
        after = _appends_ms(ours.append, WINDOW)
    what = f"append number {late:,} of {FEW_ROWS} rows, processor time"
    return [_figure(what, f"append number {EARLY}", [after], [early], 1 / 1.2)]


# --- reads and merges -----------------------------------------------------------------------------


def _bulk_reads(workshop: Workshop) -> list[Figure]:
    """All rows to Arrow, next to pyarrow on the same objects."""
    total = workshop.pick(BULK_ROWS, 10_000)
    with workshop.place() as place, _collection(workshop, place) as ours:
        for start in range(0, total, 1_000_000):
            ours.append(rows(min(1_000_000, total - start), start))
        ours.compact()
        parts = objects_of(place, ours)

        def read() -> float:
            with Stopwatch() as watch:
                assert ours.snapshot().to_arrow().num_rows == total
            return total / watch.seconds

        def by_hand() -> float:
            with Stopwatch() as watch:
                assert sum(pq.read_table(part).num_rows for part in parts) == total
            return total / watch.seconds

        mine, theirs = alternate(workshop.rounds, read, by_hand)
    what = f"{total:,} rows to Arrow, rows"
    return [_figure(what, "pyarrow on the same Parquet", mine, theirs, 0.8, PER_SECOND)]


def _compactions(workshop: Workshop) -> list[Figure]:
    """Eight runs into one, next to reading, sorting and writing them by hand."""
    run_rows = workshop.pick(RUN_ROWS, 2_000)
    mine, theirs = [], []
    for _ in range(workshop.pick(3, 1)):
        with workshop.place() as place, _collection(workshop, place) as ours:
            for _ in range(RUNS):
                ours.append(rows(run_rows))
            parts = objects_of(place, ours)
            with Stopwatch() as watch:
                whole = pa.concat_tables([pq.read_table(part) for part in parts])
                ordered = whole.sort_by("key")
                pq.write_table(ordered, place / "merged.parquet", compression="zstd")
                _sync(place / "merged.parquet")
            theirs.append(RUNS * run_rows / watch.seconds)
            with Stopwatch() as watch:
                ours.compact()
            mine.append(RUNS * run_rows / watch.seconds)
    what = f"compact {RUNS} runs of {run_rows:,} rows, rows"
    return [_figure(what, "read, sort and write by hand", mine, theirs, 0.7, PER_SECOND)]


# --- those who append -----------------------------------------------------------------------------


@contextmanager
def _collection(workshop: Workshop, place: Path) -> Iterator[Collection]:
    with open_collections(workshop.store(place)) as collections:
        yield collections.create(NAME, SCHEMA, key=["key"])


def _raw(place: Path) -> Append:
    """The same bytes without any meaning: a Parquet object and a small one, both durable."""
    storage = storage_of(place / "store")
    numbers = count()

    def append(table: pa.Table) -> None:
        number = next(numbers)
        sink = pa.BufferOutputStream()
        pq.write_table(table.sort_by("key"), sink, compression="zstd", compression_level=1)
        part: Buffer = memoryview(sink.getvalue())
        storage.create(f"raw/parts/{number:08}", [part])
        storage.create(f"raw/entries/{number:08}", [bytes(500)])

    return append


def _delta(delta: ModuleType, folder: Path, *, synced: bool) -> Append:
    folder.mkdir()
    known: set[Path] = set()

    def append(table: pa.Table) -> None:
        delta.write_deltalake(str(folder), table, mode="append")
        if synced:
            new = {path for path in folder.rglob("*") if path.is_file()} - known
            for path in new:
                _sync(path)
            for parent in {path.parent for path in new}:
                _sync(parent)
            known.update(new)

    return append


def _iceberg(folder: Path) -> Append:
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir()
    catalog = SqlCatalog(
        "bench", uri=f"sqlite:///{folder}/catalog.sqlite", warehouse=f"file://{folder}"
    )
    catalog.create_namespace("bench")
    table: Any = catalog.create_table("bench.rows", SCHEMA)
    return lambda some: table.append(some)


# --- tools ----------------------------------------------------------------------------------------


def _opened_and_read(file: Path) -> None:
    with open_collections(file) as collections:
        collections.collection(NAME).snapshot().to_arrow()


def _appends_ms(append: Append, times: int) -> float:
    """Processor time of each of some appends of few rows, milliseconds."""
    tables = [rows(FEW_ROWS) for _ in range(times)]

    def all_of_them() -> None:
        for table in tables:
            append(table)

    return _processor_ms(all_of_them) / times


def _creates_ms(place: Path, times: int) -> float:
    """Processor time of what each append asks of long-term storage, milliseconds."""
    storage = storage_of(place / "store")

    def all_of_them() -> None:
        for number in range(times):
            name = f"bare/{number:08}"
            create_whole(storage, name, [bytes(1_500)])
            storage.stat(name)

    return _processor_ms(all_of_them) / times


def _processor_ms(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return (time.process_time() - begun) * 1e3


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _figure(
    what: str,
    peer: str,
    ours: list[float],
    theirs: list[float],
    goal: float | None,
    unit: Unit = MILLISECONDS,
) -> Figure:
    return Figure(what=what, peer=peer, unit=unit, ours=ours, theirs=theirs, goal=goal)
