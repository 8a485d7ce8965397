"""The flush of the table log into its own chunks, and the truncation of tier 1 after it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.commit.owner_context import OwnerContext
from siltstone.container.commit.pipeline import ending
from siltstone.container.flush.whole_cut import WholeCuts
from siltstone.container.state.backoff import Backoff, woken
from siltstone.core.chunk_storage import UNLIMITED
from siltstone.core.constants import MIB, TABLE_LOG_ID
from siltstone.core.records.piece import (
    ControlKind,
    encode_checkpoint_record,
    encode_truncation_record,
)
from siltstone.core.storage.late_work import finish
from siltstone.journal.journal import Journal
from siltstone.segments.segment_storage import ChunkedSegmentStorage

logger = logging.getLogger(__name__)

WRITE_BYTES_MAX = 8 * MIB


class TableLogFlusher:
    """Flushes the table log and truncates tier 1 after it.

    Args (the others are parts of this owner):
        awake: set when a flush may be due.
        suspended: whether flushes in the background should rest.
    """

    def __init__(
        self,
        context: OwnerContext,
        system: ChunkedSegmentStorage,
        journal: Journal,
        pressure: Pressure,
        cuts: WholeCuts,
        awake: asyncio.Event,
        suspended: Callable[[], bool],
    ) -> None:
        self._journal = journal
        pipeline, environment = context.pipeline, context.environment
        self.backoff = Backoff(environment, suspended)
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._system = system
        self._environment = environment
        self._settings = context.settings
        self._fence = context.fence
        self._pressure = pressure
        self._cuts = cuts
        self._lock = asyncio.Lock()
        self._awake = awake
        self._truncated = 0

    async def run(self) -> None:
        """Flush the table log by size and by age until cancelled."""
        settings = self._settings
        while True:
            await woken(self._awake, min(1.0, settings.table_flush_age_s / 4))
            tail = self._replica.table_tail
            if not tail or self.backoff.pausing:
                continue
            age = self._environment.monotonic() - tail.first.time_s
            if (
                tail.size < settings.table_flush_bytes
                and age < settings.table_flush_age_s
                and not self._pressure.over
            ):
                continue
            with self.backoff.attempt(logger, "flush of the table log"):
                await self.flush()
                await self.truncate_log()

    async def flush(self) -> None:
        """Bring every acknowledged table update into the table log on long-term storage.

        The bytes of the same commits are brought there before, see ``WholeCuts``.

        Raises:
            ChunkError: long-term storage failed; nothing is lost and it will be tried again.
            LogError: the journal failed; this owner must stop.
        """
        target = self._replica.tables.applied_version
        async with self._lock:
            if self._replica.table_flushed >= target:
                return
            version = await self._cuts.find()
            while self._replica.table_flushed < version:
                # Carried to its end: what is written and not known to be would be written again.
                await finish(asyncio.ensure_future(self._step(version)))

    async def _step(self, end: int) -> None:
        """Write records up to ``end``, by one batch if any joint commit is among them."""
        replica = self._replica
        joint = replica.newest_joint >= replica.table_flushed
        records = replica.table_tail.head(UNLIMITED if joint else WRITE_BYTES_MAX, end)
        version = records[-1].version
        # A batch of the journal that may or may not be durable is the end of this owner.
        async with ending(self._pipeline):
            await self._system.write(
                TABLE_LOG_ID,
                self._replica.table_flushed,
                [record.record for record in records],
                cuts=[record.version for record in records],
            )
        self._pressure.release(self._replica.note_table_flush(version))
        self._replica.exposure.cover(self._journal.stated_safe_index)

    async def truncate_log(self) -> None:
        """Truncate tier 1 as far as what is durable allows, after the log has stated it."""
        checkpoint = self._replica.checkpoint_index
        if checkpoint is None or self._journal.stated_safe_index <= self._truncated:
            return
        await self._fence.check()
        if self._journal.stated_safe_index > checkpoint:
            # Repeated further on, the record does not hold back what nothing else needs.
            name = self._journal.checkpoints[-1].file_name
            checkpoint = await self._pipeline.control(
                ControlKind.CHECKPOINT, encode_checkpoint_record(name)
            )
            self._replica.note_checkpoint(checkpoint)
        index = min(self._journal.stated_safe_index, checkpoint)
        await self._pipeline.control(ControlKind.TRUNCATION, encode_truncation_record(index))
        await self._pipeline.truncate(index)
        self._truncated = index
