"""Which segments are flushed together, into shared chunks. Pure functions.

On a service that takes no appends every flush makes a chunk, so all segments of a round share
chunks, and a round of two or more makes at most ``1 + bytes / chunk size``. Elsewhere a segment
gets a chunk of its own that later flushes go to without making one, and only many small new ones
in one round are worth scattering their bytes for; for those the same bound holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from siltstone.container.models.settings import FlushPolicy
from siltstone.container.state.open_segment import OpenSegment
from siltstone.core.constants import Buffer
from siltstone.segments.pack import PACKED_COUNT_MIN


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushRange:
    """Bytes ``[start, end)`` of a segment that are to be flushed.

    Attributes:
        segment: the segment.
        start: its flushed length when this was planned.
        end: its length then, or less where a chunk was full.
    """

    segment: OpenSegment
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.start

    @property
    def left(self) -> int:
        """How many of them are not flushed yet; 0 when the segment is deleted."""
        segment = self.segment
        return 0 if segment.state.deleted else max(0, self.end - segment.flushed)


def share_of(segment: OpenSegment) -> FlushRange:
    """All that a segment holds at this moment; where it begins with dead bytes, only those.

    They are passed over without a chunk, and the live bytes beyond them have their turn after that.
    """
    end = segment.length if is_readable(segment) else segment.state.start_offset
    return FlushRange(segment=segment, start=segment.flushed, end=min(end, segment.length))


def is_readable(segment: OpenSegment) -> bool:
    """Whether the next bytes to flush are not truncated already."""
    return segment.state.start_offset <= segment.flushed


def remaining(shares: Iterable[FlushRange]) -> list[FlushRange]:
    """What is left of shares of which some, or parts, were flushed meanwhile."""
    return [
        FlushRange(segment=share.segment, start=share.segment.flushed, end=share.end)
        for share in shares
        if share.left
    ]


def bytes_of(share: FlushRange) -> list[Buffer]:
    """The bytes of a share that begins at its segment's flushed length; nothing is copied."""
    buffers: list[Buffer] = []
    for piece in share.segment.tail.pieces:
        begin, end = max(share.start, piece.offset), min(share.end, piece.end)
        if begin < end:
            buffers.append(memoryview(piece.held)[begin - piece.offset : end - piece.offset])
    return buffers


def is_small(segment: OpenSegment, policy: FlushPolicy) -> bool:
    """Whether the unflushed bytes of a segment may share a chunk."""
    return is_readable(segment) and 0 < segment.length - segment.flushed < policy.pack_bytes


def plan_shares(
    due: Iterable[OpenSegment],
    waiting: Iterable[OpenSegment],
    policy: FlushPolicy,
    takes_append: Callable[[int], bool],
) -> list[list[FlushRange]]:
    """Divide a round of flushes: those of one list are flushed together, a list of one is alone.

    As soon as one small segment is due, all small ones go with it: another few bytes in a chunk
    that is made anyway cost less than a chunk of their own a moment later. Larger ones go when they
    are due, so that theirs are not scattered.

    Args:
        due: segments that have to be flushed now.
        waiting: all that have something to flush, those included.
        policy: what is small, and how many are many.
        takes_append: whether a segment, by its id, has a chunk of its own to append to: that is
            one call, and closing it would be one as well.
    """

    def packable(segment: OpenSegment) -> bool:
        return is_small(segment, policy) and not takes_append(segment.segment_id)

    due = list(due)
    together: dict[int, OpenSegment] = {}
    if any(map(packable, due)):
        together = {segment.segment_id: segment for segment in waiting if packable(segment)}
    if policy.creates_always:
        together |= {segment.segment_id: segment for segment in due if is_readable(segment)}
    if len(together) < policy.pack_count_min:
        together = {}
    planned = [[share_of(segment)] for segment in due if segment.segment_id not in together]
    if together:
        # In the order of their ids, so that neighbours stay neighbours from round to round.
        planned.append([share_of(together[segment_id]) for segment_id in sorted(together)])
    return planned


def fill(shares: Iterable[FlushRange], chunk_bytes: int) -> list[list[FlushRange]]:
    """Fill one chunk after the other, to the last byte: the share at its end may be cut.

    So there are no more than ``1 + bytes / chunk_bytes``. Parts of one segment are in order.
    """
    chunks: list[list[FlushRange]] = []
    room = 0
    for share in shares:
        start = share.start
        while start < share.end:
            if not room:
                chunks.append([])
                room = chunk_bytes
            end = min(share.end, start + room)
            chunks[-1].append(FlushRange(segment=share.segment, start=start, end=end))
            room -= end - start
            start = end
    return chunks


def is_shared(shares: list[FlushRange]) -> bool:
    """Whether there are enough of them for a chunk that is shared."""
    return len(shares) >= PACKED_COUNT_MIN
