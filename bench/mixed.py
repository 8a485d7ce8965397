"""Ten minutes of everything at once: many containers, many segments, appends, reads and deletes."""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import siltstone
from bench.figure import MIB, SECONDS, SHARE, Figure
from bench.workshop import Loop, Workshop, async_store, in_flight
from siltstone import AsyncStore, SegmentTruncatedError

CONTAINERS = 24
FLUSH_AGE_S = 10
SETTINGS = f"""
flush:
  age: {FLUSH_AGE_S}s
  table_age: {FLUSH_AGE_S}s
"""
WIDTH = 200
WRITERS = 32
PAUSE_S = 0.002
LOOK_S = 1.0
NUMBER = re.compile(r"[-_][0-9a-f]{8,}.*|[-_]\d+")
"""What distinguishes the threads of a pool."""
LATE_S = 3.0 * FLUSH_AGE_S
"""If the oldest byte waits longer, others were preferred to it. It leaves the log after two
flushes, that of its segment and that of the tables, and each may have to wait for its turn."""


class Watch:
    """What is sampled once a second."""

    def __init__(self) -> None:
        self.memory_mib: list[float] = []
        self.ages_s: list[float] = []

    async def run(self, store: AsyncStore) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.memory_mib.append(_memory_mib())
            self.ages_s.append(max(stats.exposed_age_s for stats in store.stats()))


def run(workshop: Workshop) -> list[Figure]:
    """Play, and report memory, the oldest unflushed byte and the threads."""
    seconds, count = workshop.pick(600, 3), workshop.pick(10_000, 100)
    watch = Watch()
    with workshop.place() as place, Loop() as loop:
        file = siltstone.init(place / "store", containers=CONTAINERS)
        with file.open("a", encoding="utf-8") as text:
            text.write(SETTINGS)
        with async_store(loop, file) as store:
            loop(in_flight(WIDTH, count, lambda number: store.create(_name(number))))
            before = _threads_s()
            appended = loop(_play(store, watch, seconds, count))
            after = _threads_s()
    spent = {name: taken - before.get(name, 0.0) for name, taken in after.items()}
    half = len(watch.memory_mib) // 2
    total = sum(spent.values())
    return [
        Figure(
            what=f"memory, {CONTAINERS} containers, {count:,} segments, {appended / seconds:,.0f} "
            f"appends a second for {seconds} s: the most of the second half",
            peer="of the first half, and a tenth",
            unit=MIB,
            ours=[max(watch.memory_mib[half:])],
            theirs=[1.1 * max(watch.memory_mib[:half])],
            goal=1,
        ),
        Figure(
            what="… the oldest byte, or row that names it, that was ever in the log alone",
            peer=f"thrice the age of {FLUSH_AGE_S} s that starts a flush of either",
            unit=SECONDS,
            ours=[max(watch.ages_s)],
            theirs=[LATE_S],
            goal=1,
        ),
        *(
            Figure(
                what=f"… share of the processor's time: {name}",
                peer="all threads",
                unit=SHARE,
                ours=[100 * taken / total],
                theirs=[100.0],
            )
            for name, taken in sorted(spent.items(), key=lambda item: -item[1])[:6]
        ),
    ]


def _name(number: int) -> str:
    return f"segment-{number:05}"


async def _play(store: AsyncStore, watch: Watch, seconds: float, count: int) -> int:
    appended = 0

    async def write(seed: int) -> None:
        nonlocal appended
        chance = random.Random(seed)
        pattern = os.urandom(20_000)
        while True:
            segment = store.segment(_name(int(count * chance.random() ** 3)))
            await segment.append(pattern[: int(10 ** chance.uniform(1, 4.3))])
            appended += 1
            if chance.random() < 0.1:
                info = await segment.info()
                offset = chance.randrange(info.start_offset, info.length)
                with suppress(SegmentTruncatedError):  # another writer was faster
                    await segment.read(offset, 10_000)
                if chance.random() < 0.1:
                    await segment.truncate(offset)
            await asyncio.sleep(PAUSE_S)

    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            group.create_task(watch.run(store))
            for seed in range(WRITERS):
                group.create_task(write(seed))
    except TimeoutError:
        return appended
    raise AssertionError("the play ends by its time")


def _memory_mib() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel tells the memory of a process")


def _threads_s() -> dict[str, float]:
    """Seconds of processor time by names of threads, without their numbers."""
    ticks = os.sysconf("SC_CLK_TCK")
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    spent: defaultdict[str, float] = defaultdict(float)
    for task in Path("/proc/self/task").iterdir():
        command, _, rest = (task / "stat").read_text(encoding="ascii").rpartition(")")
        name = names.get(int(task.name), command.partition("(")[2])
        fields = rest.split()
        spent[NUMBER.sub("", name)] += (int(fields[11]) + int(fields[12])) / ticks
    return spent
