"""How long an append takes while half and most of the possible load is on the store.

The rate that the store can take is measured first, in the same process: a closed loop with a fixed
number of appends in flight. Then parts of that rate are offered, whether earlier appends are
acknowledged or not: a burst each millisecond. Every append counts from the moment when its burst
was due, so a pause of the store, or of the loop, shows in all appends that came meanwhile. If the
store did not keep up with an offered rate, this is reported, because the times then only say how
long the queue grew.

From time to time Python's collector looks at every object of the process, and the whole process
waits. What an application can do about that (``gc.freeze`` after the opening, see the operator's
page) is done here, and left out for one of the rates, to show its effect.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from bench.bare_pipeline import PlainFile
from bench.figure import MILLISECONDS, PER_SECOND, Figure
from bench.workshop import Loop, Stopwatch, Workshop, async_store
from siltstone import AsyncSegment

RECORD_BYTES = 100
BURST_COUNT = 100
BURSTS = 10
"""In flight together in the closed loop: 1,000 appends, made as in the open loop."""
TICK_S = 0.001
OFFERS = ((0.5, True), (0.8, True), (0.5, False))
"""Parts of the rate of the closed loop, and whether earlier objects are frozen."""
QUANTILES = (0.5, 0.99, 0.999)
SYNC_BYTES = 4096
REACHED = 0.98
"""The part of the offered appends that is acknowledged in time if the store keeps up."""


@dataclass(slots=True)
class Load:
    """The results of one offered rate, round by round.

    Attributes:
        offered: appends a second.
        achieved: those that were acknowledged before the last one was due, by the same time.
        quantiles_ms: by quantile.
    """

    offered: list[float] = field(default_factory=list)
    achieved: list[float] = field(default_factory=list)
    quantiles_ms: dict[float, list[float]] = field(
        default_factory=lambda: {quantile: [] for quantile in QUANTILES}
    )

    @property
    def reached(self) -> float:
        """The worst round's part of the offered rate."""
        pairs = zip(self.achieved, self.offered, strict=True)
        return min(achieved / offered for achieved, offered in pairs)


def run(workshop: Workshop) -> list[Figure]:
    """Measure the store's rate, then the times at parts of it, and the times of plain syncs."""
    loads = {offer: Load() for offer in OFFERS}
    synced: dict[float, list[float]] = {quantile: [] for quantile in QUANTILES}
    with (
        workshop.place() as place,
        Loop() as loop,
        async_store(loop, workshop.store(place)) as store,
        PlainFile(place / "sync", overwrite=False) as file,
    ):
        segment = loop(store.create("load"))
        for _ in range(workshop.rounds):
            rate = _rate(loop, segment, workshop.pick(10_000, 50))
            loop(store.flush())
            for (share, is_frozen), load in loads.items():
                with _collector(is_frozen):
                    loop(_offer(segment, rate * share, workshop.pick(4_000, 100), load))
                loop(store.flush())
            taken = _synced_ms(file, workshop.pick(4_000, 100))
            for quantile in QUANTILES:
                synced[quantile].append(_quantile(taken, quantile))
    return [figure for offer, load in loads.items() for figure in _figures(offer, load, synced)]


@contextmanager
def _collector(is_frozen: bool) -> Iterator[None]:
    """Hide existing objects from the collector, if asked to."""
    gc.collect()
    if is_frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _figures(
    offer: tuple[float, bool], load: Load, synced: dict[float, list[float]]
) -> list[Figure]:
    share, is_frozen = offer
    reached = load.reached >= REACHED
    told = "" if is_frozen else ", without gc.freeze"
    told += "" if reached else f" (NOT REACHED, {load.reached:.2f} of it: a queue grew)"
    return [
        Figure(
            what=f"append {RECORD_BYTES} B, offered {share:.0%} of what a closed loop gets{told}",
            peer="offered",
            unit=PER_SECOND,
            ours=load.achieved,
            theirs=load.offered,
            goal=REACHED,
        ),
        *(
            Figure(
                what=f"… {quantile:.1%} acknowledged within{told}",
                peer=f"write and fdatasync {SYNC_BYTES:,} B, {quantile:.1%} within",
                unit=MILLISECONDS,
                ours=values,
                theirs=synced[quantile],
            )
            for quantile, values in load.quantiles_ms.items()
        ),
    ]


def _rate(loop: Loop, segment: AsyncSegment, bursts: int) -> float:
    """Appends per second with as many in flight as are useful."""
    record = os.urandom(RECORD_BYTES)
    numbers = iter(range(bursts))

    async def work() -> None:
        for _ in numbers:
            # Appends are acknowledged in order: waiting for the last one is waiting for all.
            await [segment.append(record) for _ in range(BURST_COUNT)][-1]

    async def all_of_them() -> None:
        await asyncio.gather(*(work() for _ in range(BURSTS)))

    with Stopwatch() as watch:
        loop(all_of_them())
    return bursts * BURST_COUNT / watch.seconds


async def _offer(segment: AsyncSegment, rate: float, ticks: int, load: Load) -> None:
    """Append at a rate, in bursts that are due together; note the time of the last of each."""
    record = os.urandom(RECORD_BYTES)
    taken: list[tuple[float, int]] = []
    failed: list[BaseException] = []

    def note(due: float, count: int, future: asyncio.Future[int]) -> None:
        error = future.exception()
        if error is not None:
            failed.append(error)
        taken.append((perf_counter() - due, count))
        if perf_counter() <= end:
            in_time.append(count)

    in_time: list[int] = []
    sent = 0
    start = perf_counter()
    end = start + ticks * TICK_S
    last: asyncio.Future[int] | None = None
    for tick in range(ticks):
        due = start + tick * TICK_S
        if (left_s := due - perf_counter()) > 0:
            await asyncio.sleep(left_s)
        else:
            await asyncio.sleep(0)
        count = int(rate * (tick + 1) * TICK_S) - sent
        if count:
            sent += count
            last = [segment.append(record) for _ in range(count)][-1]
            last.add_done_callback(partial(note, due, count))
    if last is not None:
        await asyncio.wait([last])
    await asyncio.sleep(0)
    if failed:
        raise failed[0]
    load.offered.append(sent / (ticks * TICK_S))
    load.achieved.append(sum(in_time) / (ticks * TICK_S))
    times_ms = [seconds * 1e3 for seconds, count in taken for _ in range(count)]
    for quantile, values in load.quantiles_ms.items():
        values.append(_quantile(times_ms, quantile))


def _synced_ms(file: PlainFile, count: int) -> list[float]:
    block = os.urandom(SYNC_BYTES)
    taken = []
    for _ in range(count):
        start = perf_counter()
        file.write([block])
        taken.append((perf_counter() - start) * 1e3)
    return taken


def _quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
