"""Reads of a container's segments and tables, shared by owners and read-only opens.

A read takes the flushed part from chunks and the rest from the tail; both parts are of one
acknowledged moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from siltstone.container.models.segments import ChunkInfo, SegmentInfo, TableValue, rule_of_row
from siltstone.container.reads.self_checked import SelfCheckedReads
from siltstone.container.state.kept_tail import KeptTail
from siltstone.container.state.open_segment import OpenSegment
from siltstone.container.state.recent_places import RecentPlaces
from siltstone.container.state.replica import Replica
from siltstone.container.state.segment_map import BegunMap, SegmentMap, map_segment
from siltstone.container.state.table_snapshots import (
    SCAN_BYTES_MAX,
    SCAN_ROWS_MAX,
    LivingSnapshot,
    TableSnapshots,
)
from siltstone.container.state.tail import Fetch
from siltstone.core.errors import (
    LostDataError,
    OffsetError,
    SegmentNotFoundError,
    SegmentTruncatedError,
    TableNotFoundError,
)
from siltstone.core.records.segment_state import SegmentState
from siltstone.metadata.time_index import append_borders, offset_before
from siltstone.segments.inspect import ChunkExtent
from siltstone.segments.segment_storage import ChunkedSegmentStorage


class Reading:
    """The reading verbs over one replica.

    Attributes:
        replica: what is acknowledged.
        places: where the bytes lie that were read last.
        self_checked: reads for callers that verify what they get.
        kept: fetches what the replica left in the log; ``None`` where it leaves nothing there.
    """

    def __init__(
        self, replica: Replica, segments: ChunkedSegmentStorage, kept: KeptTail | None = None
    ) -> None:
        self.replica = replica
        self.kept = kept
        self.places = RecentPlaces(replica.tables, segments.near)
        self.self_checked = SelfCheckedReads(replica, segments)
        self._segments = segments
        self._snapshots = TableSnapshots(replica.tables)

    # --- segments ---------------------------------------------------------------------------------

    def segment(self, name: str) -> OpenSegment:
        """The acknowledged segment of this name. Raises ``SegmentNotFoundError``."""
        segment = self.replica.find(name)
        if segment is None:
            raise SegmentNotFoundError("no such segment", segment=name)
        return segment

    def info(self, name: str) -> SegmentInfo:
        """What is acknowledged of a segment."""
        segment = self.segment(name)
        return self._info(segment.state, segment.length, segment.flushed)

    def list_segments(self, prefix: str, start_after: str, limit: int) -> list[SegmentInfo]:
        """The next ``limit`` segments whose names start with ``prefix``, in the order of names."""
        found = []
        replica = self.replica
        for name, segment_id in replica.rows.segments(prefix, start_after, limit):
            segment = replica.by_id.get(segment_id)
            if segment is not None:
                found.append(self._info(segment.state, segment.length, segment.flushed))
                continue
            state = replica.rows.state(segment_id)
            if state is None:
                raise LostDataError("a name without a state", where=f"segment {name}")
            flushed = replica.flushed_length(segment_id)
            found.append(self._info(state, flushed, flushed))
        return found

    def info_of_new(self, state: SegmentState, attributes: Mapping[str, str]) -> SegmentInfo:
        """What is acknowledged of a segment that was just made."""
        return self._info(state, 0, 0, dict(attributes))

    def _info(
        self,
        state: SegmentState,
        length: int,
        flushed: int,
        attributes: dict[str, str] | None = None,
    ) -> SegmentInfo:
        row = self.replica.rules.rule_of(state.name)
        if attributes is None:
            attributes = self.replica.rows.attributes(state.segment_id)
        return SegmentInfo(
            name=state.name,
            segment_id=state.segment_id,
            start_offset=state.start_offset,
            length=length,
            flushed_length=flushed,
            sealed=state.sealed_length is not None,
            created_ms=state.created_ms,
            retention=None if row is None else rule_of_row(row),
            attributes=attributes,
        )

    def chunks(self, name: str, start: int, limit: int) -> list[ChunkInfo]:
        """Where the flushed bytes from ``start`` on lie, in order."""
        segment = self.segment(name)
        return [chunk_info(row) for row in self._segments.chunks(segment.segment_id, start, limit)]

    def map(self, name: str, start: int | None, end: int | None) -> BegunMap:
        """Look now where ``[start, end)`` lies.

        ``None`` means from the first readable byte, to the end.

        Raises:
            SegmentNotFoundError: there is no such segment.
            SegmentTruncatedError: ``start`` lies below the readable range.
            OffsetError: ``start`` or ``end`` lies beyond the end.
            ValueError: ``end`` lies below ``start``.
        """
        info = self.info(name)
        begin = info.start_offset if start is None else start
        stop = info.length if end is None else end
        segment = self.segment(name)
        for offset in (begin, stop):
            self._available(segment, offset, 0)
        if stop < begin:
            raise ValueError(f"end {stop} lies below start {begin}")
        lineage = self.replica.tables.lineage
        return map_segment(info, lineage, segment, self._segments, begin, stop)

    def offset_at(self, name: str, time_ms: int, now_ms: int) -> int:
        """The last known append border with only bytes below that are older than ``time_ms``.

        Every byte appended at ``time_ms`` or later, milliseconds since 1970, is at or beyond it.
        The first readable offset when there is no such border; the length when all is older. Bytes
        with a time later than ``now_ms`` were appended before what follows them, and at the end of
        the segment now.
        """
        segment = self.segment(name)
        return offset_before(
            self.replica.tables,
            segment.segment_id,
            segment.state.start_offset,
            segment.flushed,
            (piece.appended for piece in segment.tail.pieces),
            time_ms,
            now_ms,
        )

    async def read(self, name: str, offset: int, length: int) -> bytes:
        """Return what there is of ``[offset, offset + length)``; at the end ``b""``."""
        segment = self.segment(name)
        available = self._available(segment, offset, length)
        if offset >= segment.flushed and available:
            whole = segment.tail.read_whole(offset, available)
            if whole is not None:
                return whole
        buffer = bytearray(available)
        count = await self._fill(segment, offset, memoryview(buffer))
        del buffer[count:]
        return bytes(buffer)

    async def read_into(self, name: str, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset`` on; return the count, fewer only at the end."""
        segment = self.segment(name)
        return await self._fill(
            segment, offset, buffer[: self._available(segment, offset, len(buffer))]
        )

    def _available(self, segment: OpenSegment, offset: int, length: int) -> int:
        if offset < segment.state.start_offset:
            raise SegmentTruncatedError(
                segment=segment.name, offset=offset, start_offset=segment.state.start_offset
            )
        if offset > segment.length:
            raise OffsetError(
                "read beyond the end", segment=segment.name, expected=segment.length, actual=offset
            )
        return min(length, segment.length - offset)

    async def _fill(self, segment: OpenSegment, offset: int, buffer: memoryview) -> int:
        if not buffer:
            return 0
        flushed = segment.flushed
        from_chunks = max(0, min(len(buffer), flushed - offset))
        lacks: list[Fetch] = []
        if from_chunks < len(buffer):
            # Before anything is awaited: what is in the tail now may be in chunks only later.
            copied = segment.tail.read_into(offset + from_chunks, buffer[from_chunks:], lacks)
            assert copied == len(buffer) - from_chunks, "the tail has a gap"
        if not from_chunks and not lacks:
            return len(buffer)
        with segment.in_use():
            if from_chunks:
                part = buffer[:from_chunks]
                count = await self._segments.read_into(segment.segment_id, offset, part)
                assert count == from_chunks, "flushed bytes are all there or an error says why not"
                self._note(segment, offset, offset + from_chunks)
            if lacks:
                assert self.kept is not None, "who keeps places can fetch"
                await self.kept.fill(lacks)
        return len(buffer)

    def _note(self, segment: OpenSegment, offset: int, end: int) -> None:
        """Remember the place of what was read, if the name still belongs to that segment."""
        if self.replica.by_name.get(segment.name) is segment:
            self.places.note(segment.name, segment.segment_id, offset, end)

    async def wait_for_length(self, name: str, offset: int, timeout_s: float) -> SegmentInfo:
        """Wait until the segment is longer than ``offset``, or sealed, or the time is over."""
        segment = self.segment(name)
        with segment.in_use(), suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while (
                    segment.length <= offset
                    and segment.state.sealed_length is None
                    and not segment.state.deleted
                ):
                    await segment.changed()
        return self.info(name)

    def append_borders(self, name: str, start: int, end: int) -> list[int]:
        """Offsets in ``(start, end)`` at which appends begin, ascending: one in each MiB or so.

        Bytes that came by a concat have none between them. A flush that cut an append leaves a
        border that is none until the next flush, so they are only good guesses.
        """
        segment = self.segment(name)
        found = set(append_borders(self.replica.tables, segment.segment_id, start, end))
        found.update(piece.offset for piece in segment.tail.pieces)
        return sorted(offset for offset in found if start < offset < end)

    # --- tables -----------------------------------------------------------------------------------

    def table_id(self, table: str) -> int:
        """Id of a table. Raises ``TableNotFoundError``."""
        table_id = self.replica.rows.table_id(table)
        if table_id is None:
            raise TableNotFoundError("no such table", table=table)
        return table_id

    def table_get(self, table: str, key: bytes) -> TableValue | None:
        """The acknowledged value of a key."""
        return self.replica.tables.get(self.table_id(table), key)

    def table_value(self, table: str, key: bytes) -> bytes | None:
        """What ``table_get`` gives, without the version."""
        return self.replica.tables.value(self.table_id(table), key)

    def table_scan(
        self, table: str, start: bytes, end: bytes | None, *, reverse: bool, limit: int
    ) -> list[tuple[bytes, TableValue]]:
        """Acknowledged entries of ``[start, end)`` in order, at most ``limit``, at most 10,000.

        Fewer come when they have 1 MiB together; none only when there is none.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        return self.replica.tables.scan(
            self.table_id(table),
            start,
            end,
            reverse=reverse,
            limit=min(limit, SCAN_ROWS_MAX),
            bytes_max=SCAN_BYTES_MAX,
        )

    def table_snapshot(self, table: str, ttl_s: float) -> LivingSnapshot:
        """See ``TableSnapshots.take``."""
        return self._snapshots.take(table, self.table_id(table), ttl_s)

    def list_tables(self, prefix: str, start_after: str, limit: int) -> list[str]:
        """Names of tables, in order."""
        return [name for name, _ in self.replica.rows.table_names(prefix, start_after, limit)]


def chunk_info(row: ChunkExtent) -> ChunkInfo:
    """Where a run of a segment's bytes lies, for callers."""
    return ChunkInfo(
        start=row.extent.start,
        length=row.extent.length,
        chunk=row.chunk.name,
        chunk_offset=row.extent.chunk_offset,
        chunk_length=row.chunk.length,
        epoch=row.chunk.epoch,
        crc32c=row.crc,
    )


async def whole_map(reading: Reading, name: str, start: int | None, end: int | None) -> SegmentMap:
    """See ``Reading.map``; with its tail. Raises as ``KeptTail.fill``."""
    return await reading.map(name, start, end).whole(reading.kept)
