"""Appends of other sizes and to several segments, and whole lives of small segments."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

from bench.bare_pipeline import PlainFile
from bench.figure import MIB_PER_SECOND, PER_SECOND, Figure, alternate, bounded
from bench.workshop import Loop, Workshop, async_store, distinct, in_flight, seconds_of
from siltstone import AsyncStore

MIB_BYTES = 2**20
FLUSH_BYTES = 8 * MIB_BYTES
RECORD_BYTES = 10_000
RECORDS_IN_FLIGHT = 100
SEGMENTS = 16
SMALL_BYTES = 100
SMALL_AIM = 11_475.0
LIFE_AIM = 686.0
"""What Pravega's layer of segments does on a machine like those of these pages, each write synced:
this many small appends to 16 segments, and lives as below."""
WRITTEN_TWICE_GOAL = 0.8
LARGE_APPENDS = 200
LARGE_AIM = 753e6 / MIB_BYTES
LARGE_SHARE = 0.86
"""What it does with 1 MiB each, every byte written once, and how much of its disk that is."""
NEW_BLOCKS = "write, fdatasync 1 MiB: new blocks"
UNFLUSHED = "\nflush:\n  bytes: 1GiB\n  age: 1h\nback_pressure:\n  bytes: 1GiB\n"


def run(workshop: Workshop) -> list[Figure]:
    """Measure each against plain writes of the same bytes, or against a bound."""
    with (
        workshop.place() as place,
        Loop() as loop,
        async_store(loop, workshop.store(place)) as store,
        PlainFile(place / "log", overwrite=False) as log,
        PlainFile(place / "chunk", overwrite=False) as chunk,
    ):
        return [
            *_once(workshop, loop, log),
            *_large(workshop, loop, store, (log, chunk)),
            _flushed(workshop, loop, store, (log, chunk)),
            _several(workshop, loop, store),
            _lives(workshop, loop, store),
        ]


def _once(workshop: Workshop, loop: Loop, log: PlainFile) -> list[Figure]:
    """One append of 1 MiB after the other, each durable, and flushed after the clock stopped."""
    with workshop.place() as place, async_store(loop, workshop.store(place, UNFLUSHED)) as store:
        ours, write_all = _large_ways(workshop, loop, store, "once", log)
        values, plain = alternate(workshop.rounds, ours, write_all)
        ours, write_all = _large_ways(workshop, loop, store, "made", log, made_meanwhile=True)
        made, plain_made = alternate(workshop.rounds, ours, write_all)
    return [
        *_large_figures("flushed later", values, ((NEW_BLOCKS, plain, LARGE_SHARE),)),
        *_large_figures("flushed later, made meanwhile", made, ((NEW_BLOCKS, plain_made, None),)),
    ]


def _large(
    workshop: Workshop, loop: Loop, store: AsyncStore, files: tuple[PlainFile, PlainFile]
) -> list[Figure]:
    """One append of 1 MiB after the other, each durable, while earlier appends are flushed."""
    log, chunk = files
    ours, write_all = _large_ways(workshop, loop, store, "large", log)
    make, total = distinct(MIB_BYTES), workshop.pick(LARGE_APPENDS, 10)

    def beside_a_flush() -> float:
        """What the disk leaves to a log while the same bytes go to chunks, by two threads."""
        is_over = threading.Event()
        buffers = [make(number) for number in range(FLUSH_BYTES // MIB_BYTES)]

        def flush() -> None:
            for _ in range(0, total, len(buffers)):
                if is_over.is_set():
                    return
                chunk.write(buffers)

        thread = threading.Thread(target=flush)
        thread.start()
        try:
            return write_all()
        finally:
            is_over.set()
            thread.join()

    values, plain, both = alternate(workshop.rounds, ours, write_all, beside_a_flush)
    peers = (
        (NEW_BLOCKS, plain, None),
        ("the same, while a thread writes as much in 8 MiB", both, None),
    )
    return _large_figures("flushed meanwhile", values, peers)


def _large_ways(
    workshop: Workshop,
    loop: Loop,
    store: AsyncStore,
    name: str,
    log: PlainFile,
    *,
    made_meanwhile: bool = False,
) -> tuple[Callable[[], float], Callable[[], float]]:
    """The rates of appends of 1 MiB, and of as many plain writes.

    The bytes exist in advance, unless they are made meanwhile. A store keeps what is not flushed,
    so its writer makes each 1 MiB in new memory, which costs a virtual machine half as much as the
    append; a plain writer uses the same memory again and again.
    """
    segment = loop(store.create(name))
    total = workshop.pick(LARGE_APPENDS, 10)
    make: Callable[[int], bytes] = distinct(MIB_BYTES)
    if not made_meanwhile:
        make = [make(number) for number in range(total)].__getitem__

    def ours() -> float:
        seconds = seconds_of(
            lambda: loop(in_flight(1, total, lambda number: segment.append(make(number))))
        )
        loop(store.flush())
        return total / seconds

    def write_all() -> None:
        for number in range(total):
            log.write([make(number)])

    return ours, lambda: total / seconds_of(write_all)


def _large_figures(
    how: str,
    values: Sequence[float],
    peers: Sequence[tuple[str, Sequence[float], float | None]],
) -> list[Figure]:
    """Appends of 1 MiB against peers, and against the bound."""
    return [
        Figure(
            what=f"append 1 MiB, 1 in flight, {how}",
            peer=peer,
            unit=MIB_PER_SECOND,
            ours=values,
            theirs=theirs,
            goal=goal,
        )
        for peer, theirs, goal in (*peers, ("bound", [LARGE_AIM] * len(values), 1))
    ]


def _flushed(
    workshop: Workshop, loop: Loop, store: AsyncStore, files: tuple[PlainFile, PlainFile]
) -> Figure:
    """Appends of 10 kB up to the end of their flush, which writes them again."""
    segment = loop(store.create("records"))
    make = distinct(RECORD_BYTES)
    total = workshop.pick(10_000, 200)

    async def append_all() -> None:
        await in_flight(RECORDS_IN_FLIGHT, total, lambda number: segment.append(make(number)))
        await store.flush()

    def write_all() -> None:
        for first in range(0, total, RECORDS_IN_FLIGHT):
            buffers = [make(first + number) for number in range(RECORDS_IN_FLIGHT)]
            for file in files:
                file.write(buffers)

    mib = total * RECORD_BYTES / MIB_BYTES
    ours, theirs = alternate(
        workshop.rounds,
        lambda: mib / seconds_of(lambda: loop(append_all())),
        lambda: mib / seconds_of(write_all),
    )
    return Figure(
        what=f"append {RECORD_BYTES:,} B, {RECORDS_IN_FLIGHT} in flight, and flush {mib:,.0f} MiB",
        peer=f"write and fdatasync {RECORDS_IN_FLIGHT} of them, twice: new blocks",
        unit=MIB_PER_SECOND,
        ours=ours,
        theirs=theirs,
        goal=WRITTEN_TWICE_GOAL,
    )


def _several(workshop: Workshop, loop: Loop, store: AsyncStore) -> Figure:
    """Small appends to several segments at a time, each segment waiting for its own append."""
    segments = [loop(store.create(f"several/{number}")) for number in range(SEGMENTS)]
    record = os.urandom(SMALL_BYTES)
    total = workshop.pick(40_000, 800)
    rates = _rates(
        workshop,
        loop,
        store,
        total,
        lambda: in_flight(
            SEGMENTS, total, lambda number: segments[number % SEGMENTS].append(record)
        ),
    )
    return bounded(
        f"append {SMALL_BYTES} B to {SEGMENTS} segments, {SEGMENTS} in flight",
        PER_SECOND,
        rates,
        SMALL_AIM,
    )


def _lives(workshop: Workshop, loop: Loop, store: AsyncStore) -> Figure:
    """Segments that are created, written, sealed and joined to another, one after the other."""
    target = loop(store.create("joined"))
    numbers = count()
    data = os.urandom(RECORD_BYTES)
    total = workshop.pick(1_500, 30)

    async def live(_: int) -> None:
        source = await store.create(f"part/{next(numbers):08}")
        await source.append(data)
        await source.seal()
        await target.concat(source)

    rates = _rates(workshop, loop, store, total, lambda: in_flight(1, total, live))
    return bounded(
        f"create, append {RECORD_BYTES:,} B, seal and concat, one life at a time",
        PER_SECOND,
        rates,
        LIFE_AIM,
    )


def _rates(
    workshop: Workshop,
    loop: Loop,
    store: AsyncStore,
    total: int,
    work: Callable[[], Coroutine[Any, Any, None]],
) -> list[float]:
    rates = []
    for _ in range(workshop.rounds):
        rates.append(total / seconds_of(lambda: loop(work())))
        loop(store.flush())
    return rates
