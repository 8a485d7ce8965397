"""Appends to a collection in a table of the store, next to puts into a table of the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path

import siltstone
from bench.collection_rows import NAME, SCHEMA, rows
from bench.figure import PER_SECOND, Figure, alternate
from bench.workshop import Loop, Stopwatch, Workshop

FEW_ROWS = 20
VALUE = bytes(1_000)
"""About what such rows are in an entry."""

IN_FLIGHT = 100
GOAL_IN_FLIGHT = 5_000.0

SETTINGS = "\ncollections: {consensus: table}\n"


def run(workshop: Workshop) -> list[Figure]:
    """One append at a time beside one put at a time; and many in flight."""
    return [_one_at_a_time(workshop), *_in_flight(workshop)]


def _one_at_a_time(workshop: Workshop) -> Figure:
    total = workshop.pick(500, 10)
    keys = count()
    with workshop.place() as place, siltstone.open(workshop.store(place, SETTINGS)) as store:
        table = store.create_table("puts")
        with siltstone.open_collections(store) as collections:
            ours = collections.create(NAME, SCHEMA, key=["key"])

            def append() -> float:
                tables = [rows(FEW_ROWS) for _ in range(total)]
                return _per_s(total, lambda: [ours.append(one) for one in tables])

            def put() -> float:
                return _per_s(
                    total, lambda: [table.put(b"%d" % next(keys), VALUE) for _ in range(total)]
                )

            mine, theirs = alternate(workshop.rounds, append, put)
    return Figure(
        what=f"append {FEW_ROWS} rows to a collection in a table, one at a time",
        peer="put 1,000 B into a table, one at a time",
        unit=PER_SECOND,
        ours=mine,
        theirs=theirs,
        goal=0.6,
    )


def _in_flight(workshop: Workshop) -> list[Figure]:
    total = workshop.pick(5_000, 100)
    with workshop.place() as place, Loop() as loop:
        file = workshop.store(place, SETTINGS)
        mine = [loop(_rate(file, total)) for _ in range(workshop.rounds)]
    what = f"append {FEW_ROWS} rows to a collection in a table, {IN_FLIGHT} in flight"
    return [
        Figure(
            what=what,
            peer="the goal",
            unit=PER_SECOND,
            ours=mine,
            theirs=[GOAL_IN_FLIGHT] * len(mine),
            goal=1,
        )
    ]


async def _rate(file: Path, total: int) -> float:
    """Appends each second, in a collection that is new."""
    async with (
        await siltstone.open_async(file) as store,
        await siltstone.open_collections_async(store) as collections,
    ):
        if NAME in await collections.list():
            await collections.drop(NAME)
        ours = await collections.create(NAME, SCHEMA, key=["key"])
        tables = [rows(FEW_ROWS) for _ in range(total)]
        left = iter(tables)

        async def some() -> None:
            for one in left:
                await ours.append(one)

        works: list[Coroutine[None, None, None]] = [some() for _ in range(IN_FLIGHT)]
        with Stopwatch() as watch:
            await asyncio.gather(*works)
        return total / watch.seconds


def _per_s(total: int, work: Callable[[], object]) -> float:
    with Stopwatch() as watch:
        work()
    return total / watch.seconds
