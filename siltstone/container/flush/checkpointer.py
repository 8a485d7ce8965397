"""Checkpoints of an owned container."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from siltstone.container.commit.owner_context import OwnerContext
from siltstone.container.commit.pipeline import ending
from siltstone.container.flush.checkpoint_cleanup import CheckpointCleanup
from siltstone.container.flush.table_log_flusher import TableLogFlusher
from siltstone.container.flush.upload_budget import UploadBudget
from siltstone.container.state.backoff import Backoff
from siltstone.container.state.boot_state import BootState
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    ChunkError,
    CorruptDataError,
    StorageFullError,
    StoreError,
)
from siltstone.core.records.checkpoint import Checkpoint, IndexFile
from siltstone.core.records.piece import ControlKind, encode_checkpoint_record
from siltstone.journal.journal import Journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
from siltstone.metadata.checkpoint import FileSums, upload_index
from siltstone.metadata.index import Index

logger = logging.getLogger(__name__)

REPLAY_BYTES: Final = 4 * MIB
"""This much of the table log is replayed in half a second. Where more stands after the newest
checkpoint, another one is written once nothing costlier is in its way."""

REPLAY_AGE_S: Final = 10.0
"""Checkpoints for the sake of a shorter replay are this far apart: under load each would be another
file of the index, which merges them all."""


class Checkpointer:
    """Writes checkpoints when they are due.

    Attributes:
        cleanup: drops after each checkpoint what it made unnecessary.

    Args (the others are parts of this owner):
        wanted: whether to write one as soon as possible, whatever its age: the boot found damage
            that a new one replaces.
    """

    def __init__(
        self,
        context: OwnerContext,
        table_log_flusher: TableLogFlusher,
        journal: Journal,
        pinned: PinnedLayoutStore,
        cleanup: CheckpointCleanup,
        index: Index,
        suspended: Callable[[], bool],
        *,
        wanted: bool,
    ) -> None:
        pipeline, environment = context.pipeline, context.environment
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._table_log_flusher = table_log_flusher
        self._journal = journal
        self._pinned = pinned
        self._storage = context.storage
        self._environment = environment
        self._settings = context.settings
        self._fence = context.fence
        self._index = index
        self._scratch = index.folder.with_name(index.folder.name + "-checkpoint")
        self._sums: FileSums = {}
        self._budget = UploadBudget()
        self._lock = asyncio.Lock()
        self._time_s = environment.monotonic()
        self._wanted = wanted
        self.cleanup = cleanup
        self.backoff = Backoff(environment, suspended)

    @property
    def version(self) -> int:
        """Table version of the newest durable checkpoint."""
        checkpoints = self._journal.checkpoints
        return checkpoints[-1].checkpoint.index_version if checkpoints else 0

    def compose(
        self, sequence: int, files: tuple[IndexFile, ...], version: int, crc: int
    ) -> Checkpoint:
        """The checkpoint of this moment, with an index of ``version``."""
        safe_index = self._replica.safe_index(self._replica.table_flushed)
        return Checkpoint(
            lineage=self._journal.lineage,
            epoch=self._journal.epoch,
            sequence=sequence,
            system=self._pinned.snapshot(),
            index_files=files,
            index_version=version,
            index_crc=crc,
            replay_index=safe_index,
            safe_index=safe_index,
            newest_index=self._replica.newest_index,
        )

    async def write_first(self, boot_state: BootState) -> None:
        """Make the epoch's first checkpoint durable, twice, and let the log point at it."""
        name = await self._journal.write_first_checkpoint(
            lambda sequence: self.compose(
                sequence, boot_state.index_files, boot_state.index_version, boot_state.index_crc
            )
        )
        await self._point_at(name)

    async def run(self) -> None:
        """Write checkpoints by growth of the table log, and by age within the budget.

        What one could not clean up is tried again in between.
        """
        settings = self._settings
        while True:
            await self._environment.sleep(min(1.0, settings.checkpoint_age_s / 4))
            if not self._due() or self.backoff.pausing:
                if self.cleanup.due:
                    # Nothing names yet what an upload has brought: never while one runs.
                    async with self._lock:
                        await self.cleanup.clean_up()
                continue
            try:
                await self.write()
                self.backoff.succeeded()
            except (ChunkError, CorruptDataError, StorageFullError, StoreError) as error:
                # A StoreError is the index: its disk may be full, and the last checkpoint holds.
                self._pipeline.check_alive()
                logger.warning("checkpoint failed: %s", error)
                self.backoff.failed(error)

    def _due(self) -> bool:
        grown, settings = self.grown, self._settings
        if self._wanted or grown >= settings.checkpoint_bytes:
            return True
        age = self._environment.monotonic() - self._time_s
        old = grown > 0 and age >= settings.checkpoint_age_s
        long = grown >= REPLAY_BYTES and age >= REPLAY_AGE_S
        return (old or long) and self._affordable(grown)

    @property
    def grown(self) -> int:
        """Bytes of the table log after the newest checkpoint."""
        return self._replica.tables.applied_version - self.version

    def _affordable(self, grown: int) -> bool:
        newest = self._journal.checkpoints[-1].checkpoint
        return self._budget.allows(grown, self._journal.next_sequence - newest.sequence)

    async def write(self) -> None:
        """Write a checkpoint of the applied state, then drop what it makes unnecessary.

        It has succeeded when it is durable and the log points at it; see ``CheckpointCleanup`` for
        the rest.

        Raises:
            ChunkError: long-term storage failed; the older checkpoints still hold.
            LogError: the journal or the log failed; this owner must stop.
        """
        async with self._lock:
            await self._fence.check()
            known = [
                file
                for durable in self._journal.checkpoints
                for file in durable.checkpoint.index_files
            ]
            grown = self.grown
            uploaded = await upload_index(
                self._index,
                self._storage,
                self._environment,
                self._journal.container,
                self._journal.epoch,
                known,
                self._scratch,
                self._sums,
            )
            self._budget.spend(grown, uploaded.uploaded_bytes)
            position = uploaded.position
            if position is None:
                return
            # An index ahead of the table log would not be a cut that long-term storage alone holds.
            await self._table_log_flusher.flush()
            async with ending(self._pipeline):
                name = await self._journal.write_checkpoint(
                    lambda sequence: self.compose(
                        sequence, uploaded.files, position.version, position.running_crc
                    )
                )
            self._time_s = self._environment.monotonic()
            self._wanted = False
            await self._point_at(name)
            await self.cleanup.clean_up()

    async def _point_at(self, name: str) -> None:
        index = await self._pipeline.control(ControlKind.CHECKPOINT, encode_checkpoint_record(name))
        self._replica.note_checkpoint(index)
