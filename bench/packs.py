"""The flush of many small segments, with and without chunks that they share."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from bench.figure import MIB_PER_SECOND, Better, Figure, Unit, alternate
from bench.workshop import Loop, Workshop, async_store, distinct, in_flight, seconds_of

SEGMENT_BYTES = 1024
WIDTH = 1_000
FILES = Unit(text="files", better=Better.LOWER)
ALONE = "flush:\n  pack_bytes: 1\n"
"""Settings under which no segment is small enough to share a chunk."""


def run(workshop: Workshop) -> list[Figure]:
    """Append to many new segments, and flush them all at once."""
    total = workshop.pick(2_000, 50)
    files: dict[str, list[float]] = {"": [], ALONE: []}

    def flush(settings: str) -> float:
        with workshop.place() as place:
            seconds = _flush(workshop, place, settings, total)
            files[settings].append(_data_chunks(place))
        return total * SEGMENT_BYTES / 2**20 / seconds

    ours, theirs = alternate(workshop.rounds, lambda: flush(""), lambda: flush(ALONE))
    what, peer = f"flush {total:,} segments of 1 KiB", "a chunk for each segment"
    return [
        Figure(what=what, peer=peer, unit=MIB_PER_SECOND, ours=ours, theirs=theirs),
        Figure(
            what="… creates, each a file",
            peer=peer,
            unit=FILES,
            ours=files[""],
            theirs=files[ALONE],
        ),
    ]


def _flush(workshop: Workshop, place: Path, settings: str, total: int) -> float:
    make = distinct(SEGMENT_BYTES)
    numbers = count()
    with Loop() as loop, async_store(loop, workshop.store(place, settings)) as store:

        async def fill(number: int) -> None:
            segment = await store.create(f"small/{next(numbers):08}")
            await segment.append(make(number))

        loop(in_flight(min(WIDTH, total), total, fill))
        return seconds_of(lambda: loop(store.flush()))


def _data_chunks(place: Path) -> int:
    return sum(1 for path in (place / "store" / "chunks" / "data").rglob("*") if path.is_file())
