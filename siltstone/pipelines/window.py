"""Where some bytes of a segment lie, small enough to travel with a task."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.storage.block_reads import BlockRange
from siltstone.core.storage.block_sums import block_count

if TYPE_CHECKING:
    from siltstone.container.state.segment_map import SegmentMap
    from siltstone.segments.inspect import ChunkExtent


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRun:
    """A run of a segment's bytes in one chunk, with the sums that verify it.

    Attributes:
        start: offset in the segment.
        length: bytes of the run.
        chunk: key on long-term storage.
        chunk_offset: where the run begins in the chunk.
        chunk_length: committed bytes of the chunk.
        sums: CRC32C of each block that the run touches: u32[], little-endian; empty when it is
            in place and has none.
    """

    start: int
    length: int
    chunk: str
    chunk_offset: int
    chunk_length: int
    sums: bytes

    @property
    def end(self) -> int:
        """Offset in the segment after the last byte."""
        return self.start + self.length

    def blocks_at(self, offset: int, length_max: int) -> BlockRange:
        """The bytes from ``offset`` of the segment on, in whole blocks.

        A run without sums is not for this.

        Args:
            offset: lies in the run.
            length_max: about how many bytes; at least one block is given.
        """
        begin = self.chunk_offset + offset - self.start
        first = begin // BLOCK_BYTES
        run_end = self.chunk_offset + self.length
        last = min(block_count(run_end), first + max(1, length_max // BLOCK_BYTES))
        skipped = first - self.chunk_offset // BLOCK_BYTES
        sums = unpack_sums(self.sums[4 * skipped : 4 * (skipped + last - first)])
        return BlockRange(
            name=self.chunk,
            chunk_length=self.chunk_length,
            offset=begin,
            length=min(run_end, last * BLOCK_BYTES) - begin,
            sums=sums,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The bytes ``[start, end)`` of a segment.

    Attributes:
        lineage: of the segment's container.
        start: first offset.
        end: offset after the last byte.
        runs: where the flushed ones lie, contiguous and in order.
        tail_offset: where ``tail`` begins.
        tail: the others themselves.
    """

    lineage: bytes
    start: int
    end: int
    runs: tuple[ChunkRun, ...]
    tail_offset: int
    tail: bytes

    def run_at(self, offset: int) -> ChunkRun:
        """The run that holds ``offset``, which lies in the window and below the tail."""
        return self.runs[bisect_right(self.runs, offset, key=lambda run: run.start) - 1]


def cut_window(segment: SegmentMap, start: int, end: int) -> Window:
    """Cut ``[start, end)`` out of a map that holds it."""
    tail_offset = min(end, max(start, segment.tail_offset))
    skipped = tail_offset - segment.tail_offset
    extents = segment.extents
    first = max(0, bisect_right(extents, start, key=lambda row: row.extent.start) - 1)
    last = bisect_left(extents, tail_offset, key=lambda row: row.extent.start)
    return Window(
        lineage=segment.lineage,
        start=start,
        end=end,
        runs=tuple(
            _run(row, max(start, row.extent.start), min(tail_offset, row.extent.end))
            for row in extents[first : last if start < tail_offset else first]
        ),
        tail_offset=tail_offset,
        tail=segment.tail[skipped : skipped + end - tail_offset] if end > tail_offset else b"",
    )


def _run(row: ChunkExtent, start: int, end: int) -> ChunkRun:
    chunk_offset = row.extent.chunk_offset + start - row.extent.start
    sums = row.sums[chunk_offset // BLOCK_BYTES : block_count(chunk_offset + end - start)]
    return ChunkRun(
        start=start,
        length=end - start,
        chunk=row.chunk.name,
        chunk_offset=chunk_offset,
        chunk_length=row.chunk.length,
        sums=pack_sums(sums),
    )


def pack_sums(sums: tuple[int, ...]) -> bytes:
    """Write sums as u32[], little-endian: many of them travel, and objects would be large."""
    packed = array("I", sums)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_sums(packed: bytes) -> tuple[int, ...]:
    """Read what ``pack_sums`` wrote."""
    sums = array("I")
    sums.frombytes(packed)
    if sys.byteorder == "big":
        sums.byteswap()
    return tuple(sums)
