"""Joins on their way: one at a time for a paused target, undone unless they are shown.

Concats and imports join extents to the end of a segment. The first slice of many writes a task. The
transaction that shows them removes it; the task that is left by a failure or a crash takes away
what was placed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.state.open_segment import OpenSegment
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.metadata.changes import put_task, remove_task
from siltstone.segments.concat_staging import Joining
from siltstone.segments.locks import SegmentLocks
from siltstone.segments.segment_storage import ChunkedSegmentStorage


def undo_task(target_id: int) -> Task:
    """The task that undoes a concat into this segment."""
    return Task(due_ms=0, kind=TaskKind.UNDO_CONCAT, subject=target_id)


class ConcatGuard:
    """The joins of one owned container that are on their way.

    Args (the others are parts of this owner):
        on_undo: called when one failed and may have left something to undo.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        segments: ChunkedSegmentStorage,
        on_undo: Callable[[], None],
    ) -> None:
        self._pipeline = pipeline
        self._segments = segments
        self._on_undo = on_undo
        self._busy: Counter[int] = Counter()
        self._locks = SegmentLocks()

    def is_busy(self, segment_id: int) -> bool:
        """Whether a concat is at work on the segment, so that a rewrite would be in vain."""
        return self._busy[segment_id] > 0

    @asynccontextmanager
    async def standing_still(self, target: OpenSegment, source_id: int) -> AsyncIterator[None]:
        """Hold appends to the target; let no other join into it and no rewrite of either begin."""
        held = asyncio.Event()
        target.held = held
        target.stop_appends()
        try:
            with target.in_use():
                async with self._hold(target.segment_id, source_id):
                    yield
        except BaseException:
            self._on_undo()
            raise
        finally:
            target.held = None
            held.set()
            # Once this container has ended there is nothing to look up, and a failure to do so
            # would hide what became of the join.
            if self._pipeline.failure is None:
                self._pipeline.replica.recompute(target)

    @asynccontextmanager
    async def _hold(self, target_id: int, source_id: int) -> AsyncIterator[None]:
        async with self._locks.of(target_id):
            ids = (target_id, source_id)
            self._busy.update(ids)
            try:
                yield
            finally:
                self._busy -= Counter(ids)

    async def clear(self, target_id: int) -> None:
        """Take away what an earlier concat left; the caller holds the target."""
        extra = (remove_task(undo_task(target_id)),)
        if self._segments.has_placed(target_id):
            while not await self._segments.unplace(target_id, extra=extra):
                pass

    async def place(self, joining: Joining) -> None:
        """Place all extents of the source; the caller holds the two.

        Raises:
            SegmentNotFoundError: one of the two was deleted.
            OffsetError: one of the two has changed.
        """
        extra = (put_task(undo_task(joining.target_id)),)
        await self._segments.close_chunk(joining.source_id)
        while not await self._segments.place(joining, extra=extra):
            pass

    async def show(self, joining: Joining, entries: tuple[TableEntry, ...]) -> None:
        """Show what was placed, with ``entries``."""
        done = remove_task(undo_task(joining.target_id))
        await self._segments.show(joining, extra=(*entries, done))

    async def undo(self, task: Task) -> None:
        """Take away what a concat left that was not shown, unless one is at work there now."""
        lock = self._locks.of(task.subject)
        if lock.locked():
            return
        async with lock:
            while not await self._segments.unplace(task.subject, extra=(remove_task(task),)):
                pass
