"""The segment flusher: takes acknowledged bytes from tails into chunks, in the background.

Segments are flushed by size, by age, largest first under back-pressure, and on request; several at
a time, each one by one transaction after another. Small ones go together into a shared chunk.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import Protocol

from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.flush.flush_plan import (
    FlushRange,
    bytes_of,
    fill,
    is_readable,
    is_shared,
    plan_shares,
    remaining,
)
from siltstone.container.flush.write_through_hooks import WriteThrough, WriteThroughHooks
from siltstone.container.models.settings import ContainerSettings, FlushPolicy
from siltstone.container.state.backoff import Backoff, woken
from siltstone.container.state.open_segment import OpenSegment
from siltstone.container.state.replica import Replica, advanced
from siltstone.container.state.tail import TailPiece
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    ClosedError,
    CorruptDataError,
    LogError,
    OutcomeUnknownError,
    SegmentNotFoundError,
    SiltstoneError,
    StorageFullError,
)
from siltstone.core.layout_store import NewChunk
from siltstone.core.log_writer import LogWriter
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.records.writer_row import WriterRow
from siltstone.metadata.changes import put_task
from siltstone.metadata.time_index import newest_times, plan_times
from siltstone.segments.locks import SegmentLocks
from siltstone.segments.pack import PackedRun
from siltstone.segments.packing_segment_storage import PackingSegmentStorage

logger = logging.getLogger(__name__)

POLL_S_MAX = 1.0

PLANNED_MAX = 64
"""Flushes that wait for their turn; what to flush is looked for again after them."""

NAMES_TOLD_MAX = 3
"""How many names the error of a failed flush of many tells."""


class FlushLog(LogWriter, Protocol):
    """What a flush needs of the commit pipeline.

    Attributes:
        replica: the acknowledged state.
        failure: why no more updates are taken, if so.
    """

    replica: Replica
    failure: SiltstoneError | None

    async def settled(self) -> bool:
        """Wait for all that is assigned."""
        ...


class SegmentFlusher:
    """Flushes the segments of one owned container.

    Args (the others are parts of this owner):
        awake: set when there may be something to flush.
        suspended: whether flushes in the background should rest.
    """

    def __init__(
        self,
        pipeline: FlushLog,
        storage: PackingSegmentStorage,
        environment: Environment,
        settings: ContainerSettings,
        policy: FlushPolicy,
        pressure: Pressure,
        awake: asyncio.Event,
        suspended: Callable[[], bool],
        write_through: WriteThrough,
    ) -> None:
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._storage = storage
        self._environment = environment
        self._settings = settings
        self._policy = policy
        self._pressure = pressure
        self._write_through = write_through
        self._awake = awake
        self._ending = False
        self._ended = asyncio.Event()
        self._ended.set()
        self._locks = SegmentLocks()
        self._busy: set[int] = set()
        self._running = 0
        self._planned: deque[list[FlushRange]] = deque()
        self._abandoned: list[NewChunk] = []
        self.backoff = Backoff(environment, suspended)

    def wake(self) -> None:
        """Look at once for something to flush."""
        self._awake.set()

    @property
    def is_flushing(self) -> bool:
        """Whether a flush in the background runs at the moment."""
        return self._running > 0

    async def run(self) -> None:
        """Flush what is due until told to finish, or cancelled."""
        self._ended.clear()
        try:
            async with asyncio.TaskGroup() as group:
                while not self._ending:
                    if self.backoff.pausing:
                        self._planned.clear()
                    else:
                        self._start(group)
                    await self._pause()
        finally:
            self._ended.set()

    async def finish(self) -> None:
        """Begin no flush in the background any more, and wait for those that run."""
        self._ending = True
        self.wake()
        await self._ended.wait()

    def _start(self, group: asyncio.TaskGroup) -> None:
        """Start flushes, as many as may run at a time."""
        while self._running < self._settings.flush_parallel:
            if not self._planned:
                self._planned.extend(self._due())
            if not self._planned:
                return
            shares = self._planned.popleft()
            self._running += 1
            self._busy.update(share.segment.segment_id for share in shares)
            group.create_task(self._flush_in_background(shares))

    async def _pause(self) -> None:
        seconds = min(POLL_S_MAX, self._policy.age_s / 4)
        if self.backoff.pausing:
            seconds = min(seconds, self.backoff.remaining_s)
        if not await woken(self._awake, max(0.001, seconds)):
            return
        if self.backoff.pausing and not self._ending:
            await self._environment.sleep(min(POLL_S_MAX, self.backoff.remaining_s))

    def _due(self) -> list[list[FlushRange]]:
        """What to flush next, the largest first; those of one list go together."""
        now = self._environment.monotonic()
        waiting = [s for s in self._replica.dirty.values() if s.segment_id not in self._busy]
        due = waiting
        if not self._pressure.over:
            oldest = now - self._policy.age_s
            due = [
                segment
                for segment in waiting
                if segment.tail.size >= self._policy.size_bytes
                or segment.tail.first.time_s <= oldest
                or segment.state.start_offset > segment.flushed
            ]
        found = plan_shares(due, waiting, self._policy, self._takes_append)
        ready = (s for s in self._to_settle() if s.segment_id not in self._busy)
        found += [[FlushRange(segment=s, start=s.flushed, end=s.flushed)] for s in ready]
        return nlargest(PLANNED_MAX, found, key=lambda shares: sum(s.size for s in shares))

    def _takes_append(self, segment_id: int) -> bool:
        """Whether a segment needs no chunk that it would share with others."""
        hooks = self._write_through.hooks
        return hooks.writes(segment_id) or self._storage.takes_append(segment_id)

    def _to_settle(self) -> Iterator[OpenSegment]:
        """Segments whose files have to say that they are sealed, and can."""
        for segment_id in tuple(self._write_through.hooks.unsettled):
            segment = self._replica.open(segment_id)
            if segment is not None and segment.flushed == segment.state.sealed_length:
                yield segment

    async def _flush_in_background(self, shares: list[FlushRange]) -> None:
        try:
            await self._flush_shares(shares)
            self.backoff.succeeded()
        except (ChunkError, CorruptDataError, StorageFullError) as error:
            names = [share.segment.name for share in shares[:NAMES_TOLD_MAX]]
            logger.warning(
                "flush failed: segment=%s count=%d %s", ",".join(names), len(shares), error
            )
            self.backoff.failed(error)
        except (LogError, OutcomeUnknownError, ClosedError):
            # The pipeline has closed the container already; this task has nothing to add.
            return
        finally:
            self._running -= 1
            self._busy.difference_update(share.segment.segment_id for share in shares)
            self.wake()

    async def flush_all(self) -> None:
        """Bring what all segments hold now into chunks and wait for it. Raises as ``flush``."""
        await self.flush_many(list(self._replica.dirty.values()))
        for segment in list(self._to_settle()):
            await self._settle(segment)

    async def flush_many(self, segments: Sequence[OpenSegment]) -> None:
        """Bring what these segments hold now into chunks and wait for it. Raises as ``flush``."""
        targets = [(segment, segment.length) for segment in segments]
        # First, or live bytes beyond dead ones would come too late to share a chunk.
        for segment, _ in targets:
            if not is_readable(segment):
                await self.pass_over(segment)
        while left := [s for s, end in targets if s.flushed < end and not s.state.deleted]:
            for shares in plan_shares(left, left, self._policy, self._takes_append):
                await self._flush_shares(shares)

    async def _flush_shares(self, shares: list[FlushRange]) -> None:
        """Flush these segments, into shared chunks if they are several."""
        left = remaining(shares)
        while left:
            if is_shared(left):
                for chunk in fill(left, self._policy.chunk_bytes):
                    if is_shared(chunk):
                        await self._flush_together(chunk)
                    else:
                        await self._flush_to(chunk[0].segment, chunk[0].end, exactly=True)
                left = remaining(left)
            if left:
                # Passed over: another task was changing it. When that is over, and it has had its
                # own turn, the others that were may be free again.
                first, *left = left
                await self._flush_to(first.segment, first.end)
                left = remaining(left)
        for share in shares:
            await self._settle(share.segment)

    async def _flush_together(self, shares: list[FlushRange]) -> None:
        """Write the bytes of segments that no other task flushes at the moment as one chunk."""
        by_id = {share.segment.segment_id: share for share in shares}
        try:
            async with self._locks.hold_free(by_id) as held:
                found = (self._run(by_id[segment_id]) for segment_id in held)
                await self._storage.write_packed([run for run in found if run is not None])
        finally:
            await self.hand_over_abandoned()

    def _run(self, share: FlushRange) -> PackedRun | None:
        """What to write for a share; ``None`` when there is nothing left of it."""
        segment = share.segment
        if not share.left:
            return None
        # Where something of it was flushed meanwhile, the segment layer passes it over.
        return PackedRun(
            segment_id=segment.segment_id,
            offset=share.start,
            length=share.size,
            buffers=tuple(bytes_of(share)),
            writers=self._writer_rows(segment, segment.tail.pieces, share.end),
            extra=self._time_entries(segment, segment.tail.pieces, share.end),
        )

    async def flush(self, segment: OpenSegment) -> None:
        """Bring what the segment holds now into chunks and wait for it.

        Raises:
            ChunkError: long-term storage failed; the bytes stay in tier 1 and will be tried again.
            LogError: this owner must stop.
        """
        await self._flush_to(segment, segment.length)
        await self._settle(segment)

    async def _settle(self, segment: OpenSegment) -> None:
        """Let the files of a sealed segment say that, in a layout. Raises as ``flush``."""
        if segment.segment_id not in self._write_through.hooks.unsettled:
            return
        with segment.in_use():
            async with self._locks.of(segment.segment_id):
                await self._write_through.hooks.settle(segment)

    async def pass_over(self, segment: OpenSegment) -> None:
        """Let the flushed length jump over what is truncated already. Raises as ``flush``."""
        await self._flush_to(segment, min(segment.state.start_offset, segment.length))

    async def _flush_to(self, segment: OpenSegment, target: int, *, exactly: bool = False) -> None:
        """Flush a segment alone up to ``target``, and beyond unless ``exactly`` so far."""
        try:
            with segment.in_use():
                async with self._locks.of(segment.segment_id):
                    while segment.flushed < target and not segment.state.deleted:
                        try:
                            await self._step(segment, target if exactly else None)
                        except SegmentNotFoundError:
                            # Its deletion is on the way to the log: only after that it is certain.
                            await self._pipeline.settled()
        finally:
            await self.hand_over_abandoned()

    async def _step(self, segment: OpenSegment, until: int | None) -> None:
        """Flush some of a segment; with ``until`` all up to there, if possible as one chunk."""
        hooks = self._write_through.hooks
        if hooks.writes(segment.segment_id):
            await self._step_in_layout(hooks, segment, until)
            return
        start = segment.state.start_offset
        if start > segment.flushed:
            to = min(start, segment.length)
            dead = segment.tail.pieces
            await self._storage.skip(
                segment.segment_id,
                to,
                writers=self._writer_rows(segment, dead, to),
                extra=self._time_entries(segment, dead, to),
            )
            return
        if until is None:
            pieces = segment.tail.head(segment.flushed, self._policy.write_bytes)
            end = pieces[-1].end
        else:
            pieces = [piece for piece in segment.tail.pieces if piece.offset < until]
            end = until
        await self._storage.write(
            segment.segment_id,
            segment.flushed,
            bytes_of(FlushRange(segment=segment, start=segment.flushed, end=end)),
            cuts=[border for piece in pieces for border in piece.borders if border < end],
            writers=self._writer_rows(segment, pieces, end),
            extra=self._time_entries(segment, pieces, end),
        )

    async def _step_in_layout(
        self, hooks: WriteThroughHooks, segment: OpenSegment, until: int | None
    ) -> None:
        """Flush some of a segment to a layout: bytes that are dead too, there is no gap."""
        pieces = segment.tail.head(segment.flushed, self._policy.write_bytes)
        end = pieces[-1].end if until is None else min(pieces[-1].end, until)
        end = hooks.plan(segment, end)
        pieces = [piece for piece in pieces if piece.offset < end]
        await hooks.write(
            segment,
            end,
            self._writer_rows(segment, pieces, end),
            self._time_entries(segment, pieces, end),
        )

    def _time_entries(
        self, segment: OpenSegment, pieces: Iterable[TailPiece], end: int
    ) -> tuple[TableEntry, ...]:
        """What the time index gets with the flush of ``pieces`` up to ``end``."""
        known = newest_times(self._replica.tables, segment.segment_id, segment.flushed)
        appended = [piece.appended for piece in pieces]
        start = segment.state.start_offset
        return tuple(plan_times(segment.segment_id, known, segment.flushed, appended, end, start))

    def _writer_rows(
        self, segment: OpenSegment, pieces: Iterable[TailPiece], end: int
    ) -> tuple[WriterRow, ...]:
        """Rows of the writers whose newest append below ``end`` lies in ``pieces``."""
        marks = {}
        for piece in pieces:
            for mark in piece.marks:
                if mark.offset + mark.length <= end:
                    marks[mark.number] = mark
        if not marks:
            return ()
        now_ms = int(self._environment.time() * 1000)
        writers = self._replica.writers(segment)
        rows = []
        for number, mark in marks.items():
            writer = writers.get(number)
            if writer is not None:
                writer.row = replace(writer.row, used_ms=now_ms)
                base = replace(writer.row, sequence=-1)
                rows.append(advanced(base, mark))
        return tuple(rows)

    async def hand_over_abandoned(self) -> None:
        """Make garbage tasks of chunks that were created and never named."""
        self._abandoned.extend(self._storage.take_abandoned())
        while self._abandoned and self._pipeline.failure is None:
            taken, self._abandoned = self._abandoned, []
            due_ms = int((self._environment.time() + self._settings.garbage_delay_s) * 1000)
            tasks = [
                Task(due_ms=due_ms, kind=TaskKind.DELETE_CHUNK, subject=new.chunk_id, name=new.name)
                for new in taken
            ]
            try:
                await self._pipeline.update([put_task(task) for task in tasks])
            except (LogError, OutcomeUnknownError, ClosedError):
                self._abandoned.extend(taken)
                return
