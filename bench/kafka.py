"""The log ``kafka`` on a broker of this machine, next to kafka-python's producer and the file log.

The broker syncs before it answers, for both. The producer keeps as many records in flight as it
likes, except where each record is waited for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import siltstone
from bench.appends import events_rate
from bench.figure import MICROSECONDS, MILLISECONDS, PER_SECOND, Figure, alternate
from bench.kafka_place import KafkaPlace, PlainProducer, kafka_place
from bench.takeovers import takeovers
from bench.workshop import Loop, Stopwatch, Workshop, async_store, in_flight
from services.unavailable import UnavailableError
from siltstone import AsyncStore

RECORD_BYTES = 100
SIZES = {100: (60_000, 2_000), 1_000: (250_000, 5_000)}
"""In flight at a time: how many appends a full and a quick run make for one value."""
ALONE = (1_000, 50)
PEER_RECORDS = (100_000, 2_000)
LINGER_MS = 5
PEER = f"producer, linger {LINGER_MS} ms"
GOALS = {1_000: 2.5}
CPU_GOALS = {1_000: 0.77}
GROUP_COUNT = 1_000
GROUPS = (300, 10)
GROUPS_IN_FLIGHT = 8
GROUP_GOAL = 15.0
EVENTS = (1_000_000, 20_000)
TAKEOVER_LIMIT_MS = 5_000.0


def run(workshop: Workshop) -> list[Figure]:
    """Measure appends and what follows an owner's death; nothing if the broker is not available."""
    try:
        with workshop.place() as folder, kafka_place(folder) as place:
            return [
                *_appends(workshop, place),
                _events(workshop, place),
                *takeovers(workshop, place.store, TAKEOVER_LIMIT_MS),
            ]
    except UnavailableError as error:
        print(f"NOT MEASURED: {error}", file=sys.stderr, flush=True)
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rig:
    """The participants.

    Attributes:
        loop: runs both stores.
        ours: the store on Kafka.
        file: the store on the file log.
        many: the producer that batches.
        alone: the one that waits for nothing to batch.
    """

    workshop: Workshop
    loop: Loop
    ours: AsyncStore
    file: AsyncStore
    many: PlainProducer
    alone: PlainProducer


@contextmanager
def _rig(workshop: Workshop, place: KafkaPlace) -> Iterator[_Rig]:
    with ExitStack() as stack:
        enter = stack.enter_context
        loop = enter(Loop())
        yield _Rig(
            workshop=workshop,
            loop=loop,
            ours=enter(async_store(loop, place.store(enter(workshop.place())))),
            file=enter(async_store(loop, workshop.store(enter(workshop.place())))),
            many=enter(place.producer(LINGER_MS)),
            alone=enter(place.producer(0)),
        )


def _appends(workshop: Workshop, place: KafkaPlace) -> list[Figure]:
    with _rig(workshop, place) as rig:
        figures = _alone(rig)
        for width, sizes in SIZES.items():
            figures += _singles(rig, width, workshop.pick(*sizes))
        return [*figures, *_groups(rig)]


def _alone(rig: _Rig) -> list[Figure]:
    """One append at a time, each waited for."""
    record = os.urandom(RECORD_BYTES)
    total = rig.workshop.pick(*ALONE)
    segment = rig.loop(rig.ours.create("alone"))
    ours: list[float] = []
    theirs: list[float] = []

    async def append(taken_s: list[float]) -> None:
        for _ in range(total):
            start = perf_counter()
            await segment.append(record)
            taken_s.append(perf_counter() - start)

    def own() -> float:
        taken_s: list[float] = []
        rig.loop(append(taken_s))
        ours.append(median(taken_s) * 1e3)
        rig.loop(rig.ours.flush())
        return total / sum(taken_s)

    def peer() -> float:
        taken_s = []
        for _ in range(total):
            start = perf_counter()
            rig.alone.send_one(record)
            taken_s.append(perf_counter() - start)
        theirs.append(median(taken_s) * 1e3)
        return total / sum(taken_s)

    rates, peer_rates = alternate(rig.workshop.rounds, own, peer)
    name = "producer, linger 0, each waited for"
    what, within = f"append {RECORD_BYTES} B, 1 in flight", "… half of them within"
    return [
        Figure(what=what, peer=name, unit=PER_SECOND, ours=rates, theirs=peer_rates),
        Figure(what=within, peer=name, unit=MILLISECONDS, ours=ours, theirs=theirs),
    ]


def _singles(rig: _Rig, width: int, total: int) -> list[Figure]:
    record = os.urandom(RECORD_BYTES)
    cpu_us: dict[str, list[float]] = {"ours": [], "file": []}

    def appended(name: str, store: AsyncStore) -> Callable[[], float]:
        segment = rig.loop(store.create(f"singles-{width}"))

        def rate() -> float:
            with Stopwatch() as watch:
                rig.loop(in_flight(width, total, lambda _: segment.append(record)))
            cpu_us[name].append(watch.cpu_s / total * 1e6)
            rig.loop(store.flush())
            return total / watch.seconds

        return rate

    ours, file, theirs = alternate(
        rig.workshop.rounds,
        appended("ours", rig.ours),
        appended("file", rig.file),
        lambda: _peer_rate(rig, record),
    )
    what = f"append {RECORD_BYTES} B, {width:,} in flight"
    return [
        Figure(
            what=what, peer=PEER, unit=PER_SECOND, ours=ours, theirs=theirs, goal=GOALS.get(width)
        ),
        Figure(what=what, peer="file log", unit=PER_SECOND, ours=ours, theirs=file),
        Figure(
            what=f"… processor time of one append, {width:,} in flight",
            peer="file log",
            unit=MICROSECONDS,
            ours=cpu_us["ours"],
            theirs=cpu_us["file"],
            goal=CPU_GOALS.get(width),
        ),
    ]


def _groups(rig: _Rig) -> list[Figure]:
    records = [os.urandom(RECORD_BYTES) for _ in range(GROUP_COUNT)]
    repeats = rig.workshop.pick(*GROUPS)

    def appended(store: AsyncStore) -> Callable[[], float]:
        segment = rig.loop(store.create("groups"))

        def rate() -> float:
            with Stopwatch() as watch:
                rig.loop(
                    in_flight(GROUPS_IN_FLIGHT, repeats, lambda _: segment.append_many(records))
                )
            rig.loop(store.flush())
            return repeats * GROUP_COUNT / watch.seconds

        return rate

    ours, file, theirs = alternate(
        rig.workshop.rounds,
        appended(rig.ours),
        appended(rig.file),
        lambda: _peer_rate(rig, records[0]),
    )
    what = (
        f"append_many of {GROUP_COUNT:,} records of {RECORD_BYTES} B, records, "
        f"{GROUPS_IN_FLIGHT} in flight"
    )
    return [
        Figure(what=what, peer=PEER, unit=PER_SECOND, ours=ours, theirs=theirs, goal=GROUP_GOAL),
        Figure(what=what, peer="file log", unit=PER_SECOND, ours=ours, theirs=file),
    ]


def _events(workshop: Workshop, place: KafkaPlace) -> Figure:
    """A thread that writes events without waiting, until the last one is durable."""
    event = os.urandom(RECORD_BYTES)
    total = workshop.pick(*EVENTS)
    with (
        workshop.place() as folder,
        workshop.place() as other,
        siltstone.open(place.store(folder)) as store,
        siltstone.open(workshop.store(other)) as file,
    ):
        rates = (events_rate(one, event, total) for one in (store, file))
        ours, theirs = alternate(workshop.rounds, *rates)
    return Figure(
        what=f"buffered writer, {RECORD_BYTES} B, events",
        peer="file log",
        unit=PER_SECOND,
        ours=ours,
        theirs=theirs,
    )


def _peer_rate(rig: _Rig, record: bytes) -> float:
    total = rig.workshop.pick(*PEER_RECORDS)
    with Stopwatch() as watch:
        rig.many.send_all(record, total)
    return total / watch.seconds
