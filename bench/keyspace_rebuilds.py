"""How long the rebuild of a keyspace takes, and how much of its bytes it reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.figure import MIB, SECONDS, Figure, Unit, bounded
from bench.keyspace_child import WIDTH, put_object
from bench.workshop import Loop, Workshop, async_store, in_flight, seconds_of
from siltstone import objects
from siltstone.objects import AsyncKeyspace, sure_headers
from siltstone.store.handles.async_segment import AsyncSegment
from siltstone.store.handles.self_checked import read_checked

VALUE_BYTES = 8 * 1024
REBUILT = (1_000_000, 2_000)
REBUILD_AIM_S = 90.0
REBUILD_AIM_READ = 0.03
PER_BYTE = Unit(text="read a byte of values", better=MIB.better)


def rebuilds(workshop: Workshop) -> list[Figure]:
    """A rebuild of the ledger of values of 8 KiB with two index entries each."""
    total = workshop.pick(*REBUILT)
    with (
        workshop.place() as place,
        Loop() as loop,
        async_store(loop, workshop.store(place)) as store,
    ):
        keyspace = loop(objects.create_async(store, "bench"))
        value = os.urandom(VALUE_BYTES)
        loop(in_flight(WIDTH, total, lambda number: put_object(keyspace, number, value)))
        loop(store.flush())
        taken, shares = [], []
        for _ in range(workshop.rounds):
            with _counted_reads() as read:
                taken.append(seconds_of(lambda: loop(objects.rebuild_async(store, "bench"))))
            shares.append(sum(read) / (total * VALUE_BYTES))
            count = loop(_count(loop(objects.open_async(store, "bench"))))
            assert count == total, "the rebuild has all heads"
    return [
        bounded(f"rebuild of {total:,} heads", SECONDS, taken, REBUILD_AIM_S * total / REBUILT[0]),
        bounded(f"rebuild of {total:,} heads of 8 KiB", PER_BYTE, shares, REBUILD_AIM_READ),
    ]


async def _count(keyspace: AsyncKeyspace) -> int:
    count = 0
    async for _ in keyspace.heads():
        count += 1
    return count


@contextmanager
def _counted_reads() -> Iterator[list[int]]:
    """Note the bytes of each read of a value segment until the end of the block."""
    read: list[int] = []
    plain = AsyncSegment.read

    async def counted(self: AsyncSegment, offset: Any, length: Any) -> bytes:
        read.append(int(length))
        return await plain(self, offset, length)

    async def counted_checked(segment: AsyncSegment, offset: int, length: int, check: Any) -> Any:
        read.append(length)
        return await read_checked(segment, offset, length, check)

    setattr(AsyncSegment, "read", counted)  # noqa: B010
    setattr(sure_headers, "read_checked", counted_checked)  # noqa: B010
    try:
        yield read
    finally:
        setattr(AsyncSegment, "read", plain)  # noqa: B010
        setattr(sure_headers, "read_checked", read_checked)  # noqa: B010
