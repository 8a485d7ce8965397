"""Reads of bytes that their reader verifies: exactly these bytes, not the blocks they lie in.

No caller gets bytes here without a check of them. Whatever is not as it should be is no answer: the
ordinary read tells what it is, by the sums of blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from siltstone.container.state.lasting_places import LastingPlaces
from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError

if TYPE_CHECKING:
    from siltstone.container.state.replica import Replica
    from siltstone.segments.segment_storage import ChunkedSegmentStorage

T = TypeVar("T")

Check = Callable[[Buffer], T]
"""Returns what bytes mean, after it compared all of them with a sum that is in them.

Raises ``CorruptDataError`` when they do not match. It is called on any thread, keeps no reference
to the bytes, and may be asked twice.
"""


class SelfCheckedReads:
    """Reads over one replica.

    Args:
        replica: what is acknowledged.
        segments: reads chunks.
    """

    def __init__(self, replica: Replica, segments: ChunkedSegmentStorage) -> None:
        self._replica = replica
        self._segments = segments
        self._places = LastingPlaces(segments.near)

    def now(self, name: str, offset: int, length: int, check: Check[T]) -> tuple[T] | None:
        """What the check makes of ``length`` bytes from ``offset`` on. On any thread.

        Returns:
            ``None`` when they are not in this machine's memory, or do not match.
        """
        data: Buffer | None = None
        place = self._places.find(name, offset, offset + length)
        if place is not None:
            buffer = bytearray(length)
            if place.read_unverified(offset, buffer):
                data = buffer
        if data is None:
            segment = self._replica.by_name.get(name)
            data = None if segment is None else segment.tail.read_whole(offset, length)
        return None if data is None else _checked(data, check)

    async def read(self, name: str, offset: int, length: int, check: Check[T]) -> tuple[T] | None:
        """What the check makes of flushed bytes, read by one call for each chunk of them.

        Returns:
            ``None`` when the ordinary read should be asked: nothing is settled yet.

        Raises:
            OffsetError: ``offset`` lies beyond the flushed length.
            SegmentTruncatedError: it lies below the start of the readable range.
            SegmentNotFoundError: there is no such segment any more.
            ChunkError: long-term storage refused, or did not answer.
        """
        segment = self._replica.find(name)
        if segment is None or not 0 < length <= segment.flushed - offset:
            return None
        self._places.note(name, segment.segment_id, offset)
        buffer = bytearray(length)
        with segment.in_use():
            done = await self._segments.read_unverified(
                segment.segment_id, offset, memoryview(buffer)
            )
        return _checked(buffer, check) if done else None


def _checked(data: Buffer, check: Check[T]) -> tuple[T] | None:
    try:
        return (check(data),)
    except CorruptDataError:
        return None
