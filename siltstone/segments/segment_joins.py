"""The verbs of the segment layer that join segments: at once, or slice by slice."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from siltstone.core.records.table_record import TableEntry
from siltstone.segments.concat import run_concat
from siltstone.segments.concat_staging import (
    Joining,
    has_placed,
    run_place,
    run_show,
    run_unplace,
)
from siltstone.segments.context import Context


class SegmentJoins:
    """A part of ``ChunkedSegmentStorage``."""

    _context: Context

    @abstractmethod
    def lock(self, segment_id: int) -> asyncio.Lock:
        """The lock of one segment's layout."""

    def has_placed(self, segment_id: int) -> bool:
        """Whether extents lie behind the segment's flushed length: those of a concat on its way."""
        return has_placed(self._context.layouts, segment_id)

    async def concat(self, joining: Joining, *, extra: tuple[TableEntry, ...] = ()) -> None:
        """Move the readable bytes of a sealed segment behind those of another, by rows alone.

        Both must be flushed to their end. The source's layout goes in the same transaction.

        Args:
            joining: the concat.
            extra: entries that go with the transaction, such as a tombstone.

        Raises:
            SegmentNotFoundError: one of the two was deleted.
            SegmentNotSealedError: the source is not sealed.
            SegmentSealedError: the target is sealed.
            OffsetError: one of the two has changed.
            CapabilityError: the source has more than ``CONCAT_EXTENTS_MAX``; ``place`` and ``show``
                are for those.
        """
        async with self._both(joining):
            await run_concat(self._context, joining, extra)

    async def place(self, joining: Joining, *, extra: tuple[TableEntry, ...] = ()) -> bool:
        """Put the next slice of a source's extents behind the target's flushed length, unseen.

        Nothing of another concat lies there; see ``unplace``. Repeated, it goes on where it was.

        Args:
            joining: the concat. The chunk that the source ends in is closed; see ``close_chunk``.
            extra: entries that go with the first slice, such as the task that would undo it.

        Returns:
            True when all of them are placed.

        Raises:
            SegmentNotFoundError: one of the two was deleted.
            OffsetError: one of the two has changed, so the concat can not go on.
        """
        async with self._both(joining):
            return await run_place(self._context, joining, extra)

    async def show(self, joining: Joining, *, extra: tuple[TableEntry, ...] = ()) -> None:
        """Let the target's flushed length move over all that was placed, with ``extra``.

        Raises:
            SegmentNotFoundError: one of the two was deleted.
            OffsetError: one of the two has changed, so the concat can not go on.
        """
        async with self._both(joining):
            await run_show(self._context, joining, extra)

    async def unplace(self, segment_id: int, *, extra: tuple[TableEntry, ...] = ()) -> bool:
        """Take a slice of what was placed and not shown away; the last slice carries ``extra``.

        Returns:
            True when nothing is left of it.
        """
        async with self.lock(segment_id):
            return await run_unplace(self._context, segment_id, extra)

    @asynccontextmanager
    async def _both(self, joining: Joining) -> AsyncIterator[None]:
        if joining.target_id == joining.source_id:
            raise ValueError("a segment can not be joined to itself")
        first, second = sorted((joining.target_id, joining.source_id))
        async with self.lock(first), self.lock(second):
            yield
