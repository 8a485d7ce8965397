"""What a reader knows since it last started from a checkpoint, and how it is built."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from siltstone.container.boot import apply_appends, build_replica
from siltstone.container.found import Found, check_followed, check_lineage, check_log, found
from siltstone.container.journal_end import compared
from siltstone.container.kept_tail import KeptTail
from siltstone.container.log_scan import LOG_POOL
from siltstone.container.no_writer import NoWriter
from siltstone.container.owner import scan_log, segment_storage
from siltstone.container.reading import Reading
from siltstone.container.replica import Replica
from siltstone.container.settings import ContainerSettings
from siltstone.container.table_feed import TableFeed
from siltstone.container.without_journal import is_used, recover_known
from siltstone.core.environment import Environment
from siltstone.core.errors import StoreNotFoundError
from siltstone.core.fenced_log import LogReader
from siltstone.core.records.frame import Frame
from siltstone.core.segment_storage import ChunkedSegmentStorage
from siltstone.core.threads import AsyncChunkStorage
from siltstone.core.whole_calls import run_whole
from siltstone.journal.journal import Journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
from siltstone.journal.recovery import EPOCH_END, Recovered
from siltstone.metadata.checkpoint import INDEX_POOL
from siltstone.metadata.index import Index
from siltstone.metadata.layout_store import TableLayoutStore


class View:
    """One start of a reader, and what it saw since."""

    def __init__(
        self,
        where: Found,
        recovered: Recovered,
        replica: Replica,
        index: Index,
        system: ChunkedSegmentStorage,
        segments: ChunkedSegmentStorage,
        kept: KeptTail | None = None,
    ) -> None:
        self.where = where
        self.recovered = recovered
        self.replica = replica
        self.index = index
        self.system = system
        self.segments = segments
        self.reading = Reading(replica, segments, kept)
        self.feed = TableFeed(replica, system)

    def follow(self, frames: Iterable[Frame]) -> None:
        """Show what came since. Raises like ``Replica.apply``, and ``LogLostError``."""
        for frame in frames:
            check_followed(self.where.lineage, frame.lineage)
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
        StoreNotFoundError: nobody ever opened the container for writing.
        LogLostError: the log is not the one that the journal speaks of, or was truncated meanwhile;
            or it has frames, and there is no journal.
        LogTruncatedError, ChunkNotFoundError: something was dropped meanwhile.
        CorruptDataError: something is damaged, or was dropped meanwhile.
    """
    recovered = await recover_known(
        storage, environment, container, EPOCH_END, partial(is_used, reader), LOG_POOL
    )
    if recovered is None:
        raise StoreNotFoundError("container was never opened", container=container)
    where = found(recovered.checkpoint.lineage, recovered)
    if followed is not None:
        check_followed(followed, where.lineage)
    await environment.run_blocking(LOG_POOL, partial(_check_log, where, reader))
    scan = await scan_log(reader, where, environment)
    scan.check()
    # Neither of these is ever written to: no file of a journal is begun without a checkpoint.
    journal = Journal(storage, environment, container, recovered.epoch, where.lineage)
    pinned = PinnedLayoutStore(journal, recovered.layouts, lambda _: (0, -1))
    system = segment_storage(storage, pinned, environment, settings)
    kept = KeptTail(reader, environment)
    replica, index, where = await build_replica(
        where, scan, system, storage, environment, settings, folder, owned, kept=kept
    )
    try:
        await apply_appends(replica, reader, scan, environment)
        where = await compared(where, replica.checkpoint_name, storage)
    except BaseException:
        await run_whole(environment, INDEX_POOL, index.close)
        raise
    replica.exposure.cover(recovered.safe_index)
    writer = NoWriter(replica.tables)
    layouts = TableLayoutStore(replica.rows, writer, container, environment, 0.0)
    segments = segment_storage(
        storage, layouts, environment, settings, prefetch_bytes=settings.prefetch_bytes
    )
    return View(where, recovered, replica, index, system, segments, kept)


def _check_log(where: Found, reader: LogReader) -> None:
    """Refuse a log that is not the one that the journal speaks of. Raises ``LogLostError``."""
    check_lineage(where, reader.lineage())
    check_log(where, reader.epoch(), reader.first(), reader.end())
