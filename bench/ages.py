"""Opening a store whose owner wrote many journal batches and died before it wrote a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import siltstone
from bench.figure import MILLISECONDS, Figure, alternate
from bench.workshop import Loop, Stopwatch, Workshop, async_store

LIMIT_MS = 2_000.0
VALUE_BYTES = 100
KEYS = 1_000


def run(workshop: Workshop) -> list[Figure]:
    """Open copies of it as owner, with and without its local index, and read-only."""
    batches = workshop.pick(11_000, 100)
    with workshop.place() as place, Loop() as loop:
        old, copy = workshop.store(place).parent, place / "copy"
        _fill(loop, old, batches)

        def opening_ms(*, read_only: bool = False, with_index: bool = True) -> float:
            shutil.copytree(old, copy)
            if not with_index:
                shutil.rmtree(copy / "index")
            with Stopwatch() as watch:
                store = loop(siltstone.open_async(copy / "siltstone.yaml", read_only=read_only))
            loop(store.close())
            shutil.rmtree(copy)
            return watch.seconds * 1e3

        cold, warm, reader, limit = alternate(
            workshop.rounds,
            lambda: opening_ms(with_index=False),
            opening_ms,
            lambda: opening_ms(read_only=True),
            lambda: LIMIT_MS,
        )
    what = f"open after {batches:,} journal batches without a checkpoint"
    cases = (("index rebuilt", cold), ("index at hand", warm), ("read-only", reader))
    return [
        Figure(
            what=f"{what}, {name}",
            peer="limit",
            unit=MILLISECONDS,
            ours=ours,
            theirs=limit,
            goal=1,
        )
        for name, ours in cases
    ]


def _fill(loop: Loop, root: Path, batches: int) -> None:
    """Put and flush, so that each update is a batch of its own, and leave it as a crash would."""
    value = b"v" * VALUE_BYTES
    with async_store(loop, root / "siltstone.yaml") as store:

        async def work() -> None:
            table = await store.create_table("table")
            for number in range(batches):
                await table.put(b"%08d" % (number % KEYS), value)
                await store.flush()

        loop(work())
