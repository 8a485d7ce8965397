"""Where records begin, asked of a segment a few bytes at a time: for plans over them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from siltstone.core.constants import KIB
from siltstone.events import EVENT_BYTES_MAX, HEADER_BYTES, check_of

Read = Callable[[int, int], Awaitable[bytes]]
"""Reads this many bytes from an offset on."""

LOOK_BYTES: Final = 4 * KIB
EVENTS_IN_A_ROW: Final = 3
"""Bytes that are no header pass for one once in 2**34 places; for three in a row never."""


async def begins_event(read: Read, offset: int, end: int) -> bool:
    """Whether events follow from ``offset`` on: some in a row, or all up to ``end``."""
    position, seen = offset, b""
    base = offset
    for _ in range(EVENTS_IN_A_ROW):
        if position == end:
            return True
        if position + HEADER_BYTES > end:
            return False
        if position + HEADER_BYTES > base + len(seen):
            base, seen = position, await read(position, min(LOOK_BYTES, end - position))
        length = event_length(seen[position - base :])
        if length is None:
            return False
        position += HEADER_BYTES + length
    return position <= end


def event_length(data: bytes) -> int | None:
    """The length that the header at the beginning of ``data`` states; ``None`` if it is none."""
    length = int.from_bytes(data[:4])
    check = int.from_bytes(data[4:HEADER_BYTES])
    return length if length <= EVENT_BYTES_MAX and check == check_of(length) else None
