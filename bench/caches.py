"""Random reads from a service that is far away, and what the cache on a local disk saves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random

import siltstone
from bench.figure import PER_SECOND, Figure, alternate
from bench.workshop import Loop, Workshop, async_store, seconds_of

MIB = 2**20
LATENCY_S = 0.02
"""Of every call: a bucket in the same region."""
READ_BYTES = 2**16
PARALLEL = 8


def run(workshop: Workshop) -> list[Figure]:
    """Measure reads of 64 KiB at random places, cold, and with their blocks in the cache."""
    length = workshop.pick(128, 8) * MIB
    with workshop.place() as place:
        far = {"name": place.name, "append": False, "latency_s": LATENCY_S}
        file = siltstone.init(place / "store", binding="memory", options=far)
        with siltstone.open(file) as store:
            segment = store.create("large")
            for _ in range(length // MIB):
                segment.append(Random(3).randbytes(MIB))
            store.flush()
        cold = file.read_text(encoding="utf-8")
        warm = place / "store" / "warm.yaml"
        warm.write_text(f"{cold}\ncache:\n  path: ./cache\n", encoding="utf-8")
        random = Random(7)
        count = workshop.pick(400, 20)
        offsets = [random.randrange(length - READ_BYTES) for _ in range(count)]
        _rate(warm, offsets)
        ours, theirs = alternate(
            workshop.rounds, lambda: _rate(warm, offsets), lambda: _rate(file, offsets)
        )
    what = f"random read_into of 64 KiB, {PARALLEL} at a time, each call 20 ms away"
    return [
        Figure(
            what=f"{what}, blocks on the local disk",
            peer="the same without a cache, verified",
            unit=PER_SECOND,
            ours=ours,
            theirs=theirs,
        )
    ]


def _rate(file: Path, offsets: Sequence[int]) -> float:
    """Open the store, which remembers nothing then, and read; return reads a second."""
    with Loop() as loop, async_store(loop, file) as store:
        segment = store.segment("large")
        todo = iter(offsets)

        async def work() -> None:
            buffer = bytearray(READ_BYTES)
            for offset in todo:
                await segment.read_into(offset, buffer)

        async def read() -> None:
            await asyncio.gather(*(work() for _ in range(PARALLEL)))

        return len(offsets) / seconds_of(lambda: loop(read()))
