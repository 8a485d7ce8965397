"""The storage writer: takes acknowledged bytes from tails into chunks, in the background.

Segments are flushed by size, by age, largest first under back-pressure, and on request; several at
a time, each one by one transaction after another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from weakref import WeakValueDictionary

from siltstone.container.open_segment import OpenSegment
from siltstone.container.pipeline import Pipeline
from siltstone.container.pressure import Pressure
from siltstone.container.replica import advanced
from siltstone.container.settings import ContainerSettings, FlushPolicy
from siltstone.container.tail import TailPiece
from siltstone.container.trouble import Trouble
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    ClosedError,
    CorruptDataError,
    LogError,
    OutcomeUnknownError,
    SegmentNotFoundError,
    StorageFullError,
)
from siltstone.core.layout_store import NewChunk
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.records.writer_row import WriterRow
from siltstone.core.segment_storage import ChunkedSegmentStorage
from siltstone.core.words import MIB, Buffer
from siltstone.metadata.changes import put_task

logger = logging.getLogger(__name__)

WRITE_BYTES_MAX = 32 * MIB
"""Most bytes of one transaction."""

POLL_S_MAX = 1.0


class StorageWriter:
    """Flushes the segments of one owned container."""

    def __init__(
        self,
        pipeline: Pipeline,
        storage: ChunkedSegmentStorage,
        environment: Environment,
        settings: ContainerSettings,
        policy: FlushPolicy,
        pressure: Pressure,
    ) -> None:
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._storage = storage
        self._environment = environment
        self._settings = settings
        self._policy = policy
        self._pressure = pressure
        self._awake = asyncio.Event()
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._busy: set[int] = set()
        self._abandoned: list[NewChunk] = []
        self.trouble = Trouble(environment)

    def wake(self) -> None:
        """Look at once for something to flush."""
        self._awake.set()

    async def run(self) -> None:
        """Flush what is due until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._awake.clear()
                if not self.trouble.pausing:
                    for segment in self._due():
                        if len(self._busy) >= self._settings.flush_parallel:
                            break
                        self._busy.add(segment.segment_id)
                        group.create_task(self._flush_in_background(segment))
                await self._pause()

    async def _pause(self) -> None:
        seconds = min(POLL_S_MAX, self._policy.age_s / 4)
        if self.trouble.pausing:
            seconds = min(seconds, self.trouble.remaining_s)
        try:
            async with asyncio.timeout(max(0.001, seconds)):
                await self._awake.wait()
        except TimeoutError:
            return
        if self.trouble.pausing:
            await self._environment.sleep(min(POLL_S_MAX, self.trouble.remaining_s))

    def _due(self) -> list[OpenSegment]:
        now = self._environment.monotonic()
        waiting = [s for s in self._replica.dirty.values() if s.segment_id not in self._busy]
        if not self._pressure.over:
            oldest = now - self._policy.age_s
            waiting = [
                segment
                for segment in waiting
                if segment.tail.size >= self._policy.size_bytes
                or segment.tail.first.time_s <= oldest
                or segment.state.start_offset > segment.flushed
            ]
        return sorted(waiting, key=lambda segment: segment.tail.size, reverse=True)

    async def _flush_in_background(self, segment: OpenSegment) -> None:
        try:
            await self.flush(segment)
            self.trouble.over()
        except (ChunkError, CorruptDataError, StorageFullError) as error:
            logger.warning("flush failed: segment=%s %s", segment.name, error)
            self.trouble.happened(error)
        except (LogError, OutcomeUnknownError, ClosedError):
            # The pipeline has closed the container already; this task has nothing to add.
            return
        finally:
            self._busy.discard(segment.segment_id)
            self.wake()

    async def flush(self, segment: OpenSegment) -> None:
        """Bring what the segment holds now into chunks and wait for it.

        Raises:
            ChunkError: long-term storage failed; the bytes stay in tier 1 and will be tried again.
            LogError: this owner must stop.
        """
        target = segment.length
        segment.users += 1
        lock = self._locks.get(segment.segment_id)
        if lock is None:
            lock = self._locks[segment.segment_id] = asyncio.Lock()
        try:
            async with lock:
                while segment.flushed < target and not segment.state.deleted:
                    await self._step(segment)
        except SegmentNotFoundError:
            # It was deleted meanwhile, which is all that its bytes need.
            return
        finally:
            segment.users -= 1
            await self.hand_over_abandoned()

    async def _step(self, segment: OpenSegment) -> None:
        start = segment.state.start_offset
        if start > segment.flushed:
            to = min(start, segment.length)
            writers = self._writer_rows(segment, segment.tail.pieces, to)
            await self._storage.skip(segment.segment_id, to, writers=writers)
            return
        pieces = segment.tail.head(segment.flushed, WRITE_BYTES_MAX)
        end = pieces[-1].end
        buffers: list[Buffer] = [piece.data for piece in pieces]
        passed = segment.flushed - pieces[0].offset
        if passed:
            buffers[0] = memoryview(pieces[0].data)[passed:]
        await self._storage.write(
            segment.segment_id,
            segment.flushed,
            buffers,
            cuts=[border for piece in pieces for border in piece.borders],
            writers=self._writer_rows(segment, pieces, end),
        )

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
