"""Acknowledged bytes that are not in chunks yet: the joined buffers of the frames, kept once.

An owner keeps the bytes, for it has to flush them. A reader keeps where in the log they are.

Only memory lives here, no I/O.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from siltstone.core.records.piece import WriterMark
from siltstone.metadata.assigned_update import AssignedUpdate
from siltstone.metadata.time_index import TimedBytes


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Bytes that the log keeps, and memory does not.

    Attributes:
        index: of their frame.
        crc: of that frame.
        start: where they begin in its body.
        length: how many they are.
    """

    index: int
    crc: int
    start: int
    length: int

    def __len__(self) -> int:
        return self.length


class Fetch(NamedTuple):
    """Bytes to be fetched: those of ``source`` from ``skip`` on, into all of ``buffer``."""

    source: LogSlice
    skip: int
    buffer: memoryview


@dataclass(frozen=True, slots=True)
class TailPiece:
    """Contiguous bytes of one segment from one frame.

    Attributes:
        offset: where they begin in the segment.
        data: the bytes, or where the log has them.
        index: the log index of their frame.
        time_s: when they were acknowledged, monotonic seconds.
        made_ms: when their frame was made, milliseconds since 1970.
        marks: the newest append of each exactly-once writer among them.
        borders: offsets in the segment at which an append ends, ascending, the piece's end
            included; not all of them, but one in every 64 KiB where there is one.
    """

    offset: int
    data: bytes | LogSlice
    index: int
    time_s: float
    made_ms: int = 0
    marks: tuple[WriterMark, ...] = ()
    borders: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """Offset in the segment after the last byte."""
        return self.offset + len(self.data)

    @property
    def held(self) -> bytes:
        """The bytes of a piece that memory is known to have."""
        assert isinstance(self.data, bytes), "an owner keeps what it has to flush"
        return self.data

    @property
    def appended(self) -> TimedBytes:
        """When the bytes were appended."""
        return TimedBytes(self.offset, self.end, self.made_ms)


class Tail:
    """The unflushed pieces of one segment, contiguous and in order."""

    __slots__ = ("_offsets", "_pieces", "size")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._pieces: list[TailPiece] = []
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def first(self) -> TailPiece:
        """The oldest piece; there must be one."""
        return self._pieces[0]

    @property
    def last(self) -> TailPiece:
        """The newest piece; there must be one."""
        return self._pieces[-1]

    @property
    def pieces(self) -> Iterable[TailPiece]:
        """All pieces, oldest first."""
        return tuple(self._pieces)

    @property
    def end(self) -> int:
        """Offset after the newest byte; there must be a piece."""
        return self._pieces[-1].end

    def add(self, piece: TailPiece) -> None:
        """Put an acknowledged piece after the others."""
        assert not self._pieces or piece.offset == self._pieces[-1].end, "tail has a gap"
        self._offsets.append(piece.offset)
        self._pieces.append(piece)
        self.size += len(piece.data)

    def drop_below(self, offset: int) -> int:
        """Forget pieces that end at or below ``offset``; return how many bytes went."""
        count = 0
        dropped = 0
        for piece in self._pieces:
            if piece.end > offset:
                break
            dropped += len(piece.data)
            count += 1
        if count:
            del self._pieces[:count]
            del self._offsets[:count]
            self.size -= dropped
        return dropped

    def head(self, start: int, length_max: int) -> list[TailPiece]:
        """Whole pieces from that of ``start`` on, up to ``length_max`` bytes, at least one."""
        position = max(0, bisect_right(self._offsets, start) - 1)
        taken: list[TailPiece] = []
        total = 0
        for piece in self._pieces[position:]:
            if piece.end <= start:
                continue
            if taken and total + len(piece.data) > length_max:
                break
            taken.append(piece)
            total += len(piece.data)
        return taken

    def read_into(self, offset: int, buffer: memoryview, lacks: list[Fetch] | None = None) -> int:
        """Copy bytes from ``offset`` on into ``buffer``; return their count.

        Those that only the log has are counted, and put into ``lacks``, for the caller to fetch.
        """
        position = max(0, bisect_right(self._offsets, offset) - 1)
        done = 0
        while position < len(self._pieces) and done < len(buffer):
            piece = self._pieces[position]
            skip = offset + done - piece.offset
            if skip < len(piece.data):
                length = min(len(piece.data) - skip, len(buffer) - done)
                part = buffer[done : done + length]
                if isinstance(piece.data, LogSlice):
                    assert lacks is not None, "who reads a reader's tail can fetch"
                    lacks.append(Fetch(piece.data, skip, part))
                else:
                    part[:] = memoryview(piece.data)[skip : skip + length]
                done += length
            position += 1
        return done

    def read_whole(self, offset: int, length: int) -> bytes | None:
        """The bytes if one piece in memory holds them all: the quick way of a small read.

        On any thread: where the tail changes meanwhile, it may be ``None`` although they are there.
        """
        position = bisect_right(self._offsets, offset) - 1
        if position < 0:
            return None
        try:
            piece = self._pieces[position]
        except IndexError:  # just now
            return None
        start = offset - piece.offset
        if isinstance(piece.data, LogSlice) or start < 0 or start + length > len(piece.data):
            return None
        return piece.data[start : start + length]


@dataclass(frozen=True, slots=True)
class TableTailRecord:
    """One acknowledged table-log record that is not in a chunk yet."""

    version: int
    record: bytes
    index: int
    time_s: float


class TableTail:
    """The unflushed records of the table log, contiguous and in order.

    Kept in columns: of tens of thousands of small records none is an object that Python looks at
    when it looks for garbage.
    """

    __slots__ = ("_grown", "_indexes", "_records", "_times_s", "_versions", "size")

    def __init__(self) -> None:
        self._versions: list[int] = []
        self._records: list[bytes] = []
        self._indexes: list[int] = []
        self._times_s: list[float] = []
        self._grown: asyncio.Event | None = None
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._versions)

    @property
    def first(self) -> TableTailRecord:
        """The oldest record; there must be one."""
        return self._at(0)

    @property
    def last(self) -> TableTailRecord:
        """The newest record; there must be one."""
        return self._at(-1)

    @property
    def end(self) -> int:
        """Table version after the newest record; there must be one."""
        return self._versions[-1]

    def _at(self, position: int) -> TableTailRecord:
        return TableTailRecord(
            self._versions[position],
            self._records[position],
            self._indexes[position],
            self._times_s[position],
        )

    def add(self, record: TableTailRecord) -> None:
        """Put an acknowledged record after the others."""
        self._versions.append(record.version)
        self._records.append(record.record)
        self._indexes.append(record.index)
        self._times_s.append(record.time_s)
        self.size += len(record.record)
        self.notify()

    def add_frame(self, updates: Sequence[AssignedUpdate], index: int, time_s: float) -> None:
        """Put the records of an acknowledged frame after the others.

        Args:
            updates: all of the frame.
            index: of the frame in the log.
            time_s: when it was acknowledged, monotonic seconds.
        """
        records = [update.record for update in updates]
        self._versions += [update.table_version for update in updates]
        self._records += records
        self._indexes += [index] * len(records)
        self._times_s += [time_s] * len(records)
        self.size += sum(map(len, records))
        self.notify()

    def notify(self) -> None:
        """Wake those who wait for a record."""
        if self._grown is not None:
            self._grown.set()
            self._grown = None

    async def changed(self) -> None:
        """Wait for the next record, or for the end of what makes them."""
        if self._grown is None:
            self._grown = asyncio.Event()
        await self._grown.wait()

    def behind(self, version: int, bytes_max: int) -> list[TableTailRecord]:
        """Records beyond ``version``, oldest first, about ``bytes_max`` bytes, at least one."""
        found: list[TableTailRecord] = []
        size = 0
        for position in range(bisect_right(self._versions, version), len(self._versions)):
            found.append(self._at(position))
            size += len(self._records[position])
            if size >= bytes_max:
                break
        return found

    def head(self, bytes_max: int, version: int) -> list[TableTailRecord]:
        """Records of whole frames, oldest first, about ``bytes_max`` bytes, at least one frame.

        None is beyond ``version``, with which a frame has to end.
        """
        total = 0
        count = bisect_right(self._versions, version)
        for position, record in enumerate(self._records[:count], 1):
            total += len(record)
            if total >= bytes_max and (
                position == count or self._indexes[position] != self._indexes[position - 1]
            ):
                count = position
                break
        return [self._at(position) for position in range(count)]

    def drop_to(self, version: int) -> int:
        """Forget records up to and with ``version``; return how many bytes went."""
        count = bisect_right(self._versions, version)
        dropped = sum(map(len, self._records[:count]))
        del self._versions[:count]
        del self._records[:count]
        del self._indexes[:count]
        del self._times_s[:count]
        self.size -= dropped
        return dropped

    def index_behind(self, version: int) -> int | None:
        """Log index of the first record beyond ``version``; ``None`` when there is none."""
        position = bisect_right(self._versions, version)
        return self._indexes[position] if position < len(self._indexes) else None
