"""Where the records of a batch end: a stream gives whole ones only, and says so in advance.

Every class answers three questions about the bytes from a start on, at which a record begins. It
reads as little as it can: mostly the last bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from siltstone.core.constants import KIB, MIB
from siltstone.pipelines.event_starts import EventStarts, find_events
from siltstone.spark.record_borders import Read, begins_event

LOOK_BYTES: Final = 64 * KIB
READ_BYTES: Final = 4 * MIB
NEWLINE: Final = b"\n"


class RecordEnds(Protocol):
    """Ends of records between two offsets; ``limit`` is at most the length of the segment."""

    async def last(self, start: int, limit: int) -> int:
        """The end of the last whole record in ``[start, limit)``; ``start`` if there is none."""
        ...

    async def first(self, start: int, limit: int) -> int:
        """The end of the first record, at most ``limit``; ``start`` if it is not whole."""
        ...

    async def after(self, start: int, limit: int, rows: int) -> tuple[int, int]:
        """The end of ``rows`` records, or of those that are whole; and how many these are."""
        ...


async def batch_end(
    ends: RecordEnds, start: int, wanted: int, available: int, rows: int | None
) -> tuple[int, int]:
    """Where a batch ends: at least one record, if there is a whole one.

    Args:
        ends: of the segment.
        start: where the batch begins.
        wanted: where it should end, if there are whole records before.
        available: what there is.
        rows: most records of the batch.

    Returns:
        The end, and how many records the batch has if ``rows`` is a number, else 0.
    """
    count = 0
    if rows is None:
        end = await ends.last(start, wanted)
    else:
        end, count = await ends.after(start, wanted, rows)
    if end == start and wanted < available:
        end = await ends.first(start, available)
        count = int(end > start)
    return end, count


class LineEnds:
    """Ends of lines, each after its newline.

    Args:
        read: of the segment.
        sealed_length: where the last line ends without a newline; ``None`` while more may come.
    """

    def __init__(self, read: Read, sealed_length: int | None) -> None:
        self._read = read
        self._sealed_length = sealed_length

    async def last(self, start: int, limit: int) -> int:
        """See ``RecordEnds``."""
        if limit == self._sealed_length:
            return limit
        end, size = limit, LOOK_BYTES
        while end > start:
            begin = max(start, end - size)
            found = (await self._read(begin, end - begin)).rfind(NEWLINE)
            if found >= 0:
                return begin + found + 1
            end, size = begin, min(2 * size, READ_BYTES)
        return start

    async def first(self, start: int, limit: int) -> int:
        """See ``RecordEnds``."""
        return (await self.after(start, limit, 1))[0]

    async def after(self, start: int, limit: int, rows: int) -> tuple[int, int]:
        """See ``RecordEnds``."""
        position, end, count = start, start, 0
        while position < limit:
            data = await self._read(position, min(READ_BYTES, limit - position))
            here = data.count(NEWLINE)
            if count + here >= rows:
                found = -1
                for _ in range(rows - count):
                    found = data.find(NEWLINE, found + 1)
                return position + found + 1, rows
            if here:
                end, count = position + data.rfind(NEWLINE) + 1, count + here
            position += len(data)
        if limit == self._sealed_length and end < limit:
            return limit, count + 1
        return end, count


class BlockEnds:
    """Ends of blocks of one size.

    Args:
        block_bytes: of each.
        sealed_length: where the last block ends, shorter; ``None`` while more may come.
    """

    def __init__(self, block_bytes: int, sealed_length: int | None) -> None:
        self._block_bytes = block_bytes
        self._sealed_length = sealed_length

    async def last(self, start: int, limit: int) -> int:
        """See ``RecordEnds``."""
        if limit == self._sealed_length:
            return limit
        return start + (limit - start) // self._block_bytes * self._block_bytes

    async def first(self, start: int, limit: int) -> int:
        """See ``RecordEnds``."""
        return (await self.after(start, limit, 1))[0]

    async def after(self, start: int, limit: int, rows: int) -> tuple[int, int]:
        """See ``RecordEnds``."""
        end = await self.last(start, min(limit, start + rows * self._block_bytes))
        return end, -(-(end - start) // self._block_bytes)


class EventEnds:
    """Ends of events.

    Where something is malformed, a batch reaches beyond it, so that its task tells.

    Args:
        read: of the segment.
        length: of the segment.
        sealed_length: the same, if no more can come.
        borders: where appends begin, ascending, as far as they are known.
        reach: where an append ends, at or above every limit.
        follows: read every event, and take no border for the beginning of one. Otherwise the task
            of a batch proves where that ends.
    """

    def __init__(
        self,
        read: Read,
        length: int,
        sealed_length: int | None,
        borders: Sequence[int],
        *,
        reach: int,
        follows: bool,
    ) -> None:
        self._read = read
        self._length = length
        self._sealed_length = sealed_length
        self._borders = borders
        self._reach = reach
        self._follows = follows

    async def last(self, start: int, limit: int) -> int:
        """See ``RecordEnds``."""
        if limit == self._sealed_length:
            return limit
        for border in () if self._follows else reversed(self._borders):
            if start < border <= limit and await begins_event(self._read, border, self._length):
                return (await self._follow(border, limit, None))[0]
        return (await self._follow(start, limit, None))[0]

    async def first(self, start: int, limit: int) -> int:
        """See ``RecordEnds``."""
        return (await self._follow(start, limit, 1))[0]

    async def after(self, start: int, limit: int, rows: int) -> tuple[int, int]:
        """See ``RecordEnds``."""
        return await self._follow(start, limit, rows)

    async def _follow(self, start: int, limit: int, rows: int | None) -> tuple[int, int]:
        position, count = start, 0
        while position < limit and count != rows:
            data = await self._read(position, min(READ_BYTES, limit - position))
            found = find_events(bytearray(data), 0, len(data))
            if rows is not None and count + len(found.starts) >= rows:
                last = rows - count - 1
                return position + _end_of(found, last), rows
            count += len(found.starts)
            position += found.end
            if found.malformed:
                return self._behind(position), count + 1
            if position + found.needed > limit:
                break
            if not len(found.starts):  # an event longer than a read: only its end matters
                position, count = position + found.needed, count + 1
        if limit == self._sealed_length and position < limit:
            return limit, count + 1  # it is cut off, and its task tells
        return position, count

    def _behind(self, position: int) -> int:
        """Where a tolerant read continues after something malformed: never inside an append."""
        behind = next((border for border in self._borders if border > position), self._reach)
        return min(behind, self._reach)


def _end_of(found: EventStarts, index: int) -> int:
    behind = index + 1
    return int(found.starts[behind]) if behind < len(found.starts) else found.end
