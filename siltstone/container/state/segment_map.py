"""Where a stretch of a segment lies at one moment: what a reader in another process needs.

Only frozen values and one look at rows and memory; nothing here waits or reads a chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from siltstone.container.models.segments import SegmentInfo
from siltstone.container.state.kept_tail import KeptTail
from siltstone.container.state.open_segment import OpenSegment
from siltstone.container.state.tail import Fetch
from siltstone.segments.inspect import ChunkExtent
from siltstone.segments.segment_storage import ChunkedSegmentStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMap:
    """The bytes ``[start, end)`` of a segment: the flushed ones by place, the others themselves.

    Attributes:
        info: the segment at that moment.
        lineage: of its container; after a recovery with loss the offsets may have other bytes.
        start: first offset.
        end: offset after the last byte.
        extents: where the flushed bytes lie, in order; the first and the last may reach beyond.
        tail_offset: where ``tail`` begins; ``end`` when it is empty.
        tail: the acknowledged bytes that are in no chunk yet.
    """

    info: SegmentInfo
    lineage: bytes
    start: int
    end: int
    extents: tuple[ChunkExtent, ...]
    tail_offset: int
    tail: bytes


@dataclass(frozen=True, slots=True)
class BegunMap:
    """A map whose moment is over; the log may still have some of its tail."""

    map: SegmentMap
    tail: bytearray
    lacks: list[Fetch]

    async def whole(self, kept: KeptTail | None) -> SegmentMap:
        """The map with its tail. Raises as ``KeptTail.fill``."""
        if self.lacks:
            assert kept is not None, "who keeps places can fetch"
            await kept.fill(self.lacks)
        return replace(self.map, tail=bytes(self.tail))


def map_segment(
    info: SegmentInfo,
    lineage: bytes,
    segment: OpenSegment,
    storage: ChunkedSegmentStorage,
    start: int,
    end: int,
) -> BegunMap:
    """Map ``[start, end)``, which lies in the readable range; ``info`` and all rows are current."""
    extents: list[ChunkExtent] = []
    flushed_end = min(end, segment.flushed)
    position = start
    while position < flushed_end:
        # An extent at a time: each brings the sums of its whole chunk.
        found = storage.chunks(segment.segment_id, position, 1)
        extents += found
        position = found[-1].extent.end if found else flushed_end
    tail_offset = min(end, max(start, segment.flushed))
    tail = bytearray(end - tail_offset)
    lacks: list[Fetch] = []
    copied = segment.tail.read_into(tail_offset, memoryview(tail), lacks) if tail else 0
    assert copied == len(tail), "the tail has a gap"
    found_map = SegmentMap(
        info=info,
        lineage=lineage,
        start=start,
        end=end,
        extents=tuple(extents),
        tail_offset=tail_offset,
        tail=b"",
    )
    return BegunMap(found_map, tail, lacks)
