"""Concats of many extents on their way: one at a time for a target, undone unless they are shown.

The first slice of a concat writes a task. The transaction that shows the concat removes it; the
task that is left by a failure or a crash takes away what was placed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from siltstone.core.operations.joining import Joining
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.segment_storage import ChunkedSegmentStorage
from siltstone.metadata.changes import put_task, remove_task


def undo_task(target_id: int) -> Task:
    """The task that undoes a concat into this segment."""
    return Task(due_ms=0, kind=TaskKind.UNDO_CONCAT, subject=target_id)


class Joins:
    """The concats of one owned container that are on their way."""

    def __init__(self, segments: ChunkedSegmentStorage) -> None:
        self._segments = segments
        self._busy: Counter[int] = Counter()
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    def is_busy(self, segment_id: int) -> bool:
        """Whether a concat is at work on the segment, so that a rewrite would be in vain."""
        return self._busy[segment_id] > 0

    @asynccontextmanager
    async def hold(self, target_id: int, source_id: int) -> AsyncIterator[None]:
        """Let no other concat into the target, and no rewrite of either begin."""
        async with self._lock(target_id):
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
        lock = self._lock(task.subject)
        if lock.locked():
            return
        async with lock:
            while not await self._segments.unplace(task.subject, extra=(remove_task(task),)):
                pass

    def _lock(self, target_id: int) -> asyncio.Lock:
        lock = self._locks.get(target_id)
        if lock is None:
            lock = self._locks[target_id] = asyncio.Lock()
        return lock
