"""Those who wait for what is appended to a collection, and who open one of very many parts."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from bench.collection_child import Children
from bench.collection_rows import NAME, SCHEMA, rows
from bench.figure import MILLISECONDS, Figure
from bench.workshop import Workshop
from siltstone.collections.blocking import open_collections
from siltstone.collections.place import CollectionSettings

FEW_ROWS = 20
PARTS = 10_000
OPEN_MS = 60.0
"""Processor time that opening a collection of so many parts should take at most."""
BETWEEN_MS = 100.0
"""After an append ended in one process, a listener in another one should have it this soon."""


def run(workshop: Workshop) -> list[Figure]:
    """Listeners, then openings."""
    return [_same_process(workshop), _other_process(workshop), _openings(workshop)]


def _same_process(workshop: Workshop) -> Figure:
    """From the beginning of an append to a listener, in commits."""
    total = workshop.pick(200, 10)
    seen, committed = [], []
    with workshop.place() as place, open_collections(workshop.store(place)) as collections:
        ours = collections.create(NAME, SCHEMA, key=["key"])
        arrivals: list[float] = []
        begun = [0.0] * total

        def listen() -> None:
            with ours.listen(0) as changes:
                ready.set()
                for _ in range(total):
                    next(changes)
                    arrivals.append(time.perf_counter())
                    arrived.set()

        ready, arrived = threading.Event(), threading.Event()
        thread = threading.Thread(target=listen)
        thread.start()
        ready.wait()
        for number in range(total):
            table = rows(FEW_ROWS)
            begun[number] = time.perf_counter()
            ours.append(table)
            committed.append((time.perf_counter() - begun[number]) * 1e3)
            arrived.wait()
            arrived.clear()
        thread.join()
        seen = [(at - since) * 1e3 for at, since in zip(arrivals, begun, strict=True)]
    return Figure(
        what="append to a listener in the same process, median",
        peer="the append alone",
        unit=MILLISECONDS,
        ours=[_share(seen, 0.5)],
        theirs=[_share(committed, 0.5)],
        goal=1 / 1.5,
    )


def _other_process(workshop: Workshop) -> Figure:
    """From the end of an append to a listener in another process."""
    total = workshop.pick(100, 5)
    with workshop.place() as place:
        file = workshop.store(place)
        with open_collections(file) as collections:
            ours = collections.create(NAME, SCHEMA, key=["key"])
            children = Children(1, "collection", file, total, pause_s=0.2)
            with children, ours.listen() as changes:
                children.go()
                arrivals: list[float] = []
                while len(arrivals) < total:
                    found = next(changes)
                    arrivals += [time.time()] * (len(found.updates) // FEW_ROWS)
                (told,) = children.told()
    late_ms = [(at - end) * 1e3 for at, (_, end) in zip(arrivals, told.times, strict=True)]
    return Figure(
        what="append to a listener in another process, 95th percentile",
        peer="the goal",
        unit=MILLISECONDS,
        ours=[_share(late_ms, 0.95)],
        theirs=[BETWEEN_MS],
        goal=1,
    )


def _openings(workshop: Workshop) -> Figure:
    """Processor time from nothing to a collection of very many parts, in this process."""
    total = workshop.pick(PARTS, 20)
    with workshop.place() as place:
        file = workshop.store(place)
        settings = CollectionSettings(part_bytes=1, compacts=False)  # a row each
        with open_collections(file, settings=settings) as collections:
            ours = collections.create(NAME, SCHEMA, key=["key"])
            while ours.info().parts < total:
                ours.append(rows(min(1_000, total)))
        spent = [_opening_ms(file, total) for _ in range(workshop.rounds)]
    return Figure(
        what=f"open a collection of {total:,} parts, processor time",
        peer="the goal",
        unit=MILLISECONDS,
        ours=spent,
        theirs=[OPEN_MS] * len(spent),
        goal=1,
    )


def _opening_ms(file: Path, parts: int) -> float:
    with open_collections(file) as collections:
        collections.list()  # what every opening of any collection needs
        begun = time.process_time()
        ours = collections.collection(NAME)
        spent_ms = (time.process_time() - begun) * 1e3
        assert ours.info().parts >= parts
    return spent_ms


def _share(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
