"""Four processes that append to one collection at the same time, and to one table of deltalake."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.collection_child import Children
from bench.collection_rows import NAME, SCHEMA, rows
from bench.figure import MILLISECONDS, PER_SECOND, Figure
from bench.peers import optional
from bench.workshop import Workshop
from siltstone.collections.blocking import open_collections

PROCESSES = 4


@dataclass(frozen=True, slots=True)
class _Crowd:
    """What some processes did.

    Attributes:
        per_s: appends of all of them, each second until the last one ended.
        slowest: appends of the slowest one each second.
        fastest: the same of the fastest one.
        processor_ms: of each append, in all of them.
    """

    per_s: float
    slowest: float
    fastest: float
    processor_ms: float


def run(workshop: Workshop) -> list[Figure]:
    """Rates of all, of the slowest beside the fastest, and what an append costs among others."""
    delta = optional("deltalake")
    ours, alone, theirs = [], [], []
    for _ in range(workshop.pick(3, 1)):
        with workshop.place() as place:
            file = workshop.store(place)
            with open_collections(file) as collections:
                collections.create(NAME, SCHEMA, key=["key"])
            alone.append(_crowd("collection", file, workshop.pick(200, 5), processes=1))
            ours.append(_crowd("collection", file, workshop.pick(200, 5)))
            if delta is not None:
                folder = place / "delta"
                delta.write_deltalake(str(folder), rows(1))
                theirs.append(_crowd("delta", folder, workshop.pick(20, 2)))
    fairness = Figure(
        what=f"the slowest of {PROCESSES} processes that append 20 rows, appends",
        peer="the fastest",
        unit=PER_SECOND,
        ours=[crowd.slowest for crowd in ours],
        theirs=[crowd.fastest for crowd in ours],
        goal=0.3,
    )
    cost = Figure(
        what=f"each append of {PROCESSES} processes, of 20 rows, processor time",
        peer="of one process",
        unit=MILLISECONDS,
        ours=[crowd.processor_ms for crowd in ours],
        theirs=[crowd.processor_ms for crowd in alone],
        goal=None,
    )
    if delta is None:
        return [fairness, cost]
    rates = Figure(
        what=f"{PROCESSES} processes append 20 rows each time, appends",
        peer="deltalake, nothing synced",
        unit=PER_SECOND,
        ours=[crowd.per_s for crowd in ours],
        theirs=[crowd.per_s for crowd in theirs],
        goal=5,
    )
    return [rates, fairness, cost]


def _crowd(kind: str, place: Path, count: int, processes: int = PROCESSES) -> _Crowd:
    with Children(processes, kind, place, count) as children:
        children.go()
        told = children.told()
    begin = min(child.times[0][0] for child in told)
    end = max(child.times[-1][1] for child in told)
    each = [count / (child.times[-1][1] - child.times[0][0]) for child in told]
    total = processes * count
    return _Crowd(
        per_s=total / (end - begin),
        slowest=min(each),
        fastest=max(each),
        processor_ms=sum(child.processor_s for child in told) / total * 1e3,
    )
