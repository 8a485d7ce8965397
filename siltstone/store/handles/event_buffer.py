"""Events that wait to be appended, and what became of them. No I/O."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from siltstone.core.errors import AppendTooLargeError, SegmentError, SiltstoneError

EVENT_BYTES: Final = 48
"""What an event takes in memory besides its bytes: a header, and its place in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableEvents:
    """Events that one append made durable.

    Attributes:
        first: number of the first one, counted from 0 for each writer.
        offset: where it begins in the segment; the others follow without a gap.
        lengths: bytes of each.
    """

    first: int
    offset: int
    lengths: tuple[int, ...]

    @property
    def end(self) -> int:
        """The segment's offset after the last one."""
        return self.offset + sum(self.lengths)

    def offsets(self) -> Iterator[int]:
        """Yield where each begins."""
        return accumulate(self.lengths[:-1], initial=self.offset)


class BufferedWriteError(SegmentError):
    """An append of events failed; those after it were not tried.

    The cause is in ``__cause__``. When the outcome is unknown, the events of that append may be in
    the segment, all or none: they begin at ``end`` if nothing else appends.

    Attributes:
        durable_count: the events below this number are durable, and no other is for certain.
        end: the segment's offset after the last durable event; ``None`` when none is.
    """

    def __init__(
        self, *, segment: str, durable_count: int, end: int | None, cause: BaseException
    ) -> None:
        outcome = cause.outcome if isinstance(cause, SiltstoneError) else None
        super().__init__(
            f"only the first {durable_count} events were appended: {cause}",
            segment=segment,
            outcome=outcome,
            end=end,
        )
        self.durable_count = durable_count
        self.end = end


class EventBuffer:
    """Collects events into batches, one append each, and hands them out in their order.

    Thread-safe. There is one batch in the log at a time, so that nothing is ever appended after an
    append that failed.

    Args:
        segment: where they go.
        bound_bytes: most that waits and is on its way; one event is taken whatever its size.
        batch_bytes: of one append; a larger event is an append of its own.
        event_bytes_max: most bytes of one event.
        wake: called by the thread that adds an event while nothing is on its way.

    Attributes:
        written_count: events that were taken.
        durable_count: those of them that are durable.
        end: the segment's offset after the last durable one; ``None`` before the first.
    """

    def __init__(
        self,
        segment: str,
        *,
        bound_bytes: int,
        batch_bytes: int,
        event_bytes_max: int,
        wake: Callable[[], None],
    ) -> None:
        self._segment = segment
        self._lock = threading.Lock()
        self._bound_bytes = bound_bytes
        self._batch_bytes = min(batch_bytes, event_bytes_max)
        self._event_bytes_max = event_bytes_max
        self._wake = wake
        self._idle = True
        self._refusal: Callable[[], Exception] | None = None
        self._sending: list[bytes] = []
        self._batches: deque[list[bytes]] = deque()
        self._events: list[bytes] = []
        self._events_bytes = 0
        self._held_bytes = 0
        self.written_count = 0
        self.durable_count = 0
        self.end: int | None = None

    def add(self, event: bytes) -> int | None:
        """Take ``event`` and return its number; ``None`` when there is no room for it now.

        Raises:
            AppendTooLargeError: no frame of the log can hold it.
            Exception: what ``refuse`` said.
        """
        size = len(event)
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            held = self._held_bytes + size + EVENT_BYTES
            if self._events_bytes + size > self._batch_bytes:
                self._cut(size)
            if held > self._bound_bytes and self._held_bytes:
                return None
            self._held_bytes = held
            self._events_bytes += size
            self._events.append(event)
            number = self.written_count
            self.written_count = number + 1
            idle = self._idle
            self._idle = False
        if idle:
            self._wake()
        return number

    def _cut(self, size: int) -> None:
        """End the batch that is being filled, since ``size`` bytes do not fit in it."""
        if size > self._event_bytes_max:
            limit = self._event_bytes_max
            raise AppendTooLargeError(segment=self._segment, length=size, limit=limit)
        if self._events:
            self._batches.append(self._events)
            self._events, self._events_bytes = [], 0

    def has_room(self, size: int) -> bool:
        """Whether ``add`` would take this many bytes, or refuse whatever it is given."""
        with self._lock:
            held = self._held_bytes + size + EVENT_BYTES
            return held <= self._bound_bytes or not self._held_bytes or self._refusal is not None

    def take(self) -> list[bytes] | None:
        """Return the events of the next append.

        ``None`` when there is none: ``wake`` is called for the next event.
        """
        with self._lock:
            if self._batches:
                self._sending = self._batches.popleft()
            else:
                self._sending, self._events, self._events_bytes = self._events, [], 0
            self._idle = not self._sending
            return self._sending or None

    def landed(self, offset: int) -> DurableEvents:
        """Note that what ``take`` gave is durable from ``offset`` on, and forget it."""
        with self._lock:
            lengths = tuple(map(len, self._sending))
            durable = DurableEvents(first=self.durable_count, offset=offset, lengths=lengths)
            self._sending = []
            self._held_bytes -= sum(lengths) + EVENT_BYTES * len(lengths)
            self.durable_count += len(lengths)
            self.end = durable.end
            return durable

    def refuse(self, refusal: Callable[[], Exception]) -> None:
        """Take no event from now on; what is held stays. The newest refusal is the one raised."""
        with self._lock:
            self._refusal = refusal

    def refuse_after_fork(self, refusal: Callable[[], Exception]) -> None:
        """``refuse`` in a forked child, where a thread that is not there may hold the lock."""
        self._lock = threading.Lock()
        self._refusal = refusal

    def pending(self) -> list[bytes]:
        """Return the events that are not durable for certain, in their order."""
        with self._lock:
            return [
                *self._sending,
                *(event for batch in self._batches for event in batch),
                *self._events,
            ]
