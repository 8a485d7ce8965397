"""Where a flush of the table log may end: at a version at which every joint commit is whole.

A joint commit has bytes and updates of tables, or bytes of several segments. The rows that say in
which chunks its bytes lie are later in the table log than its own updates. So a table log that ends
between them would have the one without the other, for those who have long-term storage alone. It
may end wherever no acknowledged bytes of such a commit are unflushed. Where joint commits go on and
on that never happens by itself, so:

1. their bytes are flushed while they go on, until few are left;
2. for a moment no joint commit is assigned, and what is left of their bytes is flushed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.flush.segment_flusher import SegmentFlusher
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkStorageFullError
from siltstone.core.metrics import COMMITS_HELD, Metrics
from siltstone.core.storage.late_work import forget

logger = logging.getLogger(__name__)

ROUNDS_MAX: Final = 3
"""Flushes while joint commits go on. Each leaves what came during it, so one that takes as long as
the one before gains nothing."""

LEFT_BYTES: Final = MIB
"""Flushing this much takes hardly longer than flushing nothing."""

HELD_S: Final = 1.0
"""How long joint commits are held back at first. A service in good order needs a tenth of it."""

HELD_S_MAX: Final = 10.0
"""How long they are held back at most, well below the deadline of an append. A service that takes
longer is tried again; in the end back-pressure lets no commit in, and nothing has to be held."""


class WholeCuts:
    """Finds versions at which the table log on long-term storage may end.

    Args (parts of this owner):
        pipeline: whose gate is closed.
        segment_flusher: brings bytes of joint commits into chunks.
        metrics: gets the times for which joint commits were held back.
    """

    def __init__(
        self, pipeline: Pipeline, segment_flusher: SegmentFlusher, metrics: Metrics
    ) -> None:
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._gate = pipeline.joint_gate
        self._segment_flusher = segment_flusher
        self._metrics = metrics

    async def find(self) -> int:
        """Return a version that is whole and covers all that was acknowledged before the call.

        Where long-term storage has no room for bytes, it may be one that is not whole: what makes
        room needs the table log there, and never waits.

        Raises:
            ChunkError: long-term storage failed; nothing is held back any more.
            LogError: this owner must stop.
        """
        held_s = HELD_S
        try:
            while self._replica.torn():
                await self._flush_most()
                version = await self._flush_held(held_s)
                if version is not None:
                    return version
                held_s = min(2 * held_s, HELD_S_MAX)
        except ChunkStorageFullError as error:
            logger.warning("the table log goes ahead of bytes of its commits: %s", error)
            self._replica.newest_joint = self._replica.tables.applied_version
        return self._replica.tables.applied_version

    async def _flush_most(self) -> None:
        """Flush bytes of joint commits while more of them come."""
        for _ in range(ROUNDS_MAX):
            await self._flush_torn()
            if sum(segment.tail.size for segment in self._replica.torn()) <= LEFT_BYTES:
                return

    async def _flush_held(self, held_s: float) -> int | None:
        """Flush the rest while none come; return the version then, ``None`` if it took too long.

        What took too long is carried to its end all the same: it leaves less for the next time.
        """
        if not self._replica.torn():
            return self._replica.tables.applied_version
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        work = asyncio.ensure_future(self._flush_rest())
        try:
            with self._gate.closed():
                await asyncio.wait([work], timeout=held_s)
                version = self._replica.tables.applied_version
                whole = work.done() and not self._replica.torn()
            self._metrics.observe(COMMITS_HELD, loop.time() - begin_s)
            await work
        finally:
            await _end(work)
        return version if whole else None

    async def _flush_rest(self) -> None:
        """Wait for the joint commits that are assigned, and flush their bytes."""
        await self._pipeline.settled()
        await self._flush_torn()

    async def _flush_torn(self) -> None:
        await self._segment_flusher.flush_many(self._replica.torn())


async def _end(work: asyncio.Future[None]) -> None:
    """Cancel what is not done because its caller was cancelled, and wait for it."""
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
    forget(work)  # no caller is left that hears why it failed
