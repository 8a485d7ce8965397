"""Which events a range holds, and what replaces bytes that are not events.

An event belongs to the range in which it begins, and is read to its end wherever that lies. A range
begins with an event, and where another range follows, the last event has to end exactly where that
one begins: so every range proves that the next one began rightly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy

from siltstone.core.constants import MIB
from siltstone.events import MalformedEventError
from siltstone.pipelines.byte_source import BufferStretch
from siltstone.pipelines.event_starts import Numbers, find_events


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRun:
    """Events one after the other, at least one.

    Attributes:
        base: offset in the segment of the buffer's first byte.
        buffer: holds them.
        starts: index of the header of each: int64[n].
        lengths: bytes of each payload: int64[n].
    """

    base: int
    buffer: bytearray
    starts: Numbers
    lengths: Numbers

    def parts(self, size_bytes: int) -> Iterator[EventRun]:
        """Yield the same events in runs of about this many bytes, or of one larger event.

        Runs of small events are alike: a short one at the end would cost Spark as much as others.
        """
        begin, count = 0, len(self.starts)
        ends = self.starts + self.lengths
        total = int(ends[-1] - self.starts[0])
        # A run ends with an event, on average half of one before its limit.
        room = total // max(1, round(total / size_bytes)) + total // count
        while begin < count:
            limit = self.starts[begin] + room
            end = max(begin + 1, int(numpy.searchsorted(ends, limit, side="right")))
            yield replace(self, starts=self.starts[begin:end], lengths=self.lengths[begin:end])
            begin = end


@dataclass(frozen=True, slots=True, kw_only=True)
class BadStretch:
    """Bytes that are skipped, since no event begins where one should.

    Attributes:
        offset: where it begins, in the segment.
        end: where reading continues: at an append border, or at the end.
        reason: what is wrong at ``offset``.
    """

    offset: int
    end: int
    reason: str


EVENT_READ_BYTES: Final = 4 * MIB
"""Events are searched in many places of a read at once, so larger reads cost less for each."""

NO_EVENT = "no event begins here"
CUT_OFF = "event is cut off"


def read_event_runs(
    read: Callable[[bytes, int], BufferStretch],
    start: int,
    stop: int,
    end: int,
    *,
    segment: str,
    borders: Sequence[int] = (),
    joined: bool = False,
    tolerant: bool = False,
) -> Iterator[EventRun | BadStretch]:
    """Yield the events that begin in ``[start, stop)``, some at a time, in their order.

    Args:
        read: see ``ByteSource.read``.
        start: where an event begins.
        stop: end of the range, above ``start`` and at most ``end``.
        end: end of the segment.
        segment: its name.
        borders: append borders in the range, ascending: where a tolerant read continues.
        joined: another range begins at ``stop``.
        tolerant: yield what is malformed as a ``BadStretch`` instead of raising.

    Raises:
        MalformedEventError: no event begins where one should, or the segment ends inside one; or
            the last event does not end at ``stop`` though it is ``joined``.
    """
    offset, kept = start, b""
    while (position := offset - len(kept)) < stop:
        stretch = read(kept, offset)
        base = position - stretch.begin
        found = find_events(stretch.buffer, stretch.begin, stretch.end)
        count = int(numpy.searchsorted(found.starts, stop - base))
        if count:
            yield EventRun(
                base=base,
                buffer=stretch.buffer,
                starts=found.starts[:count],
                lengths=found.lengths[:count],
            )
        if count < len(found.starts):
            position = base + int(found.starts[count])
            break
        position, offset = base + found.end, base + stretch.end
        kept = bytes(stretch.view(found.end, stretch.end))
        if position >= stop:
            break
        if not found.malformed and position + found.needed <= end:
            continue  # the rest of the event comes with the next bytes
        reason = NO_EVENT if found.malformed else CUT_OFF
        if not tolerant:
            raise MalformedEventError(reason, segment=segment, offset=position)
        offset, kept = _next_border(borders, position, stop if joined else end), b""
        yield BadStretch(offset=position, end=offset, reason=reason)
    if joined and position != stop:
        raise MalformedEventError(
            "an event does not end where an append begins; read it with the option split=none",
            segment=segment,
            offset=position,
            border=stop,
        )


def _next_border(borders: Sequence[int], position: int, last: int) -> int:
    index = bisect_right(borders, position)
    return borders[index] if index < len(borders) else last
