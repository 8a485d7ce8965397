"""Events in a segment: a length, a check of the length, and the bytes. See docs/formats/events.md.

``encode`` makes bytes that any append takes, ``read_events`` gives the events of a segment back,
and ``Writer`` takes many small ones. An event that one append writes as a whole is there whole or
not at all, whatever fails. Nothing here needs more than the package itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from siltstone.container.reads.same_segment import same_segment
from siltstone.core.bytes_like import as_bytes, byte_view
from siltstone.core.checksums import crc32c
from siltstone.core.closed_on_exit import Closing
from siltstone.core.constants import GIB, MIB
from siltstone.core.errors import CorruptDataError
from siltstone.core.whole_number import whole_number

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike
    from siltstone.store.blocking.segment import Segment
    from siltstone.store.blocking.writer import BufferedWriter
    from siltstone.store.handles.event_buffer import DurableEvents

__all__ = [
    "EVENT_BYTES_MAX",
    "HEADER_BYTES",
    "Event",
    "EventDecoder",
    "MalformedEventError",
    "Writer",
    "append_events",
    "check_of",
    "encode",
    "encode_many",
    "header",
    "read_events",
]

HEADER_BYTES: Final = 8
EVENT_BYTES_MAX: Final = GIB
"""Most bytes of an event without its header. One append takes less, see ``append_bytes_max``."""

READ_BYTES: Final = MIB
_BUFFER_BYTES: Final = 32 * MIB
_HEADER: Final = struct.Struct(">II")
_LENGTH: Final = struct.Struct(">I")


class MalformedEventError(CorruptDataError):
    """There is no event where one should begin, or it is cut off.

    Attributes:
        segment: name of the segment; empty when the bytes are of none.
        offset: where the event should begin, in the segment.
    """

    def __init__(self, message: str, *, segment: str, offset: int, **facts: object) -> None:
        where = f"segment {segment}" if segment else "bytes"
        super().__init__(message, where=where, offset=offset, **facts)
        self.segment = segment
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        offset: where its header begins, in the segment.
        payload: its bytes.
    """

    offset: int
    payload: bytes

    @property
    def end(self) -> int:
        """The offset after it, where the next one begins."""
        return self.offset + HEADER_BYTES + len(self.payload)


@lru_cache(maxsize=65_536)
def check_of(length: int) -> int:
    """The check that follows a length: the CRC32C of its four bytes."""
    return crc32c(_LENGTH.pack(length))


def header(length: int) -> bytes:
    """The eight bytes before an event of ``length`` bytes. Raises ``ValueError`` beyond 1 GiB."""
    if not 0 <= length <= EVENT_BYTES_MAX:
        raise ValueError(f"an event has between 0 and {EVENT_BYTES_MAX} bytes, not {length}")
    return _HEADER.pack(length, check_of(length))


def encode(payload: BytesLike) -> bytes:
    """One event as it is stored in a segment. Raises ``ValueError`` beyond 1 GiB."""
    view = byte_view(payload, what="an event")
    return b"".join((header(view.nbytes), view))


def encode_many(payloads: Iterable[BytesLike]) -> bytes:
    """Events one after the other, as one append takes them. Raises like ``encode``."""
    parts: list[bytes | memoryview] = []
    for payload in payloads:
        view = byte_view(payload, what="an event")
        parts.append(header(view.nbytes))
        parts.append(view)
    return b"".join(parts)


class EventDecoder:
    """Finds the events in bytes that come piece by piece, cut anywhere.

    It never continues after a malformed event: where the next one begins is not known then.

    Args:
        offset: of the first byte, in the segment; an event begins there.
        segment: its name, for errors.

    Attributes:
        offset: where the first event begins that was not given yet.
    """

    def __init__(self, offset: SupportsIndex = 0, *, segment: str = "") -> None:
        self.offset = whole_number(offset, what="offset")
        self._segment = segment
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._needed = HEADER_BYTES

    def feed(self, data: BytesLike) -> list[Event]:
        """Take the next bytes; return the events that end in them.

        Events before a malformed one are returned first; the next call reports the malformed one.

        Raises:
            MalformedEventError: a length is too large, or does not have its check.
        """
        self._pieces.append(as_bytes(data))
        self._held_bytes += len(self._pieces[-1])
        if self._held_bytes < self._needed:
            return []  # a long event comes in many pieces, and they are joined once
        held = b"".join(self._pieces)
        self._pieces = [held]
        found: list[Event] = []
        position, end = 0, len(held)
        while end - position >= HEADER_BYTES:
            length, check = _HEADER.unpack_from(held, position)
            if length > EVENT_BYTES_MAX or check != check_of(length):
                if not found:
                    raise self._malformed()
                self._needed = HEADER_BYTES
                break
            begin = position + HEADER_BYTES
            if begin + length > end:
                self._needed = HEADER_BYTES + length
                break
            found.append(Event(self.offset + position, held[begin : begin + length]))
            position = begin + length
        else:
            self._needed = HEADER_BYTES
        if position:
            self._pieces, self._held_bytes = [held[position:]], end - position
            self.offset += position
        return found

    def finish(self) -> None:
        """Say that nothing follows. Raises ``MalformedEventError`` unless all was given."""
        if self._held_bytes >= self._needed:
            raise self._malformed()
        if self._held_bytes:
            raise MalformedEventError(
                "event is cut off",
                segment=self._segment,
                offset=self.offset,
                bytes=self._held_bytes,
                needed=self._needed,
            )

    def _malformed(self) -> MalformedEventError:
        return MalformedEventError(
            "no event begins here", segment=self._segment, offset=self.offset
        )


def read_events(
    segment: Segment, offset: SupportsIndex | None = None, *, end: SupportsIndex | None = None
) -> Iterator[Event]:
    """Yield the events of a segment, in constant memory but for the longest one.

    Args:
        segment: where they are.
        offset: where an event begins, such as ``Event.end`` of one that was read before; ``None``
            means the first readable offset.
        end: events that begin at or beyond it are left out; ``None`` means the length as it is
            now. To follow a segment, feed an ``EventDecoder`` with ``segment.follow(offset)``.

    Raises:
        MalformedEventError: no event begins where one should, or the segment ends inside one.
        SegmentNotFoundError: there is no such segment, or it was deleted meanwhile, whether or not
            its name is used again.
        SegmentTruncatedError: ``offset`` lies below the readable range.
        OffsetError: ``offset`` lies beyond the end.
    """
    info = segment.info()
    position = info.start_offset if offset is None else whole_number(offset, what="offset")
    stop = info.length if end is None else min(whole_number(end, what="end"), info.length)
    decoder = EventDecoder(position, segment=segment.name)
    while decoder.offset < stop:
        data = segment.read(position, min(READ_BYTES, info.length - position))
        same_segment(info.segment_id, segment.info())
        if not data:
            decoder.finish()
            return
        position += len(data)
        for event in decoder.feed(data):
            if event.offset >= stop:
                return
            yield event


def append_events(
    segment: Segment, payloads: Iterable[BytesLike], *, expected_offset: SupportsIndex | None = None
) -> int:
    """Append events as one append, all or none; return where the first begins.

    Raises:
        AppendTooLargeError: they do not fit in one append.
        ValueError: one of them is longer than 1 GiB.
        SiltstoneError: whatever ``Segment.append`` raises.
    """
    return segment.append(encode_many(payloads), expected_offset=expected_offset)


class Writer(Closing):
    """Takes events of any thread at once, appends them in batches. See ``Segment.buffered``.

    Args:
        segment: where they go.
        buffer_bytes: most that waits in memory, headers included.
        on_durable: called on a thread of the store with what became durable; the lengths that it
            gets are those of the events with their headers.
    """

    def __init__(
        self,
        segment: Segment,
        *,
        buffer_bytes: int = _BUFFER_BYTES,
        on_durable: Callable[[DurableEvents], None] | None = None,
    ) -> None:
        self._writer: BufferedWriter = segment.buffered(
            buffer_bytes=buffer_bytes, on_durable=on_durable
        )

    def __repr__(self) -> str:
        return f"events.{self._writer!r}"

    @property
    def written_count(self) -> int:
        """Events that were taken; the number of the next one."""
        return self._writer.written_count

    @property
    def durable_count(self) -> int:
        """Events that are durable: those whose number is below it."""
        return self._writer.durable_count

    def write(self, payload: BytesLike) -> int:
        """Take one event and return its number. Raises like ``AsyncBufferedWriter.write``."""
        return self._writer.write(encode(payload))

    def flush(self) -> int:
        """Return when what was written is durable: the offset after the last durable event."""
        return self._writer.flush()

    def pending(self) -> list[bytes]:
        """The events that are not durable for certain, without their headers."""
        return [event[HEADER_BYTES:] for event in self._writer.pending()]

    def close(self) -> None:
        """Take no more events, and flush. Idempotent."""
        self._writer.close()
