"""How the state of a container is built: the index, then the table log, then the tier-1 log.

Owner and read-only opens share ``build_replica`` and ``apply_appends``; ``replay`` is what an owner
does with them once it has claimed the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from siltstone.container.boot.claim import Claimed, fenced_rather_than_lost
from siltstone.container.boot.index_restore import OpenIndex, close_index, restored_index
from siltstone.container.boot.log_consistency import compare_newest_checkpoint
from siltstone.container.boot.storage_layers import system_storage
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.state.boot_state import BootState
from siltstone.container.state.kept_tail import KeptTail
from siltstone.container.state.log_scan import (
    BATCH_BYTES_MAX,
    LOG_POOL,
    READS_MAX,
    LogScan,
    each_frame,
    scan_log,
)
from siltstone.container.state.logged_frame import LoggedFrame, table_records
from siltstone.container.state.replica import NO_THRESHOLDS, FlushThresholds, Replica
from siltstone.container.state.table_log import crc_at, read_table_log
from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError, FencedError, LogLostError, LogTruncatedError
from siltstone.core.fenced_log import FencedLog, LogReader
from siltstone.core.records.table_record import decode_table_record, table_record_place
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import run_whole
from siltstone.metadata.checkpoint import INDEX_POOL, linked_index
from siltstone.metadata.index import Index
from siltstone.metadata.index_watch import IndexWatch
from siltstone.metadata.tables import Tables
from siltstone.segments.segment_storage import ChunkedSegmentStorage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedContainer:
    """A claimed container with its acknowledged state.

    Attributes:
        claimed: what was claimed; where the boot started from, with what had to be passed over.
        replica: the acknowledged state.
        index: holds the tables of the replica; the owner closes it.
    """

    claimed: Claimed
    replica: Replica
    index: Index


async def replay(
    claimed: Claimed,
    log: FencedLog,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    index_folder: Path,
    flush_thresholds: FlushThresholds,
) -> ReplayedContainer:
    """Build the replica of a claimed container from everything that was acknowledged.

    Raises:
        FencedError: a newer owner claimed the log, and may have truncated what is needed here.
        LogLostError: the log lacks what long-term storage or the local index have seen.
        CorruptDataError: the log, the table log or a file of the index is damaged.
        ChunkError: long-term storage did not answer.
    """
    async with fenced_rather_than_lost(log, environment, claimed.epoch):
        boot_state = claimed.boot_state
        scan = await scan_log(
            log, boot_state, environment, kept_bytes_max=settings.unflushed_bytes_max
        )
        if scan.newest_epoch > claimed.epoch:
            # If the journal of this epoch stated it, the log would seem to be another one.
            raise FencedError("a newer epoch owns the log", epoch=scan.newest_epoch)
        if (claimed.log_first if scan.first is None else scan.newest + 1) < claimed.log_end:
            raise LogLostError("the log became shorter since its claim", end=claimed.log_end)
        scan.check()
        system = system_storage(boot_state, storage, environment, settings)
        replica, index, boot_state = await build_replica(
            boot_state,
            scan,
            system,
            storage,
            environment,
            settings,
            [index_folder],
            flush_thresholds=flush_thresholds,
        )
        try:
            await apply_appends(replica, log, scan, environment)
            boot_state = await compare_newest_checkpoint(
                boot_state, replica.checkpoint_name, storage
            )
        except BaseException:
            await run_whole(environment, INDEX_POOL, index.close)
            raise
    if boot_state.journal_state is not None:
        replica.exposure.cover(boot_state.journal_state.safe_index)
    return ReplayedContainer(
        claimed=replace(claimed, boot_state=boot_state), replica=replica, index=index
    )


async def build_replica(
    boot_state: BootState,
    scan: LogScan,
    system: ChunkedSegmentStorage,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    index_folders: Sequence[Path],
    *,
    flush_thresholds: FlushThresholds = NO_THRESHOLDS,
    kept: KeptTail | None = None,
    to_damage: bool = False,
) -> tuple[Replica, Index, BootState]:
    """Build the acknowledged state from the index, the table log and a look at the tier-1 log.

    Its appends are missing: see ``apply_appends``.

    Returns it with its index, and ``boot_state`` with what had to be passed over.

    Args:
        boot_state: what the journal says.
        scan: of every frame that the log keeps.
        system: reads the table log.
        storage: holds the index files of the checkpoint.
        environment: gives threads.
        settings: of the container.
        index_folders: first where the local index is, or will be. Then, for a reader, those of
            indexes that owners on this machine have, or had. One that is as new as the checkpoint
            is linked, which spares the download; after a kill, or while short owners write no
            checkpoint, it spares most of the replay as well.
        flush_thresholds: when a tail is large, and which callback is notified.
        kept: where a reader leaves the bytes of tails.
        to_damage: where the table log is damaged and frames do not continue it, the state is what
            stands before; ``boot_state`` then ends there. Only for callers that may lose something.

    Raises:
        CorruptDataError: something does not continue what is before it.
        LogLostError: the log lacks what the local index was given.
        ChunkError: long-term storage did not answer.
    """
    metrics = storage.metrics
    index_folder, *owned = index_folders
    open_index = partial(
        Index.open,
        cache_bytes=settings.index_cache_bytes,
        write_buffer_bytes=settings.index_write_bytes,
        watch=IndexWatch(metrics, environment.monotonic) if metrics.enabled else None,
    )
    index = await _matching_index(
        boot_state, scan.frames, system, environment, open_index, index_folder
    )
    for folder in owned:
        if index is None:
            index = await _linked_index(
                boot_state, scan.frames, system, environment, open_index, index_folder, folder
            )
    if index is None:
        index, boot_state = await restored_index(
            boot_state, storage, environment, index_folder, open_index=open_index
        )
    try:
        tables = Tables(index, boot_state.lineage)
        boot_state = await _replay_table_log(
            tables, boot_state, scan.frames, system, to_damage=to_damage
        )
        replica = Replica(
            tables,
            environment,
            idle_max=settings.segments_idle_max,
            kept=kept,
            flush_thresholds=flush_thresholds,
        )
        replica.note_table_flush(boot_state.table_end)
        replica.begin(scan)
        if tables.applied_version < boot_state.table_end:
            raise CorruptDataError(
                "neither the table log nor tier 1 is whole",
                where=f"table log at {tables.applied_version}",
                end=boot_state.table_end,
                reason=boot_state.warnings[-1],
            )
    except BaseException:
        index.close()
        raise
    return replica, index, boot_state


async def apply_appends(
    replica: Replica, log: FencedLog | LogReader, scan: LogScan, environment: Environment
) -> None:
    """Apply the appends that are in no chunk yet; read the log again if they are not kept.

    Raises:
        LogTruncatedError: the log was truncated under each of several reads.
        LogLostError: frames that are needed were truncated; or as ``Replica.apply``.
        CorruptDataError: as ``Replica.apply``.
    """
    start = scan.first_needed(replica.flushed_if_alive)
    kept = scan.take_kept(start)
    if kept is not None:
        await _apply_kept(replica, kept)
        return
    for left in reversed(range(READS_MAX)):
        if start > scan.newest:
            return
        try:
            await each_frame(log, start, environment, replica.append_from, scan.newest)
        except LogTruncatedError:
            if not left:
                raise
            first = await environment.run_blocking(LOG_POOL, log.first)
            scan.check_first(first)
            start = max(start, first)
        else:
            return


async def _apply_kept(replica: Replica, frames: deque[LoggedFrame]) -> None:
    size = 0
    while frames:
        frame = frames.popleft()
        replica.append_from(frame)
        size += len(frame.body)
        if size >= BATCH_BYTES_MAX:
            size = 0
            await asyncio.sleep(0)  # Other containers of the loop are at work.


async def _replay_table_log(
    tables: Tables,
    boot_state: BootState,
    frames: Sequence[LoggedFrame],
    system: ChunkedSegmentStorage,
    *,
    to_damage: bool,
) -> BootState:
    """Apply the table log after the index, as far as it is whole; frames may have the rest."""
    try:
        async for records in read_table_log(system, tables.applied_version, boot_state.table_end):
            tables.replay_all((record, None) for record in records)
    except CorruptDataError as error:
        applied = tables.applied_version
        if applied not in (_start(*record) for record in table_records(frames)):
            if not to_damage:
                raise
            warning = f"went back to table version {applied}, where damage begins: {error}"
            logger.warning("%s", warning)
            return replace(boot_state.warned(warning), table_end=applied, repaired=True)
        warning = f"passed over the table log from {applied} on, which tier 1 holds: {error}"
        logger.warning("%s", warning)
        boot_state = replace(boot_state.warned(warning), repaired=True)
    return boot_state


async def _matching_index(
    boot_state: BootState,
    frames: Sequence[LoggedFrame],
    system: ChunkedSegmentStorage,
    environment: Environment,
    open_index: OpenIndex,
    folder: Path,
) -> Index | None:
    """The local index if it is a prefix of this very table log, else ``None``."""
    if not await environment.run_blocking(INDEX_POOL, folder.exists):
        return None
    try:
        index = await run_whole(environment, INDEX_POOL, partial(open_index, folder), Index.close)
    except CorruptDataError as error:
        logger.warning("local index is damaged and is built again: %s", error)
        return None

    async def matches() -> bool:
        position = index.position
        if position is not None and position.lineage == boot_state.lineage:
            _check_not_ahead(position.version, boot_state, frames, folder)
        return await _is_prefix(index, boot_state, frames, system)

    return await _kept_if(index, matches)


async def _linked_index(
    boot_state: BootState,
    frames: Sequence[LoggedFrame],
    system: ChunkedSegmentStorage,
    environment: Environment,
    open_index: OpenIndex,
    folder: Path,
    owned: Path,
) -> Index | None:
    """A linked copy of an owner's index, if it is a prefix of this very table log, else ``None``.

    One that is ahead belongs to an owner that continued since the log was read.
    """
    link = partial(linked_index, owned, folder, open_index)
    index = await run_whole(environment, INDEX_POOL, link, close_index)
    if index is None:
        return None
    return await _kept_if(index, partial(_is_prefix, index, boot_state, frames, system))


async def _kept_if(index: Index, matches: Callable[[], Awaitable[bool]]) -> Index | None:
    """The index if it is the right one; else it is closed: the next try must find it free."""
    try:
        if await matches():
            return index
    except BaseException:
        index.close()
        raise
    index.close()
    return None


async def _is_prefix(
    index: Index,
    boot_state: BootState,
    frames: Sequence[LoggedFrame],
    system: ChunkedSegmentStorage,
) -> bool:
    """Whether the table log continues where the index ends, which is not before the checkpoint."""
    position = index.position
    return (
        position is not None
        and position.lineage == boot_state.lineage
        and position.version >= boot_state.index_version
        and await _crc_at(position.version, boot_state, frames, system) == position.running_crc
    )


def _check_not_ahead(
    version: int, boot_state: BootState, frames: Sequence[LoggedFrame], folder: Path
) -> None:
    """Refuse a log that lacks acknowledged table updates which the local index has.

    Raises:
        LogLostError: it lacks some.
    """
    ends = (table_record_place(data, where=place)[1] for data, place in table_records(frames))
    end = max([boot_state.index_version, boot_state.table_end, *ends])
    if version > end:
        raise index_ahead(folder, version, end)


def index_ahead(folder: Path, version: int, end: int) -> LogLostError:
    """The error of a boot whose local index is at ``version`` and whose log ends at ``end``."""
    return LogLostError(
        "the log ends before table updates that the local index holds, so acknowledged bytes"
        f" are missing: bring the right tier 1 back, or delete {folder} to continue without them",
        end=end,
        acknowledged=version,
    )


async def _crc_at(
    version: int,
    boot_state: BootState,
    frames: Sequence[LoggedFrame],
    system: ChunkedSegmentStorage,
) -> int | None:
    """Running CRC32C of the table log at ``version``; ``None`` when no record ends there."""
    if version == boot_state.index_version:
        return boot_state.index_crc
    for data, place in table_records(frames):
        start, end, running_crc = table_record_place(data, where=place)
        if start == version:
            return running_crc
        if end == version:
            return decode_table_record(data, where=place).crc_after
    if version <= boot_state.table_end:
        try:
            return await crc_at(system, boot_state.index_version, boot_state.table_end, version)
        except CorruptDataError as error:
            # The replay will find out whether that matters.
            logger.warning("local index cannot be compared with the table log: %s", error)
    return None


def _start(record: bytes, where: str) -> int:
    start, _, _ = table_record_place(record, where=where)
    return start
