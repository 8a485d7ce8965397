"""Locks of segments: one segment at a time, or all that are free at this moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Literal
from weakref import WeakValueDictionary


class SegmentLock(asyncio.Lock):
    """A lock that knows whether any task holds or awaits it.

    Attributes:
        users: holders and waiters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.users = 0

    async def acquire(self) -> Literal[True]:
        """Take the lock; does not suspend while there are no ``users``."""
        self.users += 1
        try:
            return await super().acquire()
        except BaseException:
            self.users -= 1
            raise

    def release(self) -> None:
        """Give the lock back."""
        super().release()
        self.users -= 1


class SegmentLocks:
    """A lock for each segment; it exists while anything refers to it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[int, SegmentLock] = WeakValueDictionary()

    def of(self, segment_id: int) -> SegmentLock:
        """The lock of one segment."""
        lock = self._locks.get(segment_id)
        if lock is None:
            lock = self._locks[segment_id] = SegmentLock()
        return lock

    @asynccontextmanager
    async def hold_free(self, segment_ids: Iterable[int]) -> AsyncIterator[Collection[int]]:
        """Hold all of these locks that no other task holds or awaits; yields the ids of those.

        It never waits. So a task that holds many segments waits for none of them, and cannot be a
        part of a circle of waiters, in whatever order others take theirs.
        """
        free: dict[int, SegmentLock] = {}
        for segment_id in segment_ids:
            lock = self.of(segment_id)
            if not lock.users:
                await lock.acquire()
                free[segment_id] = lock
        try:
            yield free.keys()
        finally:
            for lock in free.values():
                lock.release()
