"""What a container should hold, in plain bytearrays and dicts, and how real ones are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from siltstone.container.models.segments import SegmentInfo, TableValue
from siltstone.segments.page_cache_reads import ReadPlace


@dataclass
class ModelWriter:
    """An exactly-once writer: its newest append."""

    number: int
    sequence: int = -1
    offset: int = 0
    data: bytes = b""


@dataclass
class ModelSegment:
    """All bytes ever appended, those below ``start`` included."""

    data: bytearray = field(default_factory=bytearray)
    start: int = 0
    sealed: bool = False
    writers: dict[str, ModelWriter] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def readable(self) -> bytes:
        return bytes(self.data[self.start :])

    def note(self, changes: dict[str, str | None]) -> None:
        for key, value in changes.items():
            self.attributes.pop(key, None)
            if value is not None:
                self.attributes[key] = value


@dataclass
class InFlight:
    """An append whose outcome may be unknown: ``offset`` is set once it was acknowledged."""

    name: str
    data: bytes
    offset: int | None = None


@dataclass
class Model:
    """Segments by name, one table, and what became of those that were joined or renamed.

    ``page_cache_reads`` counts reads of them that asked no rows.
    """

    segments: dict[str, ModelSegment] = field(default_factory=dict)
    table: dict[bytes, bytes] = field(default_factory=dict)
    joined: dict[str, tuple[str, int]] = field(default_factory=dict)
    renamed: dict[str, ModelSegment] = field(default_factory=dict)
    near_reads: int = 0

    def create(self, name: str, segment: ModelSegment | None = None) -> None:
        self.segments[name] = segment or ModelSegment()
        self.joined.pop(name, None)
        self.renamed.pop(name, None)

    def rename(self, name: str, new: str) -> None:
        segment = self.segments.pop(name)
        self.create(new, segment)
        self.renamed[name] = segment
        for source, (target, offset) in self.joined.items():
            if target == name:
                self.joined[source] = (new, offset)

    def was_renamed(self, name: str, new: str) -> bool:
        """Whether a rename may be repeated: nothing became of either name since."""
        found = self.segments.get(new)
        return found is not None and self.renamed.get(name) is found


class Verbs(Protocol):
    """The verbs that owners and readers share."""

    async def info(self, name: str) -> SegmentInfo: ...

    async def read(self, name: str, offset: int, length: int) -> bytes: ...

    def place(self, name: str, offset: int, end: int) -> ReadPlace | None: ...

    async def list_segments(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[SegmentInfo]: ...

    async def table_scan(
        self,
        table: str,
        start: bytes = b"",
        end: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int = 1_000,
    ) -> list[tuple[bytes, TableValue]]: ...


def near_reads(name: str, segment: ModelSegment, verbs: Verbs) -> int:
    """What is read without asking rows is what the model holds; return how many reads were."""
    start, end = segment.start, len(segment.data)
    assert verbs.place(name, start - 1, end) is None, f"{name}: a place of what was truncated"
    assert verbs.place(name, start, end + 1) is None, f"{name}: a place beyond the end"
    answered = 0
    middle = (start + end) // 2
    for begin, stop in ((start, end), (start, start + 1), (middle, end), (end - 1, end)):
        place = verbs.place(name, begin, stop) if stop > begin >= start else None
        for read in () if place is None else (place.read, partial(place.read_all, share=alone)):
            buffer = memoryview(bytearray(stop - begin))
            if read(begin, buffer):
                assert buffer == segment.data[begin:stop], f"{name}: wrong bytes from memory"
                answered += 1
    return answered


def alone(work: Callable[[], None]) -> Callable[[], None]:
    """No other thread helps."""
    return lambda: None


async def compare(model: Model, verbs: Verbs, table: str) -> None:
    """Everything that can be read is what the model holds, and nothing else is there."""
    infos = {info.name: info for info in await verbs.list_segments()}
    assert sorted(infos) == sorted(model.segments)
    for name, segment in model.segments.items():
        info = infos[name]
        assert (info.start_offset, info.length, info.sealed) == (
            segment.start,
            len(segment.data),
            segment.sealed,
        ), f"{name}: {info}, not {segment.start, len(segment.data), segment.sealed}"
        assert info.attributes == segment.attributes, name
        model.near_reads += near_reads(name, segment, verbs)
        found = await verbs.read(name, segment.start, len(segment.data) - segment.start + 1)
        assert found == segment.readable, f"{name}: wrong bytes"
        model.near_reads += near_reads(name, segment, verbs)
    rows = await verbs.table_scan(table)
    assert {key: value.value for key, value in rows} == model.table


async def settle(model: Model, verbs: Verbs, flights: Iterable[InFlight]) -> None:
    """Take over what became of appends in flight: in call order, each there whole or not at all."""
    by_name: dict[str, list[InFlight]] = {}
    for flight in flights:
        by_name.setdefault(flight.name, []).append(flight)
    for name, mine in by_name.items():
        segment = model.segments[name]
        info = await verbs.info(name)
        start = max(len(segment.data), info.start_offset)
        tail = await verbs.read(name, start, info.length - start)
        position = 0
        for flight in mine:
            there = bool(flight.data) and tail.startswith(flight.data, position)
            if flight.offset is not None:
                assert there, f"{name}: an acknowledged append is gone"
                assert flight.offset == len(segment.data) + position
            if there:
                position += len(flight.data)
        assert position == len(tail), f"{name}: bytes that were never appended"
        segment.data += tail
