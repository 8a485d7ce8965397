"""What a container should hold, in plain bytearrays and dicts, and how real ones are compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from siltstone.container.views import SegmentInfo, TableValue


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
    """Segments by name, one table, and what became of the segments that were joined."""

    segments: dict[str, ModelSegment] = field(default_factory=dict)
    table: dict[bytes, bytes] = field(default_factory=dict)
    joined: dict[str, tuple[str, int]] = field(default_factory=dict)

    def create(self, name: str) -> None:
        self.segments[name] = ModelSegment()
        self.joined.pop(name, None)

    def rename(self, name: str, new: str) -> None:
        self.segments[new] = self.segments.pop(name)
        self.joined.pop(new, None)
        for source, (target, offset) in self.joined.items():
            if target == name:
                self.joined[source] = (new, offset)


class Verbs(Protocol):
    """The verbs that owners and readers share."""

    async def info(self, name: str) -> SegmentInfo: ...

    async def read(self, name: str, offset: int, length: int) -> bytes: ...

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
        found = await verbs.read(name, segment.start, len(segment.data) - segment.start + 1)
        assert found == segment.readable, f"{name}: wrong bytes"
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
        assert position == len(tail), f"{name}: bytes that nobody appended"
        segment.data += tail
