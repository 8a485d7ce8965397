"""Segments laid out by hand: any bytes, cut anywhere, in chunks of a real chunk storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.container.segment_map import SegmentMap
from siltstone.container.views import SegmentInfo
from siltstone.core.block_sums import extend_sums
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.operations.inspect import ChunkExtent
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.spark.byte_source import ByteSource
from siltstone.spark.lines import read_lines
from siltstone.spark.options import ReadOptions
from siltstone.spark.ranges import LineRange, check_offsets, mapped_range, plan_ranges
from siltstone.spark.window import Window, cut_window

SEGMENT_ID = 7
LEAD = b"lead\n"
TRAIL = b"\ntrail"


def expected_lines(data: bytes) -> list[bytes]:
    """The lines of ``data`` as Python splits them; no line behind a last newline."""
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


class LaidOut:
    """A segment ``data`` whose flushed part is cut into chunks.

    Args:
        data: all bytes that were ever appended.
        cuts: where chunks end, ascending; the last is the flushed length.
        start: start offset.
        foreign: chunks hold other bytes before and behind the segment's.
    """

    def __init__(
        self, data: bytes, cuts: Sequence[int] = (), *, start: int = 0, foreign: bool = False
    ) -> None:
        self.data = data
        self.start = start
        self.storage: ChunkStorage = MemoryChunkStorage(Bucket(), Profile())
        self.flushed = cuts[-1] if cuts else 0
        self.extents = self._lay_out(cuts, foreign=foreign)
        self.look_ups: list[int] = []

    def _lay_out(self, cuts: Sequence[int], *, foreign: bool) -> list[ChunkExtent]:
        lead, trail = (LEAD, TRAIL) if foreign else (b"", b"")
        found, begin = [], 0
        for number, end in enumerate(cuts, start=1):
            name = f"chunks/{number}"
            content = lead + self.data[begin:end] + trail
            # The physical chunk may be longer than what is committed.
            self.storage.create(name, [content + b"not committed"])
            extent = Extent(
                segment_id=SEGMENT_ID,
                start=begin,
                chunk_id=number,
                chunk_offset=len(lead),
                length=end - begin,
            )
            chunk = Chunk(chunk_id=number, name=name, epoch=1, length=len(content))
            sums = tuple(extend_sums([content], 0, 0))
            found.append(ChunkExtent(extent=extent, chunk=chunk, sums=sums))
            begin = end
        return found

    @property
    def info(self) -> SegmentInfo:
        return SegmentInfo(
            name="s",
            segment_id=SEGMENT_ID,
            start_offset=self.start,
            length=len(self.data),
            flushed_length=self.flushed,
            sealed=False,
            created_ms=0,
        )

    def map(self, start: int, end: int) -> SegmentMap:
        tail_offset = min(end, max(start, self.flushed))
        return SegmentMap(
            info=self.info,
            start=start,
            end=end,
            extents=tuple(
                row for row in self.extents if row.extent.end > start and row.extent.start < end
            ),
            tail_offset=tail_offset,
            tail=self.data[tail_offset:end],
        )

    def plan(self, options: ReadOptions, cores: int = 2) -> list[LineRange]:
        start, stop = check_offsets(options, self.info)
        segment = self.map(*mapped_range(start, stop, self.info))
        return plan_ranges(options, segment, start, stop, len(self.data), cores)

    def window(self, offset: int) -> Window:
        """Look up the next three bytes: a range that needs more has to ask again and again."""
        self.look_ups.append(offset)
        end = min(len(self.data), offset + 3)
        return cut_window(self.map(offset, end), offset, end)

    def lines(
        self, part: LineRange, look_up: Callable[[int], Window] | None = None
    ) -> Iterator[bytes]:
        """The lines of one range, as a task reads them."""
        source = ByteSource(self.storage, part.window, look_up or self.window)
        views = read_lines(
            source.read, part.start, part.stop, part.end, at_line_start=part.at_line_start
        )
        for view in views:
            yield from bytes(view).split(b"\n")


def options(
    *, range_bytes: int | None = None, start: int | None = None, stop: int | None = None
) -> ReadOptions:
    return ReadOptions(store="/s", segment="s", range_bytes=range_bytes, start=start, stop=stop)
