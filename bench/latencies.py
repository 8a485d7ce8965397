"""How long an append takes while half and most of the possible load is on the store.

Appends come at a fixed rate, whether earlier ones are acknowledged or not, so a pause of the store
shows in all that came meanwhile.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from bench.figure import MILLISECONDS, Figure
from bench.workshop import Loop, Stopwatch, Workshop, async_store, in_flight
from siltstone import AsyncSegment

RECORD_BYTES = 100
GROUP_COUNT = 100
GROUPS = 10
"""As many appends in flight as are of use, and they cost the caller what the measured ones do."""
TICK_S = 0.001
SHARES = (0.5, 0.8)
QUANTILES = (0.5, 0.99, 0.999)
SYNC_BYTES = 4096


def run(workshop: Workshop) -> list[Figure]:
    """Measure the load first, then the times at parts of it, and those of plain syncs."""
    ours: dict[tuple[float, float], list[float]] = {
        (share, quantile): [] for share in SHARES for quantile in QUANTILES
    }
    theirs: dict[float, list[float]] = {quantile: [] for quantile in QUANTILES}
    rates = []
    with (
        workshop.place() as place,
        Loop() as loop,
        async_store(loop, workshop.store(place)) as store,
    ):
        segment = loop(store.create("load"))
        for _ in range(workshop.rounds):
            rates.append(_rate(loop, segment, workshop.pick(2_500, 50)))
            for share in SHARES:
                taken = loop(_taken_ms(segment, rates[-1] * share, workshop.pick(4_000, 100)))
                for quantile in QUANTILES:
                    ours[share, quantile].append(_quantile(taken, quantile))
            synced = _synced_ms(place / "sync", workshop.pick(4_000, 100))
            for quantile in QUANTILES:
                theirs[quantile].append(_quantile(synced, quantile))
    return [
        Figure(
            what=f"append {RECORD_BYTES} B at {share:.0%} of {max(rates):,.0f}/s, "
            f"{quantile:.1%} of them within",
            peer=f"write and fdatasync {SYNC_BYTES:,} B, {quantile:.1%} within",
            unit=MILLISECONDS,
            ours=ours[share, quantile],
            theirs=theirs[quantile],
        )
        for share in SHARES
        for quantile in QUANTILES
    ]


def _rate(loop: Loop, segment: AsyncSegment, groups: int) -> float:
    """Appends a second with as many in flight as are of use."""
    record = os.urandom(RECORD_BYTES)

    async def group(_: int) -> None:
        await asyncio.gather(*(segment.append(record) for _ in range(GROUP_COUNT)))

    with Stopwatch() as watch:
        loop(in_flight(GROUPS, groups, group))
    return groups * GROUP_COUNT / watch.seconds


async def _taken_ms(segment: AsyncSegment, rate: float, ticks: int) -> list[float]:
    """Append at a rate, in groups that are due together; return how long each group took."""
    record = os.urandom(RECORD_BYTES)
    taken: list[float] = []
    start = perf_counter()

    async def group(due: float, count: int) -> None:
        await asyncio.gather(*(segment.append(record) for _ in range(count)))
        taken.append((perf_counter() - due) * 1e3)

    sent = 0
    async with asyncio.TaskGroup() as tasks:
        for tick in range(1, ticks + 1):
            due = start + tick * TICK_S
            if (left_s := due - perf_counter()) > 0:
                await asyncio.sleep(left_s)
            count = int(rate * tick * TICK_S) - sent
            if count:
                sent += count
                tasks.create_task(group(due, count))
    return taken


def _synced_ms(path: Path, count: int) -> list[float]:
    block = os.urandom(SYNC_BYTES)
    taken = []
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        for _ in range(count):
            start = perf_counter()
            os.pwrite(fd, block, 0)
            os.fdatasync(fd)
            taken.append((perf_counter() - start) * 1e3)
    finally:
        os.close(fd)
    return taken


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
