"""Reads of records that prove themselves, such as those of a value log.

For code of this library that keeps sums in what it appends. Other callers read by the handle to the
segment, which compares whole blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from siltstone.core.errors import ClosedError
from siltstone.segments.page_cache_reads import NEAR_BYTES_MAX

if TYPE_CHECKING:
    from siltstone.container.reads.self_checked import Check
    from siltstone.store.handles.async_segment import AsyncSegment

T = TypeVar("T")


def read_checked_now(
    segment: AsyncSegment, offset: int, length: int, check: Check[T]
) -> tuple[T] | None:
    """What ``check`` makes of ``length`` bytes from ``offset`` on, on any thread.

    Returns:
        ``None`` when only ``read_checked`` can tell: the bytes are not in memory or a local file
        that the system has in memory, or they do not match.

    Raises what ``AsyncSegment.read`` raises when nothing can be read.
    """
    reading = segment._container.tables_now()
    if reading is None:
        return None
    try:
        return reading.self_checked.now(segment.name, offset, length, check)
    except ClosedError:  # just now
        return None


async def read_checked(segment: AsyncSegment, offset: int, length: int, check: Check[T]) -> T:
    """What ``check`` makes of ``length`` bytes from ``offset`` on.

    Exactly these bytes are read, by one request where they lie in one chunk. When they do not
    match, they are read again by blocks with their sums, and shown to ``check`` once more: what it
    raises then is the answer.

    Args:
        segment: where they are; of this store.
        offset: in bytes.
        length: in bytes; fewer are shown to ``check`` where the segment ends before.
        check: returns what the bytes mean, after it compared all of them with a sum in them, and
            raises ``CorruptDataError`` when they do not match. It keeps no reference to them.

    Raises what ``AsyncSegment.read`` and ``check`` raise.
    """
    if length <= NEAR_BYTES_MAX:
        found = read_checked_now(segment, offset, length, check)
        if found is not None:
            return found[0]
    reading = segment._container.tables_now()
    if reading is not None:
        found = await reading.self_checked.read(segment.name, offset, length, check)
        if found is not None:
            return found[0]
    return check(await segment.read(offset, length))
