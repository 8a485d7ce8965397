"""Durable appends of small records."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import siltstone
from bench.bare_pipeline import BarePipeline, PlainFile
from bench.figure import MICROSECONDS, PER_SECOND, Figure, alternate, bounded
from bench.workshop import Loop, Stopwatch, Workshop, async_store, in_flight, seconds_of
from siltstone import AsyncStore

RECORD_BYTES = 100
GROUP_COUNT = 1_000
"""Records of one ``append_many``."""

SIZES = {1: (1_500, 100), 100: (60_000, 2_000), 1_000: (250_000, 5_000)}
"""In flight at a time: how many appends a full and a quick run make for one value."""

GOALS = {1: 0.85, 1_000: 0.6}
RATES_AIM = {1_000: 200_000.0}
GROUP_GOAL = 0.5
GROUPS_IN_FLIGHT = 8
RECORDS_AIM = 1_500_000.0
EVENTS_AIM = 850_000.0
EVENTS_A_WRITE = 4 * 2**20 // RECORD_BYTES


def run(workshop: Workshop) -> list[Figure]:
    """Measure single appends at several depths, and groups of them."""
    with (
        workshop.place() as place,
        Loop() as loop,
        async_store(loop, workshop.store(place)) as store,
        PlainFile(place / "over", overwrite=True) as over,
        PlainFile(place / "fresh", overwrite=False) as fresh,
        BarePipeline(over, loop.loop) as bare,
    ):
        figures = []
        for width, (full, quick) in SIZES.items():
            figures += _singles(workshop, loop, store, bare, width, workshop.pick(full, quick))
        figures += _groups(workshop, loop, store, fresh, over)
        return [*figures, *_events(workshop, fresh)]


def _singles(
    workshop: Workshop,
    loop: Loop,
    store: AsyncStore,
    bare: BarePipeline,
    width: int,
    total: int,
) -> list[Figure]:
    record = os.urandom(RECORD_BYTES)
    segment = loop(store.create(f"singles-{width}"))
    cpu_us: tuple[list[float], list[float]] = ([], [])

    def measured(append: Callable[[bytes], Awaitable[int]], costs: list[float]) -> float:
        with Stopwatch() as watch:
            loop(in_flight(width, total, lambda _: append(record)))
        costs.append(watch.cpu_s / total * 1e6)
        # Flushes in the background meanwhile count; flushes that would disturb the peer do not.
        loop(store.flush())
        return total / watch.seconds

    ours, theirs = alternate(
        workshop.rounds,
        lambda: measured(segment.append, cpu_us[0]),
        lambda: measured(bare.append, cpu_us[1]),
    )
    what = f"append {RECORD_BYTES} B, {width:,} in flight"
    peer = "bare pipeline"
    bounds = [
        bounded(what, PER_SECOND, ours, aim) for aim in (RATES_AIM.get(width),) if aim is not None
    ]
    return [
        Figure(
            what=what, peer=peer, unit=PER_SECOND, ours=ours, theirs=theirs, goal=GOALS.get(width)
        ),
        *bounds,
        Figure(
            what=f"… processor time of one append, {width:,} in flight",
            peer=peer,
            unit=MICROSECONDS,
            ours=cpu_us[0],
            theirs=cpu_us[1],
        ),
    ]


def _groups(
    workshop: Workshop, loop: Loop, store: AsyncStore, fresh: PlainFile, over: PlainFile
) -> list[Figure]:
    records = [os.urandom(RECORD_BYTES) for _ in range(GROUP_COUNT)]
    repeats = workshop.pick(500, 20)
    segment = loop(store.create("groups"))

    async def append(width: int) -> None:
        await in_flight(width, repeats, lambda _: segment.append_many(records))

    def write(file: PlainFile) -> None:
        for _ in range(repeats):
            file.write([b"".join(records)])

    def rate(call: Callable[[], object]) -> float:
        seconds = seconds_of(call)
        loop(store.flush())
        return repeats * GROUP_COUNT / seconds

    ours, several, theirs_fresh, theirs_over = alternate(
        workshop.rounds,
        lambda: rate(lambda: loop(append(1))),
        lambda: rate(lambda: loop(append(GROUPS_IN_FLIGHT))),
        lambda: rate(lambda: write(fresh)),
        lambda: rate(lambda: write(over)),
    )
    peers = (("new blocks", theirs_fresh, GROUP_GOAL), ("blocks written before", theirs_over, None))
    what = f"append_many of {GROUP_COUNT:,} records of {RECORD_BYTES} B, records"
    return [bounded(f"{what}, {GROUPS_IN_FLIGHT} in flight", PER_SECOND, several, RECORDS_AIM)] + [
        Figure(
            what=f"{what}, 1 in flight",
            peer=f"join, write, fdatasync: {peer}",
            unit=PER_SECOND,
            ours=ours,
            theirs=theirs,
            goal=goal,
        )
        for peer, theirs, goal in peers
    ]


def events_rate(store: siltstone.Store, event: bytes, total: int) -> Callable[[], float]:
    """Measures how many events per second a thread writes without waiting for each."""
    segment = store.create("events")

    def rate() -> float:
        with Stopwatch() as watch, segment.buffered() as writer:
            for _ in range(total):
                writer.write(event)
            writer.flush()
        store.flush()
        return total / watch.seconds

    return rate


def _events(workshop: Workshop, fresh: PlainFile) -> list[Figure]:
    """A thread that writes events without waiting, until the last one is durable."""
    event = os.urandom(RECORD_BYTES)
    total = workshop.pick(2_000_000, 20_000)
    with workshop.place() as place, siltstone.open(workshop.store(place)) as store:
        rate = events_rate(store, event, total)

        def plain() -> float:
            with Stopwatch() as watch:
                for start in range(0, total, EVENTS_A_WRITE):
                    batch = [event for _ in range(start, min(start + EVENTS_A_WRITE, total))]
                    fresh.write([b"".join(batch)])
            return total / watch.seconds

        ours, theirs = alternate(workshop.rounds, rate, plain)
    what = f"buffered writer, {RECORD_BYTES} B, events"
    return [
        bounded(what, PER_SECOND, ours, EVENTS_AIM),
        Figure(
            what=what,
            peer="collect, join, write, fdatasync each 4 MiB: new blocks",
            unit=PER_SECOND,
            ours=ours,
            theirs=theirs,
        ),
    ]
