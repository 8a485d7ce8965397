"""What the parent knows: what was acknowledged, and what a look at the store must show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from siltstone.container.models.segments import SegmentInfo, TableValue
from siltstone.core.errors import TableNotFoundError
from tests.support.kill.payload import Record, parse, record

TABLE = "counts"
COUNT_KEY = b"count"
PAIR = "pair"
"""A commit appends a record here and puts its sequence into the table."""

PIECE_BYTES = 50_000


class Readable(Protocol):
    """What an owner and a reader have in common."""

    async def info(self, name: str) -> SegmentInfo: ...

    async def read(self, name: str, offset: int, length: int) -> bytes: ...

    async def list_segments(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[SegmentInfo]: ...

    async def table_get(self, table: str, key: bytes) -> TableValue | None: ...


class Look(NamedTuple):
    """One segment as it was read.

    Attributes:
        start: first readable offset.
        data: everything from there on.
    """

    start: int
    data: bytes


@dataclass
class Image:
    """A segment as it was when it was last looked at; it may only grow and lose its head."""

    start: int = 0
    data: bytes = b""
    keys: set[tuple[int, int]] = field(default_factory=set)

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Ledger:
    """Reports of children, and the checks that follow from them.

    A report is a list: ``["a", segment, offset, writer, sequence, length]`` an acknowledged append,
    ``["t?", segment, offset]`` and ``["t", segment, offset]`` a truncation that was asked for and
    one that was acknowledged, ``["d?", segment]`` and ``["d", segment]`` the same for a deletion,
    ``["o", …]`` an owner that opened, ``["e", …]`` an error, ``["end"]`` the end of a child.
    """

    def __init__(self) -> None:
        self.images: defaultdict[str, Image] = defaultdict(Image)
        self.acknowledged: defaultdict[str, list[Record]] = defaultdict(list)
        self.count = 0
        self.once = -1
        self.errors: list[list[Any]] = []
        self._cut: defaultdict[str, int] = defaultdict(int)
        self._cut_asked: defaultdict[str, int] = defaultdict(int)
        self._deleted: set[str] = set()
        self._deleting: set[str] = set()

    def take(self, reports: Sequence[Sequence[Any]]) -> None:
        """Learn what a child said."""
        for kind, *facts in reports:
            match kind:
                case "a":
                    segment, *rest = facts
                    self.acknowledged[segment].append(Record(*rest))
                    self.count += 1
                    if segment == "once":
                        self.once = max(self.once, rest[2])
                case "t?":
                    self._cut_asked[facts[0]] = max(self._cut_asked[facts[0]], facts[1])
                case "t":
                    self._cut[facts[0]] = max(self._cut[facts[0]], facts[1])
                case "d?":
                    self._deleting.add(facts[0])
                case "d":
                    self._deleted.add(facts[0])
                case "e":
                    self.errors.append(facts)

    async def look(self, store: Readable) -> None:
        """Read everything and compare it with what was acknowledged."""
        names = {info.name for info in await store.list_segments()}
        assert not names & self._deleted, f"deleted segments came back: {names & self._deleted}"
        for name in self.acknowledged.keys() - names:
            assert name in self._deleting, f"segment {name} is gone"
            del self.acknowledged[name]
            self.images.pop(name, None)
        looks = {name: await read_whole(store, name) for name in sorted(names)}
        for name, seen in looks.items():
            self._compare(name, seen)
        await self._compare_pair(store, looks)

    def _compare(self, name: str, seen: Look) -> None:
        image = self.images[name]
        end = seen.start + len(seen.data)
        assert self._cut[name] <= seen.start <= self._cut_asked[name], f"start of {name} moved"
        assert seen.start >= image.start, f"truncated bytes of {name} came back"
        assert end >= image.end, f"{name} became shorter: {end} < {image.end}"
        shared = max(0, image.end - seen.start)
        old = image.data[seen.start - image.start :] if shared else b""
        assert seen.data[:shared] == old, f"bytes of {name} changed"
        records = parse(seen.data[shared:], seen.start + shared)
        for found in records:
            key = (found.writer, found.sequence)
            assert key not in image.keys, f"{name} has twice {found}"
            image.keys.add(key)
        self._check_no_gaps(name, seen, image, records)
        for wanted in self.acknowledged.pop(name, []):
            if wanted.offset < seen.start:
                continue
            begin = wanted.offset - seen.start
            data = record(wanted.writer, wanted.sequence, wanted.length)
            assert seen.data[begin : begin + len(data)] == data, f"{name} lacks {wanted}"
        image.start, image.data = seen.start, seen.data

    def _check_no_gaps(
        self, name: str, seen: Look, image: Image, records: Sequence[Record]
    ) -> None:
        """Each writer has one append in flight: its records stand in their order, without gaps."""
        if name == "burst" or seen.start > image.end:
            return
        newest: dict[int, int] = {}
        for found in records:
            before = (found.writer, found.sequence - 1)
            assert not found.sequence or before in image.keys, f"{name}: a gap before {found}"
            assert newest.get(found.writer, -1) < found.sequence, f"{name}: out of order {found}"
            newest[found.writer] = found.sequence

    async def _compare_pair(self, store: Readable, looks: Mapping[str, Look]) -> None:
        if PAIR not in looks:
            return
        records = parse(looks[PAIR].data, looks[PAIR].start)
        value = None
        with suppress(TableNotFoundError):  # The fault may have come before it was made.
            value = await store.table_get(TABLE, COUNT_KEY)
        newest = None if value is None else int(value.value)
        wanted = records[-1].sequence if records else None
        assert newest == wanted, f"half a commit: table {newest}, segment {wanted}"


async def read_whole(store: Readable, name: str) -> Look:
    """Read a segment from its start to its end, in pieces."""
    info = await store.info(name)
    parts = []
    position = info.start_offset
    while position < info.length:
        part = await store.read(name, position, min(PIECE_BYTES, info.length - position))
        assert part, f"{name} ends at {position}, not at {info.length}"
        parts.append(part)
        position += len(part)
    return Look(info.start_offset, b"".join(parts))


async def damage(store: Any) -> list[str]:
    """What ``check`` calls damage."""
    return [str(found) async for found in store.check() if found.severity == "damage"]
