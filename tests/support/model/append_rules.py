"""Rules that add bytes, and the reads that look at them."""

from __future__ import annotations

import asyncio

from hypothesis import strategies as st
from hypothesis.stateful import rule

from siltstone.core.errors import (
    OffsetError,
    SegmentNotFoundError,
    SegmentSealedError,
    SegmentTruncatedError,
    SequenceError,
)
from tests.support.model.container_model import ModelWriter, settle
from tests.support.model.machine_base import MachineBase, names, sizes, some_appends, writers


class AppendRules(MachineBase):
    """Appends of every kind, alone and several at a time."""

    @rule(name=names, size=sizes)
    def append(self, name: str, size: int) -> None:
        self.append_at(name, self.made(size), None)

    @rule(name=names, size=sizes, wrong=st.sampled_from([0, 0, 1, -1, 100]))
    def append_expecting(self, name: str, size: int, wrong: int) -> None:
        length = len(self.model.segments[name].data) if self.has(name) else 0
        self.append_at(name, self.made(size), max(0, length + wrong))

    def append_at(self, name: str, data: bytes, expected: int | None) -> None:
        async def work() -> int:
            return int(await self.container.append(name, data, expected))

        if not self.has(name):
            self.fails(SegmentNotFoundError, work())
            return
        segment = self.model.segments[name]
        if expected not in (None, len(segment.data)):
            # Also of a sealed segment: a repeat of what took place learns that it has grown.
            self.fails(OffsetError, work())
        elif segment.sealed:
            self.fails(SegmentSealedError, work())
        else:
            assert self.run(work()) == len(segment.data)
            segment.data += data

    @rule(name=names, several=st.lists(sizes, min_size=1, max_size=5))
    def append_many(self, name: str, several: list[int]) -> None:
        records = [self.made(size) for size in several]

        async def work() -> int:
            return int(await self.container.append_many(name, records))

        segment = self.model.segments.get(name)
        if segment is None or segment.sealed:
            self.fails(SegmentNotFoundError if segment is None else SegmentSealedError, work())
            return
        assert self.run(work()) == len(segment.data)
        segment.data += b"".join(records)

    @rule(several=some_appends)
    def append_concurrently(self, several: list[tuple[str, int]]) -> None:
        flights = self.flights(several)

        async def work() -> None:
            await asyncio.gather(*(self.fly(self.owner, flight) for flight in flights))

        self.run(work())
        assert all(flight.offset is not None for flight in flights)
        self.run(settle(self.model, self.container, flights))

    @rule(
        name=names,
        writer=writers,
        size=sizes.filter(bool),
        step=st.integers(1, 3),
    )
    def append_once(self, name: str, writer: str, size: int, step: int) -> None:
        """An append, a repeat of it, and a repeat of something older."""
        segment = self.model.segments.get(name)
        if segment is None or segment.sealed:
            return
        info = self.run(self.container.register_writer(name, writer))
        known = segment.writers.setdefault(writer, ModelWriter(info.number))
        assert (info.number, info.sequence) == (known.number, known.sequence)
        container = self.container
        if known.sequence >= 0:
            again = container.append_as(name, known.number, known.sequence, known.data)
            assert self.run(again) == known.offset
        data, sequence = self.made(size), known.sequence + step

        async def twice() -> list[int]:
            first = container.append_as(name, known.number, sequence, data)
            second = container.append_as(name, known.number, sequence, data)
            return list(await asyncio.gather(first, second))

        assert self.run(twice()) == [len(segment.data), len(segment.data)]
        known.sequence, known.offset, known.data = sequence, len(segment.data), data
        segment.data += data
        if sequence:
            old = container.append_as(name, known.number, sequence - 1, data)
            self.fails(SequenceError, old)

    @rule(name=names, offset=st.integers(-5, 60_000), length=st.integers(0, 60_000))
    def read(self, name: str, offset: int, length: int) -> None:
        if not self.has(name):
            self.fails(SegmentNotFoundError, self.container.read(name, 0, 1))
            return
        segment = self.model.segments[name]
        where = segment.start + offset
        if where < 0:
            self.fails(ValueError, self.container.read(name, where, length))
        elif where < segment.start:
            self.fails(SegmentTruncatedError, self.container.read(name, where, length))
        elif where > len(segment.data):
            self.fails(OffsetError, self.container.read(name, where, length))
        else:
            found = self.run(self.container.read(name, where, length))
            assert found == bytes(segment.data[where : where + length])
