"""Concat: the bytes of a sealed segment become the end of another one, of the same container.

A small source is one frame: its bytes appended, the segment deleted, a tombstone. The extents of a
larger one are moved with both segments flushed and the target paused: up to a few hundred by one
transaction, more of them slice by slice, unseen until the last transaction shows them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from siltstone.container.changes.segment_changes import deletion_entries
from siltstone.container.commit.appender import Appender
from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.commit.concat_guard import ConcatGuard
from siltstone.container.commit.owner_context import OwnerContext
from siltstone.container.commit.pipeline import PIECE_BYTES
from siltstone.container.commit.repeats import REFUSALS, confirm_acknowledged
from siltstone.container.commit.tombstones import remember
from siltstone.container.flush.segment_flusher import SegmentFlusher
from siltstone.container.flush.write_through_hooks import WriteThrough
from siltstone.container.reads.reads import Reading
from siltstone.container.state.open_segment import OpenSegment
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    BackPressureError,
    OffsetError,
    SegmentNotFoundError,
    SegmentNotSealedError,
)
from siltstone.core.metrics import CONCAT_BYTES
from siltstone.core.records.piece import TABLE_HEADER
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry, record_length
from siltstone.core.records.tombstone import Tombstone
from siltstone.metadata.time_index import joined_times
from siltstone.segments.concat import CONCAT_EXTENTS_MAX
from siltstone.segments.concat_staging import Joining
from siltstone.segments.segment_storage import ChunkedSegmentStorage

SMALL_BYTES = MIB
TRUNCATIONS_MAX = 10
"""How often a concat begins again because its source was truncated meanwhile."""


class Concatenator:
    """Joins segments of one owned container."""

    def __init__(
        self,
        context: OwnerContext,
        appender: Appender,
        reading: Reading,
        segments: ChunkedSegmentStorage,
        segment_flusher: SegmentFlusher,
        pressure: Pressure,
        joins: ConcatGuard,
        write_through: WriteThrough,
        *,
        on_joined: Callable[[int], None],
    ) -> None:
        pipeline = context.pipeline
        self._pipeline = pipeline
        self._appender = appender
        self._reading = reading
        self._rows = pipeline.replica.rows
        self._segments = segments
        self._segment_flusher = segment_flusher
        self._pressure = pressure
        self._environment = context.environment
        self._deadline_s = context.settings.append_deadline_s
        self._joins = joins
        self._write_through = write_through
        self._on_joined = on_joined
        self._metrics = context.storage.metrics

    async def concat(self, target: str, source: str) -> int:
        """Join ``source`` to the end of ``target``; return where its bytes begin. Repeatable.

        Raises:
            SegmentNotFoundError: one of them does not exist.
            SegmentNotSealedError: the source is not sealed.
            SegmentSealedError: the target is sealed.
            ValueError: both are the same.
            CapabilityError: a segment is written through, and the source is large.
            SafeModeError: long-term storage has too little room; nothing was joined.
            BackPressureError: the target could not be held long enough; nothing was joined.
            ChunkError: a flush failed; nothing was joined.
            OffsetError: the source was truncated again and again; nothing was joined.
        """
        if target == source:
            raise ValueError("a segment cannot be joined to itself")
        done = await self._done_before(target, source)
        if done is not None:
            return done
        self._pressure.check()
        try:
            return await self._join(target, source)
        except (SegmentNotFoundError, *REFUSALS):
            # The same concat may have been on its way already, and may have come first.
            done = await self._done_before(target, source)
            if done is None:
                raise
            return done

    async def _join(self, target: str, source: str) -> int:
        source_segment = await self._appender.existing(source)
        state = self._rows.pending_state(source_segment.segment_id)
        if state is None or state.deleted:
            raise SegmentNotFoundError("no such segment", segment=source)
        if state.sealed_length is None:
            await self._pipeline.barrier()
            raise SegmentNotSealedError("source is not sealed", segment=source)
        with source_segment.being_joined():
            await self._pipeline.settled()
            target_segment = await self._appender.writable(target)
            if state.sealed_length - state.start_offset <= SMALL_BYTES:
                return await self._join_small(target, source_segment)
            self._write_through.refuse(
                "join a source of more than 1 MiB", target_segment, source_segment
            )
            return await self._join_large(target_segment, source_segment)

    async def _done_before(self, target: str, source: str) -> int | None:
        tombstone = self._rows.pending_tombstone(source)
        if tombstone is None or self._rows.pending_find(source) is not None:
            return None
        if tombstone.is_rename or tombstone.target_id != self._rows.pending_find(target):
            return None
        await confirm_acknowledged(
            self._pipeline, lambda: self._rows.tombstone(source) == tombstone
        )
        return tombstone.offset

    async def _join_small(self, target: str, source: OpenSegment) -> int:
        """Append the source's bytes and delete it, in one frame."""
        start = source.state.start_offset
        length = source.length - start
        data = await self._reading.read(source.name, start, length)
        await self._pressure.admit(length)
        try:
            segment = await self._appender.writable(target)
            while not self._pipeline.joint_gate.is_open:
                await self._pipeline.joint_gate.passed()
                segment = await self._appender.writable(target)
            state = self._pending(source)
            # A truncation meanwhile only makes the readable part shorter.
            data = data[state.start_offset - start :]
            offset = segment.assigned
            entries = self._ending(state, segment, offset, len(data))
            pipeline = self._pipeline
            batch = pipeline.room(
                len(data) + PIECE_BYTES + TABLE_HEADER.size + record_length(entries)
            )
            pipeline.assign(entries, relief=False)
            source.stop_appends()
            if data:
                piece = pipeline.piece(segment)
                piece.parts.append(data)
                segment.assigned += len(data)
                piece.joint_end = segment.assigned
                batch.size += len(data)
            batch.admitted += length
            future = pipeline.promise(offset)
        except BaseException:
            self._pressure.release(length)
            raise
        await future
        self._metrics.add(CONCAT_BYTES, len(data), "copied")
        return offset

    async def _join_large(self, target: OpenSegment, source: OpenSegment) -> int:
        """Move the source's extents, while appends to the target wait.

        Past the deadline nothing was joined, and what was placed is taken away in the background.
        """
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._deadline_s) as deadline:
                    still = self._joins.standing_still(target, source.segment_id)
                    await stack.enter_async_context(still)
                    offset = await self._join_held(target, source, deadline)
            except TimeoutError as error:
                raise BackPressureError(
                    "target could not be held long enough for a concat",
                    target=target.name,
                    deadline_s=self._deadline_s,
                ) from error
        self._on_joined(target.segment_id)
        return offset

    async def _join_held(
        self, target: OpenSegment, source: OpenSegment, deadline: asyncio.Timeout
    ) -> int:
        """Join two segments that no other concat touches; again if the source is truncated."""
        for attempt in range(TRUNCATIONS_MAX + 1):
            when = deadline.when()
            try:
                joining, placed = await self._prepare(target, source)
                # From here on the outcome is the transaction's, however long that takes.
                deadline.reschedule(None)
                await self._finish(target, source, joining, placed=placed)
            except OffsetError:
                if attempt == TRUNCATIONS_MAX:
                    raise
                deadline.reschedule(when)
            else:
                break
        return joining.offset

    async def _prepare(self, target: OpenSegment, source: OpenSegment) -> tuple[Joining, bool]:
        """Flush both; if one transaction is not enough, place the extents of the source."""
        await self._pipeline.settled()
        await self._segment_flusher.flush(source)
        await self._segment_flusher.flush(target)
        await self._joins.clear(target.segment_id)
        joining = Joining(
            target_id=target.segment_id,
            source_id=source.segment_id,
            offset=target.length,
            start=self._pending(source).start_offset,
        )
        extents = self._rows.extents(source.segment_id, 0, source.length, CONCAT_EXTENTS_MAX + 1)
        if len(extents) <= CONCAT_EXTENTS_MAX:
            return joining, False
        await self._joins.place(joining)
        return joining, True

    async def _finish(
        self, target: OpenSegment, source: OpenSegment, joining: Joining, *, placed: bool
    ) -> None:
        """The transaction that makes the source's bytes the target's."""
        state = self._pending(source)
        length = source.length - joining.start
        entries = (
            *self._ending(state, target, joining.offset, length),
            *joined_times(
                self._pipeline.replica.tables,
                joining.target_id,
                joining.offset,
                length,
                self._now_ms(),
                target.state.start_offset,
            ),
        )
        if placed:
            await self._joins.show(joining, entries)
        else:
            await self._segments.concat(joining, extra=entries)
        self._metrics.add(CONCAT_BYTES, length, "by_reference")

    def _now_ms(self) -> int:
        return int(self._environment.time() * 1000)

    def _pending(self, source: OpenSegment) -> SegmentState:
        state = self._rows.pending_state(source.segment_id)
        if state is None or state.deleted:
            raise SegmentNotFoundError("source was deleted", segment=source.name)
        return state

    def _ending(
        self, state: SegmentState, target: OpenSegment, offset: int, length: int
    ) -> list[TableEntry]:
        """The source's deletion, and a tombstone by which a repeat is recognised for a week."""
        tombstone = Tombstone(
            name=state.name,
            source_id=state.segment_id,
            target_id=target.segment_id,
            offset=offset,
            length=length,
            made_ms=self._now_ms(),
        )
        return [*deletion_entries(state), *remember(tombstone, self._pipeline.replica.tables)]
