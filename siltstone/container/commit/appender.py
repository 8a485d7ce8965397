"""Appends: the hot path, and the ways around it for whatever is not the plain case.

An append enters the batch being filled and gets its offset at once; its future completes when the
frame is acknowledged. The plain case makes no decision that the batch does not need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.commit.pipeline import MARK_BYTES, PIECE_BYTES, Pipeline
from siltstone.container.commit.repeats import REFUSALS, confirm_acknowledged
from siltstone.container.state.open_segment import OpenSegment
from siltstone.container.state.replica import Replica, advanced
from siltstone.core.bytes_like import as_bytes, joined_bytes
from siltstone.core.checksums import crc32c
from siltstone.core.errors import (
    AppendTooLargeError,
    OffsetError,
    SegmentNotFoundError,
    SegmentSealedError,
    SequenceError,
    WriterExpiredError,
)
from siltstone.core.records.piece import WriterMark
from siltstone.core.records.writer_row import WriterRow
from siltstone.core.whole_number import whole_number

if TYPE_CHECKING:
    from typing import SupportsIndex

    from siltstone.core.bytes_like import BytesLike


class Appender:
    """Takes appends of one container.

    Attributes:
        data_bytes_max: most bytes of one append.
    """

    def __init__(self, pipeline: Pipeline, pressure: Pressure) -> None:
        self.data_bytes_max = pipeline.body_bytes_max - PIECE_BYTES - MARK_BYTES
        self._pipeline = pipeline
        self._pressure = pressure
        self._replica: Replica = pipeline.replica
        self._by_name = pipeline.replica.by_name
        loop = asyncio.get_running_loop()
        self._create_future = loop.create_future
        self._create_task = loop.create_task

    def append(
        self, name: str, data: BytesLike, expected_offset: SupportsIndex | None = None
    ) -> asyncio.Future[int]:
        """Append ``data``; the awaited result is the offset at which it begins.

        The bytes are taken by the call. Appends to a segment begin in the order of their calls,
        unless one has to wait for room, for a concat or for what its name rests on.

        Raises, when awaited:
            SegmentNotFoundError: there is no such segment.
            SegmentSealedError: it is sealed.
            OffsetError: ``expected_offset`` is not its length; nothing was appended.
            AppendTooLargeError: ``data`` does not fit in a frame; nothing was appended.
            SafeModeError: long-term storage has too little room; nothing was appended.
            BackPressureError: no room was made before the deadline; nothing was appended.
            StorageFullError: tier 1 is full; nothing was appended.
            OutcomeUnknownError: the log failed; the bytes may or may not be there.
        """
        pipeline = self._pipeline
        segment = self._by_name.get(name)
        if (
            segment is None
            or not segment.writable
            or expected_offset is not None
            or type(data) is not bytes
            or not self._pressure.open
            or not pipeline.accepting
        ):
            return self._append_otherwise(name, data, expected_offset)
        size = len(data)
        batch = pipeline.batch
        if batch.size + size > self.data_bytes_max or not size:
            return self._append_otherwise(name, data, expected_offset)
        piece = segment.piece
        if piece is None or piece.batch is not batch:
            piece = pipeline.piece(segment)
        piece.parts.append(data)
        offset = segment.assigned
        segment.assigned = offset + size
        batch.size += size
        future = self._create_future()
        batch.futures.append(future)
        batch.results.append(offset)
        if not pipeline.started:
            pipeline.start()
        return future

    def append_many(
        self,
        name: str,
        records: Sequence[BytesLike],
        expected_offset: SupportsIndex | None = None,
    ) -> asyncio.Future[int]:
        """Append all records in one commit, contiguous; the result is the first one's offset."""
        return self.append(name, joined_bytes(records), expected_offset)

    def _append_otherwise(
        self, name: str, data: BytesLike, expected_offset: SupportsIndex | None
    ) -> asyncio.Future[int]:
        """Append at once where there is nothing to wait for, so that no later append is faster."""
        kept = as_bytes(data)
        if expected_offset is not None:
            expected_offset = whole_number(expected_offset, what="expected_offset")
        segment = self._replica.find(name)
        if (
            segment is None
            or not segment.writable
            or expected_offset not in (None, segment.assigned)
            or not self._pressure.open
            or not self._pipeline.accepting
            or not 0 < len(kept) <= self.data_bytes_max
        ):
            return self._create_task(self._append_slowly(name, kept, expected_offset))
        self._pressure.add(len(kept))
        return self._assign(segment, kept, None)

    async def _append_slowly(self, name: str, kept: bytes, expected_offset: int | None) -> int:
        try:
            return await self._append_admitted(name, kept, expected_offset)
        except REFUSALS:
            # A repeat of an append that took place has to learn that the segment has grown.
            segment = self._replica.find(name)
            if segment is not None:
                await self._check_offset(segment, expected_offset)
            raise

    async def _append_admitted(self, name: str, kept: bytes, expected_offset: int | None) -> int:
        self._check_size(name, kept)
        if not kept:
            segment = await self.writable(name)
            await self._check_offset(segment, expected_offset)
            await self._pipeline.barrier()
            return segment.length
        await self._admit(len(kept))
        try:
            segment = await self.writable(name)
            await self._check_offset(segment, expected_offset)
            future = self._assign(segment, kept, None)
        except BaseException:
            self._pressure.release(len(kept))
            raise
        return await future

    def append_as(
        self, name: str, number: int, sequence: int, data: BytesLike
    ) -> Coroutine[Any, Any, int]:
        """Append exactly once: a repeat of the newest sequence returns its first offset.

        Raises, when awaited, what ``append`` raises, and:
            WriterExpiredError: the writer was evicted or never registered.
            SequenceError: ``sequence`` is older than the writer's newest, or repeats it with other
                bytes.

        What refuses appends, such as a seal or a lack of room, refuses only new sequences.
        """
        return self._append_as(name, number, sequence, data)

    async def _append_as(self, name: str, number: int, sequence: int, data: BytesLike) -> int:
        kept = as_bytes(data)
        if not kept or sequence < 0:
            raise ValueError("a writer's append has at least one byte and a sequence of at least 0")
        self._pipeline.check_alive()
        known = self._known(name, number, sequence)
        if known is None:
            try:
                return await self._append_new(name, number, sequence, kept)
            except REFUSALS:
                # The same append may have been on its way already, and may have come first.
                known = self._known(name, number, sequence)
                if known is None:
                    raise
        return await self._repeated(*known, sequence, kept)

    def _known(self, name: str, number: int, sequence: int) -> tuple[OpenSegment, WriterRow] | None:
        """Segment and row of a writer that reached ``sequence``, sealed or not; else ``None``."""
        segment = self._replica.find(name)
        if segment is None:
            return None
        writer = self._replica.writers(segment).get(number)
        if writer is None or writer.row.sequence < sequence:
            return None
        return segment, writer.row

    async def _append_new(self, name: str, number: int, sequence: int, kept: bytes) -> int:
        self._check_size(name, kept)
        await self._admit(len(kept))
        assigned = False
        try:
            segment = await self.writable(name, number)
            writer = self._replica.writers(segment)[number]
            row = writer.row
            if sequence > row.sequence:
                mark = WriterMark(number, sequence, segment.assigned, len(kept), crc32c(kept))
                future = self._assign(segment, kept, mark)
                writer.row = advanced(row, mark)
                assigned = True
                return await future
        finally:
            if not assigned:
                self._pressure.release(len(kept))
        return await self._repeated(segment, row, sequence, kept)

    async def _repeated(
        self, segment: OpenSegment, row: WriterRow, sequence: int, data: bytes
    ) -> int:
        """The offset of an append that was assigned before, as the writer's ``row`` tells it."""
        # A refusal, too, rests on what may not be acknowledged yet.
        await confirm_acknowledged(
            self._pipeline, lambda: row.offset + row.length <= segment.length
        )
        other = len(data) != row.length or row.sum not in (None, crc32c(data))
        if sequence < row.sequence or other:
            raise SequenceError(
                "sequence was used already",
                segment=segment.name,
                sequence=sequence,
                last_sequence=row.sequence,
            )
        return row.offset

    def _assign(
        self, segment: OpenSegment, data: bytes, mark: WriterMark | None
    ) -> asyncio.Future[int]:
        """Put admitted bytes into a batch with room for them."""
        pipeline = self._pipeline
        pipeline.check_open()
        marks = 0 if mark is None else MARK_BYTES
        batch = pipeline.room(len(data) + PIECE_BYTES + marks)
        piece = pipeline.piece(segment)
        piece.parts.append(data)
        if mark is not None:
            if piece.marks is None:
                piece.marks = {}
            piece.marks[mark.number] = mark
        offset = segment.assigned
        segment.assigned = offset + len(data)
        batch.size += len(data) + marks
        batch.admitted += len(data)
        return pipeline.promise(offset)

    async def _admit(self, size: int) -> None:
        self._pipeline.check_open()
        await self._pressure.admit(size)

    async def writable(self, name: str, writer: int | None = None) -> OpenSegment:
        """Return the segment if it takes bytes now, waiting while a concat holds it.

        A refusal that rests on something not yet acknowledged is told only once that is.
        """
        while True:
            self._pipeline.check_alive()
            segment = self._replica.find(name)
            if segment is None:
                pending = self._replica.rows.pending_find(name)
                await self._pipeline.barrier()
                if pending is not None and self._replica.find(name) is not None:
                    continue
                raise SegmentNotFoundError("no such segment", segment=name)
            if segment.writable:
                if writer is None or writer in self._replica.writers(segment):
                    return segment
                await self._pipeline.barrier()
                raise WriterExpiredError("no such writer", segment=name, writer=writer)
            if segment.held is not None:
                await segment.held.wait()
                continue
            await self._refuse(segment)

    async def existing(self, name: str) -> OpenSegment:
        """Return the segment of this name, sealed or not.

        Raises:
            SegmentNotFoundError: there is none, or it is about to be deleted or renamed.
        """
        self._pipeline.check_alive()
        segment = self._replica.find(name)
        if segment is None or not self.named(segment, name):
            await self._pipeline.barrier()
            segment = self._replica.find(name)
        if segment is None:
            raise SegmentNotFoundError("no such segment", segment=name)
        return segment

    def named(self, segment: OpenSegment, name: str) -> bool:
        """Whether ``segment`` still has this name after all that is assigned."""
        return self._replica.rows.pending_find(name) == segment.segment_id

    async def _refuse(self, segment: OpenSegment) -> None:
        state = self._replica.rows.pending_state(segment.segment_id)
        await self._pipeline.barrier()
        if state is None or state.deleted:
            if self._replica.rows.pending_find(segment.name) in (None, segment.segment_id):
                raise SegmentNotFoundError("no such segment", segment=segment.name)
        elif state.sealed_length is not None:
            raise SegmentSealedError("segment is sealed", segment=segment.name)
        else:
            self._replica.recompute(segment)

    async def _check_offset(self, segment: OpenSegment, expected_offset: int | None) -> None:
        if expected_offset is None or expected_offset == segment.assigned:
            return
        actual = segment.assigned
        await self._pipeline.barrier()
        raise OffsetError(
            "segment has another length",
            segment=segment.name,
            expected=actual,
            actual=expected_offset,
        )

    def _check_size(self, name: str, data: bytes) -> None:
        if len(data) > self.data_bytes_max:
            raise AppendTooLargeError(segment=name, length=len(data), limit=self.data_bytes_max)
