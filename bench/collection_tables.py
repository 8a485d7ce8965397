"""Appends to a collection in a table of the store, next to puts into a table of the same store."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import siltstone
from bench.collection_rows import NAME, SCHEMA, Append, append_ms, rows
from bench.figure import MILLISECONDS, PER_SECOND, Figure, alternate
from bench.workshop import Loop, Stopwatch, Workshop

FEW_ROWS = 20
VALUE = bytes(1_000)
"""About what such rows are in an entry."""

HEAD, ENTRY = bytes(8), bytes(1_400)
"""What the update of an append puts: the number of the newest entry, and an entry of about this."""

IN_FLIGHT = 100
GOAL_IN_FLIGHT = 5_000.0

SETTINGS = "\ncollections: {consensus: table}\n"

ONE = f"append {FEW_ROWS} rows to a collection in a table, one at a time"
MANY = f"append {FEW_ROWS} rows to a collection in a table, {IN_FLIGHT} in flight"
PUT = "put 1,000 B into a table, one at a time"
UPDATE = "its bare update of a table: an entry and a head, on a condition"
FORM = "its rows alone: sorted and serialized by pyarrow"


def run(workshop: Workshop) -> list[Figure]:
    """One append at a time beside one put at a time; and many in flight."""
    return [*_one_at_a_time(workshop), *_in_flight(workshop)]


def _one_at_a_time(workshop: Workshop) -> list[Figure]:
    """An append next to a put, and to the two things that it cannot do without."""
    total = workshop.pick(500, 10)
    keys = count()
    with workshop.place() as place, siltstone.open(workshop.store(place, SETTINGS)) as store:
        table = store.create_table("puts")
        version = table.put(b"head", HEAD)
        with siltstone.open_collections(store) as collections:
            ours = collections.create(NAME, SCHEMA, key=["key"])

            def update() -> None:
                nonlocal version
                key = b"%d" % next(keys)
                version = table.update({b"head": HEAD, key: ENTRY}, expected={b"head": version})

            ways: dict[str, Append] = {
                ONE: ours.append,
                PUT: lambda _: table.put(b"%d" % next(keys), VALUE),
                UPDATE: lambda _: update(),
                FORM: _form,
            }
            cpu: dict[str, list[float]] = {name: [] for name in ways}
            measures = [
                partial(append_ms, way, FEW_ROWS, total, cpu[name]) for name, way in ways.items()
            ]
            taken_ms = alternate(workshop.rounds, *measures)
            rates = {
                name: [1e3 / one for one in each] for name, each in zip(ways, taken_ms, strict=True)
            }

    def spent(peer: str) -> Figure:
        what = f"… processor time of each {ONE}"
        return Figure(what=what, peer=peer, unit=MILLISECONDS, ours=cpu[ONE], theirs=cpu[peer])

    def rate(peer: str, goal: float | None) -> Figure:
        return Figure(
            what=ONE, peer=peer, unit=PER_SECOND, ours=rates[ONE], theirs=rates[peer], goal=goal
        )

    return [rate(PUT, 0.6), rate(UPDATE, None), spent(PUT), spent(UPDATE), spent(FORM)]


def _form(table: pa.Table) -> pa.Buffer:
    """What an entry keeps of few rows, made by hand and without a check."""
    (batch,) = table.to_batches()
    return batch.take(pc.sort_indices(batch.column("key"))).serialize()


def _in_flight(workshop: Workshop) -> list[Figure]:
    """Many appends at a time; and their processor time, of which only so much is a second."""
    total = workshop.pick(5_000, 100)
    with workshop.place() as place, Loop() as loop:
        file = workshop.store(place, SETTINGS)
        mine = [loop(_rate(file, total)) for _ in range(workshop.rounds)]
    rates, cpu_ms = ([one[index] for one in mine] for index in range(2))
    goals, goals_ms = [GOAL_IN_FLIGHT] * len(mine), [1e3 / GOAL_IN_FLIGHT] * len(mine)
    return [
        Figure(what=MANY, peer="the goal", unit=PER_SECOND, ours=rates, theirs=goals, goal=1),
        Figure(
            what=f"… processor time of each {MANY}",
            peer="the goal, on one processor",
            unit=MILLISECONDS,
            ours=cpu_ms,
            theirs=goals_ms,
        ),
    ]


async def _rate(file: Path, total: int) -> tuple[float, float]:
    """Appends each second in a collection that is new, and milliseconds of the processor of one."""
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
        return total / watch.seconds, watch.cpu_s / total * 1e3
