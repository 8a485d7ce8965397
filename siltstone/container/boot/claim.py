"""How an owner claims a container and brings it up: the steps of a boot, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from siltstone.container.boot.log_consistency import (
    check_truncation,
    compare_newest_checkpoint,
    is_used_log,
    read_known_journal,
)
from siltstone.container.boot.replay import apply_appends, build_replica
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.state.boot_state import BootState, boot_state_of, check_lineage, check_log
from siltstone.container.state.log_scan import LOG_POOL, READS_MAX, LogScan, scan_frames
from siltstone.container.state.replica import FlushThresholds, Replica
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import FencedError, LogLostError, LogTruncatedError
from siltstone.core.fenced_log import FencedLog, LogReader
from siltstone.core.layout_store import LayoutStore, PackingLayoutStore
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.records.frame import KIND_END, Frame
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.bandwidth import Bandwidth
from siltstone.core.storage.call_stats import CallLimits
from siltstone.core.storage.circuit_breaker import CircuitLimits
from siltstone.core.storage.first_look import LOG_S, silent_log
from siltstone.core.storage.late_work import in_time
from siltstone.core.storage.uncancellable import run_whole
from siltstone.journal.journal_state import EPOCH_END, JournalState, list_epochs, read_journal
from siltstone.metadata.checkpoint import INDEX_POOL
from siltstone.metadata.index import Index
from siltstone.segments.packing_segment_storage import PackingSegmentStorage
from siltstone.segments.segment_storage import ChunkedSegmentStorage, SegmentStorageSettings
from siltstone.segments.verified_blocks import VerifiedBlocks

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claimed container before its replica is built.

    Attributes:
        epoch: this owner's.
        boot_state: where the boot starts from.
        log_first: index of the first frame that the log kept then.
        log_end: one above the index of its newest frame then.
        dropped_tail: bytes of a torn last frame that the claim voided.
    """

    epoch: int
    boot_state: BootState
    log_first: int
    log_end: int
    dropped_tail: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJournal:
    """What a journal and its log tell before the log is claimed.

    Attributes:
        above: the highest epoch that any file of the journal is of.
        log_first: the first index that the log kept before the journal was read.
        journal_state: what the journal states; ``None`` in a new container.
        tried: lineage of a new container whose first boots failed, if any did.
    """

    above: int
    log_first: int
    journal_state: JournalState | None
    tried: bytes | None


async def list_journal(
    log: FencedLog, storage: AsyncChunkStorage, environment: Environment, container: int
) -> KnownJournal:
    """Find the highest epoch and the lineage of the container.

    Raises:
        LogError: the log failed, or does not answer.
        CorruptDataError: the journal is damaged beyond what a boot may pass over.
    """
    above = await list_epochs(storage, container)
    first = await first_answer(environment, container, partial(_first, log))
    journal_state = await read_known_journal(
        storage, environment, container, EPOCH_END, partial(is_used_log, log), LOG_POOL
    )
    tried: bytes | None = None
    if journal_state is None:
        tried = await environment.run_blocking(LOG_POOL, lambda: _tried_before(log))
    return KnownJournal(above=above, log_first=first, journal_state=journal_state, tried=tried)


async def claim_log(
    known: KnownJournal, log: FencedLog, environment: Environment, *, owner: str, takeover: bool
) -> tuple[int, bytes]:
    """Look at the log, then claim it; return this owner's epoch and the lineage.

    Raises:
        StoreInUseError: a live owner holds it and ``takeover`` is false.
        LogLostError: the log is not the one that the journal belongs to, or older. Nothing was
            written to it.
        LogError: the log failed.
        FencedError: another owner claimed it in the meantime.
    """
    journal_state = known.journal_state
    if journal_state is not None:
        boot_state = boot_state_of(journal_state.checkpoint.lineage, journal_state)
        await environment.run_blocking(LOG_POOL, lambda: _look_at(log, boot_state, known.log_first))
        lineage = journal_state.checkpoint.lineage
    else:
        lineage = known.tried or environment.uuid()
    claim = partial(
        log.claim,
        lineage=lineage,
        new=journal_state is None and known.tried is None,
        above=known.above,
        takeover=takeover,
        owner=owner,
    )
    return await environment.run_blocking(LOG_POOL, claim), lineage


@asynccontextmanager
async def fenced_rather_than_lost(
    log: FencedLog, environment: Environment, epoch: int
) -> AsyncIterator[None]:
    """Raise ``FencedError`` for a loss that a newer owner explains.

    Newer owners delete what older ones boot from, and that must not look like a loss.
    """
    try:
        yield
    except LogLostError as error:
        newest = await environment.run_blocking(LOG_POOL, log.newest_epoch)
        if newest > epoch:
            raise FencedError("a newer epoch owns the log", epoch=newest) from error
        raise


async def read_journal_again(
    known: KnownJournal,
    storage: AsyncChunkStorage,
    environment: Environment,
    container: int,
    epoch: int,
    lineage: bytes,
) -> BootState:
    """Find what to boot from, now that the log is claimed.

    Whatever an older owner wrote before it was fenced counts, nothing later does.

    Raises:
        LogLostError: the journal is of another history, or gone.
        CorruptDataError: it is damaged beyond what a boot may pass over.
    """
    journal_state = await read_journal(storage, environment, container, epoch)
    if journal_state is not None and journal_state.checkpoint.lineage != lineage:
        raise LogLostError("another first owner opened the container meanwhile")
    if journal_state is None and known.journal_state is not None:
        raise LogLostError("the journal is gone")
    return boot_state_of(lineage, journal_state)


async def compare_log(
    boot_state: BootState, log: FencedLog, environment: Environment, epoch: int
) -> Claimed:
    """Check that the claimed log continues what the journal states.

    Raises:
        LogLostError: it is an older copy, was emptied, or is one of two under one store.
    """
    first, end, dropped = await environment.run_blocking(
        LOG_POOL, lambda: (log.first(), log.end(), log.dropped_tail())
    )
    try:
        check_log(boot_state, epoch, first, end)
    except LogLostError:
        check = partial(kept_frames, log, partial(check_truncation, boot_state))
        await environment.run_blocking(LOG_POOL, check)
        raise
    return Claimed(
        epoch=epoch, boot_state=boot_state, log_first=first, log_end=end, dropped_tail=dropped
    )


async def first_answer(environment: Environment, container: int, call: Callable[[], T]) -> T:
    """Ask a log for the first time: one that hangs must not block the caller that opens it.

    Raises:
        LogError: it does not answer.
    """
    work = asyncio.ensure_future(environment.run_blocking(LOG_POOL, call))
    if not await in_time(work, LOG_S):
        raise silent_log(container)
    return work.result()


def _first(log: FencedLog) -> int:
    """The first index that the log keeps, before the journal is read: an owner may truncate."""
    reader = log.open_read()
    try:
        return reader.first()
    finally:
        reader.close()


def _look_at(log: FencedLog, boot_state: BootState, first: int) -> None:
    """Refuse a log that is surely lost before anything is written to it.

    The claim decides for certain: only that tells whether the newest frame counts.

    Raises:
        LogLostError: it is not the log of the journal, or older.
        CorruptDataError: it is the journal that lacks something.
    """
    reader = log.open_read()
    try:
        check_lineage(boot_state, reader.lineage())
        check_log(boot_state, reader.epoch(), first, reader.end() + 1)
    except LogLostError:
        with suppress(LogTruncatedError):
            check_truncation(boot_state, reader.read(reader.first()))
        raise
    finally:
        reader.close()


def _tried_before(log: FencedLog) -> bytes | None:
    """Lineage of a log that holds only the ends of first boots that failed.

    Nothing was ever acknowledged there, so the container is as good as new.
    """
    reader = log.open_read()
    try:
        count = 0
        for frame in reader.read(reader.first()):
            if frame.kind != KIND_END or frame.index != count:
                return None
            count += 1
        return reader.lineage() if count else None
    except LogTruncatedError:
        # An owner is at work: this log is not new.
        return None
    finally:
        reader.close()


async def replay(
    claimed: Claimed,
    log: FencedLog,
    system: ChunkedSegmentStorage,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    index_folder: Path,
    flush_thresholds: FlushThresholds,
) -> tuple[Replica, Index, BootState]:
    """Build the replica of a claimed container from everything that was acknowledged.

    Returns it with its index, and where that began.
    """
    kept_bytes_max = settings.unflushed_bytes_max
    scan = await scan_log(log, claimed.boot_state, environment, kept_bytes_max=kept_bytes_max)
    if scan.newest_epoch > claimed.epoch:
        # If the journal of this epoch stated it, the log would seem to be another one.
        raise FencedError("a newer epoch owns the log", epoch=scan.newest_epoch)
    if (claimed.log_first if scan.first is None else scan.newest + 1) < claimed.log_end:
        raise LogLostError("the log became shorter since its claim", end=claimed.log_end)
    scan.check()
    replica, index, boot_state = await build_replica(
        claimed.boot_state,
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
        boot_state = await compare_newest_checkpoint(boot_state, replica.checkpoint_name, storage)
    except BaseException:
        await run_whole(environment, INDEX_POOL, index.close)
        raise
    return replica, index, boot_state


async def scan_log(
    log: FencedLog | LogReader,
    boot_state: BootState,
    environment: Environment,
    *,
    kept_bytes_max: int = 0,
) -> LogScan:
    """Look at every frame that the log keeps.

    Raises as ``kept_frames``, and as ``decode_logged_frame``.
    """
    look = partial(
        scan_frames, boot_state=boot_state, environment=environment, kept_bytes_max=kept_bytes_max
    )
    return await environment.run_blocking(LOG_POOL, partial(kept_frames, log, look))


def kept_frames(log: FencedLog | LogReader, read: Callable[[Iterator[Frame]], T]) -> T:
    """Return what ``read`` makes of every frame that the log keeps.

    An older owner may still truncate what it stated while it held the log, so a read may have to
    begin again at the new first index.

    Raises:
        LogTruncatedError: the log was truncated under each of several reads.
    """
    for _ in range(READS_MAX):
        with suppress(LogTruncatedError):
            return read(log.read(log.first()))
    return read(log.read(log.first()))


def bridged(
    storage: ChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    metrics: Metrics = NO_METRICS,
) -> AsyncChunkStorage:
    """The bridge to a binding, with the threads and the deadline of the settings."""
    background = settings.background_rate
    return AsyncChunkStorage(
        storage,
        environment,
        threads=settings.storage_threads,
        deadline_s=settings.storage_deadline_s,
        rate_min=settings.storage_rate_min,
        background=None if background is None else Bandwidth(environment, background),
        metrics=metrics,
        limits=CallLimits(slow_s=settings.slow_call_s, circuit=CircuitLimits()),
    )


def segment_storage(
    storage: AsyncChunkStorage,
    layouts: LayoutStore,
    environment: Environment,
    settings: ContainerSettings,
    *,
    prefetch_bytes: int = 0,
) -> ChunkedSegmentStorage:
    """The segment layer over ``layouts`` as the settings say."""
    choices = _choices(settings, prefetch_bytes)
    blocks = VerifiedBlocks(environment.monotonic, remember_s=choices.remember_s)
    return ChunkedSegmentStorage(storage, layouts, environment, choices, blocks)


def packing_storage(
    storage: AsyncChunkStorage,
    layouts: PackingLayoutStore,
    environment: Environment,
    settings: ContainerSettings,
) -> PackingSegmentStorage:
    """The same for an owner's segments of applications, which may share chunks."""
    choices = _choices(settings, settings.prefetch_bytes)
    blocks = VerifiedBlocks(environment.monotonic, remember_s=choices.remember_s)
    return PackingSegmentStorage(storage, layouts, environment, choices, blocks)


def _choices(settings: ContainerSettings, prefetch_bytes: int) -> SegmentStorageSettings:
    return SegmentStorageSettings(
        chunk_bytes=settings.chunk_bytes,
        verify_reads=settings.verify_reads,
        read_back=settings.read_back,
        prefetch_bytes=prefetch_bytes,
    )
