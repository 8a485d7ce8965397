"""Four processes that append to one collection at the same time, and to one table of deltalake."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.collection_child import Children
from bench.collection_rows import NAME, SCHEMA, rows
from bench.figure import PER_SECOND, Figure
from bench.peers import optional
from bench.workshop import Workshop
from siltstone.collections.blocking import open_collections

PROCESSES = 4


@dataclass(frozen=True, slots=True)
class _Crowd:
    """What four processes did.

    Attributes:
        per_s: appends of all of them, each second until the last one ended.
        slowest: appends of the slowest one each second.
        fastest: the same of the fastest one.
    """

    per_s: float
    slowest: float
    fastest: float


def run(workshop: Workshop) -> list[Figure]:
    """Rates of all, and of the slowest beside the fastest."""
    delta = optional("deltalake")
    ours, theirs = [], []
    for _ in range(workshop.pick(3, 1)):
        with workshop.place() as place:
            file = workshop.store(place)
            with open_collections(file) as collections:
                collections.create(NAME, SCHEMA, key=["key"])
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
    if delta is None:
        return [fairness]
    rates = Figure(
        what=f"{PROCESSES} processes append 20 rows each time, appends",
        peer="deltalake, nothing synced",
        unit=PER_SECOND,
        ours=[crowd.per_s for crowd in ours],
        theirs=[crowd.per_s for crowd in theirs],
        goal=5,
    )
    return [rates, fairness]


def _crowd(kind: str, place: Path, count: int) -> _Crowd:
    with Children(PROCESSES, kind, place, count) as children:
        children.go()
        told = children.times()
    begin = min(times[0][0] for times in told)
    end = max(times[-1][1] for times in told)
    each = [len(times) / (times[-1][1] - times[0][0]) for times in told]
    return _Crowd(PROCESSES * count / (end - begin), min(each), max(each))
