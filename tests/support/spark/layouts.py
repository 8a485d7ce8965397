"""Segments laid out by hand: any bytes, cut anywhere, in chunks of a real chunk storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.container.models.segments import SegmentInfo
from siltstone.container.state.segment_map import SegmentMap
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.storage.block_sums import extend_sums
from siltstone.pipelines.byte_source import FAR_READ_BYTES, READ_BYTES
from siltstone.pipelines.window import Window, cut_window
from siltstone.segments.inspect import ChunkExtent
from siltstone.spark.columns import arrow_schema, default_schema
from siltstone.spark.options import ANY, Mode, ReadOptions, Split
from siltstone.spark.ranges import (
    RecordRange,
    borders_between,
    check_span,
    check_tail,
    cuts_of,
    plan_ranges,
    range_size,
)
from siltstone.spark.record_borders import begins_event
from siltstone.spark.rows import RowShape

SEGMENT_ID = 7
UUID = "00000000-0000-4000-8000-000000000007"
LEAD = b"lead\n"
TRAIL = b"\ntrail"


def expected_lines(data: bytes) -> list[bytes]:
    """The lines of ``data`` as Python splits them; no line after a last newline."""
    lines = data.split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


class LaidOut:
    """A segment ``data`` whose flushed part is cut into chunks.

    Args:
        data: all bytes that were ever appended.
        cuts: where chunks end, ascending; the last is the flushed length.
        start: start offset.
        foreign: chunks hold other bytes before and after the segment's.
        borders: where appends begin, as far as the store knows.
    """

    def __init__(
        self,
        data: bytes,
        cuts: Sequence[int] = (),
        *,
        start: int = 0,
        foreign: bool = False,
        borders: Sequence[int] = (),
    ) -> None:
        self.data = data
        self.borders = borders
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
            lineage=bytes(16),
            start=start,
            end=end,
            extents=tuple(
                row for row in self.extents if row.extent.end > start and row.extent.start < end
            ),
            tail_offset=tail_offset,
            tail=self.data[tail_offset:end],
        )

    def plan(self, options: ReadOptions, cores: int = 2) -> list[RecordRange]:
        span = check_span(options, self.info)
        segment = self.map(*span.mapped())
        check_tail(segment)
        size = range_size(span.stop - span.start, options.range_bytes, cores)
        borders: list[int] = []
        cuts = cuts_of(options, segment, span, size)
        if options.mode is Mode.EVENTS and options.split is Split.AUTO:
            known = {row.extent.start for row in segment.extents} | set(self.borders)
            borders = sorted(offset for offset in known if span.start < offset < span.stop)

            async def begins(offset: int) -> bool:
                return await begins_event(self.read, offset, span.end)

            flushed = segment.tail_offset
            chosen = borders_between(span.start, span.stop, flushed, size, borders, begins)
            cuts = asyncio.run(chosen)
        return plan_ranges(options, UUID, segment, span, cuts, borders)

    async def read(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def window(self, offset: int) -> Window:
        """Look up the next three bytes: a range that needs more has to ask again and again."""
        self.look_ups.append(offset)
        end = min(len(self.data), offset + 3)
        return cut_window(self.map(offset, end), offset, end)

    def rows(
        self,
        part: RecordRange,
        wanted: ReadOptions,
        schema: StructType | None = None,
        look_up: Callable[[int], Window] | None = None,
    ) -> list[dict[str, Any]]:
        """The rows of one range, as a task reads them."""
        arrow = arrow_schema(wanted, default_schema(wanted) if schema is None else schema)
        shape = RowShape(options=wanted, schema=arrow)
        # Storage in memory counts as far away; batches of events are cut smaller than reads.
        most = 2 * (READ_BYTES if wanted.mode is Mode.EVENTS else FAR_READ_BYTES)
        found = []
        # All are held before one is looked at: none may change when the next one is read.
        for batch in list(shape.read(self.storage, part, look_up or self.window)):
            batch.validate()
            assert batch.nbytes <= most or batch.num_rows == 1
            assert batch.schema == arrow
            found += batch.to_pylist()
        return found

    def lines(
        self, part: RecordRange, look_up: Callable[[int], Window] | None = None
    ) -> Iterator[bytes]:
        """The lines of one range."""
        schema = StructType().add("value", "binary")
        for row in self.rows(part, options(), schema, look_up):
            yield row["value"]


def options(*, start: int | None = None, stop: int | None = None, **others: Any) -> ReadOptions:
    def offset(value: int | None) -> Mapping[str, int] | None:
        return None if value is None else {ANY: value}

    return ReadOptions(
        store="/s", segments=("s",), start=offset(start), stop=offset(stop), **others
    )
