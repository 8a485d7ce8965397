"""What can still be read of a segment: bytes whose sums do not match as they are, others as zeros.

Records and large values prove themselves. So what is whole among such bytes is found whole later,
and the rest is found lost, as it is in the segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import CorruptDataError
from siltstone.objects.compaction_plan import UNREADABLE
from siltstone.store.handles.self_checked import read_checked

if TYPE_CHECKING:
    from siltstone.store.handles.async_segment import AsyncSegment

READ_BYTES: Final = 16 * BLOCK_BYTES
"""Read at a time. Where that fails, blocks are read, since each has a sum."""


class UnreadableBytes(NamedTuple):
    """Bytes of a segment that are damaged or gone.

    Attributes:
        start: offset of the first one.
        stop: offset after the last one.
        reason: what a read of them said.
    """

    start: int
    stop: int
    reason: str


async def readable(
    segment: AsyncSegment, start: int, stop: int
) -> tuple[list[bytes], list[UnreadableBytes]]:
    """Return the bytes of a range in order, and which of them are not as they were written.

    Args:
        segment: whose bytes they are; it need not be there.
        start: offset of the first byte.
        stop: offset after the last one.

    Raises:
        ChunkError: long-term storage refused, or did not answer.
    """
    buffers: list[bytes] = []
    gaps: list[UnreadableBytes] = []
    for begin in range(start, stop, READ_BYTES):
        end = min(begin + READ_BYTES, stop)
        try:
            buffers.append(await _whole(segment, begin, end))
        except UNREADABLE:
            for first in range(begin, end, BLOCK_BYTES):
                data, gap = await _block(segment, first, min(first + BLOCK_BYTES, end))
                buffers.append(data)
                if gap is not None:
                    _add(gaps, gap)
    return buffers, gaps


async def _whole(segment: AsyncSegment, start: int, stop: int) -> bytes:
    data = await segment.read(start, stop - start)
    if len(data) != stop - start:
        raise CorruptDataError("segment is cut", where=segment.name, at=start + len(data))
    return data


async def _block(
    segment: AsyncSegment, start: int, stop: int
) -> tuple[bytes, UnreadableBytes | None]:
    try:
        return await _whole(segment, start, stop), None
    except UNREADABLE as error:
        gap = UnreadableBytes(start, stop, str(error))
    try:
        data = await read_checked(segment, start, stop - start, bytes)
    except UNREADABLE:
        data = b""
    return data.ljust(stop - start, b"\0"), gap


def _add(gaps: list[UnreadableBytes], gap: UnreadableBytes) -> None:
    """Add one, or let the last one reach to its end."""
    if gaps and gaps[-1].stop == gap.start:
        gaps[-1] = gaps[-1]._replace(stop=gap.stop)
    else:
        gaps.append(gap)
