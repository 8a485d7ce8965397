"""What a checkpoint makes unnecessary: frames, the head of the table log, system files.

The checkpoint is durable before any of this is touched, so it has succeeded whatever becomes of it
here. What fails is reported and tried again, with growing waits, until it is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from siltstone.container.commit.owner_context import OwnerContext
from siltstone.container.commit.pipeline import ending
from siltstone.container.flush.table_log_flusher import TableLogFlusher
from siltstone.container.reads.pin_watch import PinWatch
from siltstone.container.state.backoff import Backoff, Failures
from siltstone.core.chunk_names import system_prefix
from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.errors import (
    ChunkError,
    ChunkNotFoundError,
    CorruptDataError,
    StorageFullError,
)
from siltstone.core.metrics import TIDYING_FAILED
from siltstone.core.records.piece import ControlKind
from siltstone.core.storage.listings import listed
from siltstone.journal.journal import Journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
from siltstone.segments.segment_storage import ChunkedSegmentStorage

logger = logging.getLogger(__name__)

NAMES_PER_RECORD = 500


class CheckpointCleanup:
    """Drops what the newest checkpoints do not need. Never while one is being written.

    Attributes:
        backoff: why something is left, and when to try again.
    """

    def __init__(
        self,
        context: OwnerContext,
        table_log_flusher: TableLogFlusher,
        journal: Journal,
        pinned: PinnedLayoutStore,
        system: ChunkedSegmentStorage,
        pins: PinWatch,
        suspended: Callable[[], bool],
    ) -> None:
        self._pipeline = context.pipeline
        self._table_log_flusher = table_log_flusher
        self._journal = journal
        self._pinned = pinned
        self._system = system
        self._storage = context.storage
        self._fence = context.fence
        self._pins = pins
        self.backoff = Backoff(context.environment, suspended)

    @property
    def due(self) -> bool:
        """Whether something is left of an earlier try and may be tried again now."""
        return self.backoff.error is not None and not self.backoff.pausing

    async def clean_up(self) -> None:
        """Drop what nothing needs, each part no matter what becomes of the others.

        Raises:
            LogError: this owner must stop. Failures of long-term storage are logged, not raised.
        """
        failures = Failures()
        try:
            with failures.kept():
                await self._table_log_flusher.truncate_log()
            with failures.kept():
                await self._trim_table_log()
            with failures.kept():
                await self._delete_needless(failures)
            failures.raise_first()
        except (ChunkError, CorruptDataError, StorageFullError) as error:
            logger.warning("not all that a checkpoint made needless is gone: %s", error)
            self._storage.metrics.add(TIDYING_FAILED, 1)
            self.backoff.failed(error)
        else:
            self.backoff.succeeded()

    async def _trim_table_log(self) -> None:
        """Drop the table log's head below the older of the two newest checkpoints."""
        oldest = self._journal.checkpoints[0].checkpoint.index_version
        self._pinned.set_start(TABLE_LOG_ID, oldest)
        async with ending(self._pipeline):
            while not await self._system.trim(TABLE_LOG_ID, oldest):
                pass

    async def _delete_needless(self, failures: Failures) -> None:
        """Delete system files that nothing needs, after the log has stated their names."""
        files = listed(self._storage, system_prefix(self._journal.container))
        listing = [stat.name async for stat in files]
        names = self._journal.deletable(
            listing,
            self._pinned.snapshot(),
            self._pinned.uncommitted,
            pinned_version=await self._pins.oldest(self._journal.lineage),
        )
        for begin in range(0, len(names), NAMES_PER_RECORD):
            part = names[begin : begin + NAMES_PER_RECORD]
            await self._fence.check()
            await self._pipeline.control(ControlKind.JOURNAL_DELETION, "\n".join(part).encode())
            for name in part:
                # It may be gone already: by an earlier attempt whose answer was lost.
                with failures.kept(), suppress(ChunkNotFoundError):
                    await self._storage.delete(name)
