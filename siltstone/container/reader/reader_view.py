"""What a reader knows since it last started from a checkpoint, and how it is built.

What a reader knows of the log without asking it: an answer takes I/O.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from siltstone.container.boot.log_consistency import (
    compare_newest_checkpoint,
    is_used,
    read_known_journal,
)
from siltstone.container.boot.replay import apply_appends, build_replica
from siltstone.container.boot.storage_layers import segment_storage, system_storage
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.reads.reads import Reading
from siltstone.container.reads.table_feed import TableFeed
from siltstone.container.state.boot_state import (
    BootState,
    boot_state_of,
    check_followed,
    check_lineage,
    check_log,
)
from siltstone.container.state.kept_tail import KeptTail
from siltstone.container.state.log_scan import LOG_POOL, scan_log
from siltstone.container.state.read_only_log_writer import NoWriter
from siltstone.container.state.replica import Replica
from siltstone.core.environment import Environment
from siltstone.core.errors import StoreNotFoundError
from siltstone.core.fenced_log import LogReader
from siltstone.core.records.frame import Frame
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import run_whole
from siltstone.journal.journal_state import EPOCH_END, JournalState
from siltstone.metadata.checkpoint import INDEX_POOL
from siltstone.metadata.index import Index
from siltstone.metadata.layout_store import TableLayoutStore
from siltstone.segments.segment_storage import ChunkedSegmentStorage


class View:
    """One start of a reader, and what it saw since."""

    def __init__(
        self,
        boot_state: BootState,
        journal_state: JournalState,
        replica: Replica,
        index: Index,
        system: ChunkedSegmentStorage,
        segments: ChunkedSegmentStorage,
        kept: KeptTail | None = None,
    ) -> None:
        self.boot_state = boot_state
        self.journal_state = journal_state
        self.replica = replica
        self.index = index
        self.system = system
        self.segments = segments
        self.reading = Reading(replica, segments, kept)
        self.feed = TableFeed(replica, system)

    def follow(self, frames: Iterable[Frame]) -> None:
        """Show what came since. Raises like ``Replica.apply``, and ``LogLostError``."""
        for frame in frames:
            check_followed(self.boot_state.lineage, frame.lineage)
            self.replica.apply(frame)

    def drop(self) -> None:
        """Close the index and remove its folder. Blocking."""
        self.index.close()
        shutil.rmtree(self.index.folder, ignore_errors=True)


async def build_view(
    container: int,
    reader: LogReader,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    folder: Path,
    owned: Sequence[Path],
    followed: bytes | None,
) -> View:
    """Build a view from the newest checkpoint, the table log and the tier-1 log as they are now.

    ``followed`` is the lineage of a view before this one.

    Raises:
        StoreNotFoundError: the container was never opened for writing.
        LogLostError: the log is not the one that the journal speaks of, or was truncated meanwhile;
            or it has frames, and there is no journal.
        LogTruncatedError, ChunkNotFoundError: something was dropped meanwhile.
        CorruptDataError: something is damaged, or was dropped meanwhile.
    """
    journal_state = await read_known_journal(
        storage, environment, container, EPOCH_END, partial(is_used, reader), LOG_POOL
    )
    if journal_state is None:
        raise StoreNotFoundError("container was never opened", container=container)
    boot_state = boot_state_of(journal_state.checkpoint.lineage, journal_state)
    if followed is not None:
        check_followed(followed, boot_state.lineage)
    await environment.run_blocking(LOG_POOL, partial(_check_log, boot_state, reader))
    scan = await scan_log(reader, boot_state, environment)
    scan.check()
    system = system_storage(boot_state, storage, environment, settings)
    kept = KeptTail(reader, environment)
    replica, index, boot_state = await build_replica(
        boot_state, scan, system, storage, environment, settings, [folder, *owned], kept=kept
    )
    try:
        await apply_appends(replica, reader, scan, environment)
        boot_state = await compare_newest_checkpoint(boot_state, replica.checkpoint_name, storage)
    except BaseException:
        await run_whole(environment, INDEX_POOL, index.close)
        raise
    replica.exposure.cover(journal_state.safe_index)
    writer = NoWriter(replica.tables)
    layouts = TableLayoutStore(replica.rows, writer, container, environment, 0.0)
    segments = segment_storage(
        storage, layouts, environment, settings, prefetch_bytes=settings.prefetch_bytes
    )
    return View(boot_state, journal_state, replica, index, system, segments, kept)


def _check_log(boot_state: BootState, reader: LogReader) -> None:
    """Refuse a log that is not the one that the journal speaks of. Raises ``LogLostError``."""
    check_lineage(boot_state, reader.lineage())
    check_log(boot_state, reader.epoch(), reader.first(), reader.end())


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """A log as it was at the last look.

    Attributes:
        epoch: the newest one.
        first: index of the first frame that is kept.
        dropped_tail: bytes of a torn last frame.
    """

    epoch: int = 0
    first: int = 0
    dropped_tail: int = 0


def facts_of(reader: LogReader) -> LogFacts:
    """Ask a log. Blocking."""
    return LogFacts(epoch=reader.epoch(), first=reader.first(), dropped_tail=reader.dropped_tail())
