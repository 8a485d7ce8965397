"""Maps of segments of an open store, for code of this library whose workers read chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.container.state.segment_map import SegmentMap
    from siltstone.store.handles.async_segment import AsyncSegment


async def pinned_segments(
    segment: AsyncSegment, ends: Mapping[str, int], ttl_s: float
) -> dict[str, SegmentMap]:
    """Map segments of one container, and keep the chunks of their bytes for ``ttl_s`` seconds.

    Args:
        segment: any one of the container; its store may be read-only.
        ends: by name of each segment the offset at which its map ends, at most its length. What
            is not flushed is in the map itself.
        ttl_s: seconds, above 0. The pin stays when the store is closed, and ends by itself.

    Returns:
        The maps by name; none, and nothing is pinned, where no segment is named.

    Raises:
        SegmentNotFoundError: there is no such segment now.
        OffsetError: one is shorter.
        ChunkError: the pin could not be written, or storage did not answer.
    """
    if not ends:
        return {}
    pinned = await segment._container.pins.pinned_maps(lambda _: list(ends.items()), ttl_s)
    assert pinned is not None, "something is chosen"
    return {found.info.name: found for found in pinned.maps}


@asynccontextmanager
async def held_segments(
    segment: AsyncSegment, ends: Mapping[str, int], ttl_s: float
) -> AsyncIterator[dict[str, SegmentMap]]:
    """``pinned_segments`` for the block; the chunks may go when it ends, or after ``ttl_s``."""
    async with segment._container.pins.held_maps(lambda _: list(ends.items()), ttl_s) as maps:
        yield {found.info.name: found for found in maps}
