"""The read-only open of a container: no claim, nothing written but a local index of its own.

It starts like a boot and then follows the log. It never shows a length below one it has shown, and
works beside an owner that flushes, truncates and deletes: when something is gone, it looks again.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from siltstone.container.boot.claim import bridged, first_answer
from siltstone.container.health.monitor import Gauge, ReaderHealth
from siltstone.container.models.segments import ChunkInfo, ContainerStats, SegmentInfo
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.reader.backup_image import ReaderImage
from siltstone.container.reader.no_log import NoLog
from siltstone.container.reader.read_checks import StateChecks
from siltstone.container.reader.reader_folder import make_reader_folder
from siltstone.container.reader.reader_pins import ReaderPins
from siltstone.container.reader.reader_tables import POLL_S, ReaderTables
from siltstone.container.reader.reader_times import ReaderTimes
from siltstone.container.reader.reader_view import (
    LogFacts,
    View,
    build_view,
    facts_of,
    warned_of_tail,
)
from siltstone.container.reads.reads import Reading, whole_map
from siltstone.container.state.log_scan import LOG_POOL, take_some
from siltstone.container.state.replica import log_held_by
from siltstone.container.state.segment_map import SegmentMap
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkNotFoundError,
    ClosedError,
    CorruptDataError,
    LogLostError,
    LogTruncatedError,
    LostDataError,
)
from siltstone.core.fenced_log import FencedLog, LogReader
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import WholeClose, closed_in_time
from siltstone.core.text import uuid_text
from siltstone.metadata.checkpoint import INDEX_POOL
from siltstone.segments.page_cache_reads import ReadPlace

T = TypeVar("T")

STARTS_MAX = 5
PAUSE_S = 0.05
TABLE_TAIL_BYTES_MAX = 64 * MIB
"""Beyond this a long-lived reader starts from a later checkpoint, to forget what is covered."""


class ReadContainer(ReaderTables, ReaderTimes, ReaderPins, StateChecks, ReaderImage):
    """One container, opened read-only. Made by ``open_reader``."""

    health: ReaderHealth

    def __init__(
        self,
        container: int,
        log: FencedLog,
        storage: AsyncChunkStorage,
        environment: Environment,
        settings: ContainerSettings,
        folder: Path,
        index_folders: Sequence[Path],
    ) -> None:
        self._container = container
        self._owned = index_folders
        self._log = log
        self._storage = storage
        self._environment = environment
        self._settings = settings
        self._folder = folder
        self._reader: LogReader | None = None
        self._view: View | None = None
        self._generation = 0
        self._log_facts = LogFacts()
        self._refreshed_s = 0.0
        self._lock = asyncio.Lock()
        self._closed = False
        self._closing = WholeClose()
        gauge = Gauge(container, storage, environment, settings)
        self.health = ReaderHealth(gauge, self.refresh, self._seen, log)

    # --- following --------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """See what was acknowledged since.

        Raises:
            ChunkError: long-term storage did not answer.
            CorruptDataError, LogLostError: something is damaged, or was recovered meanwhile.
        """
        async with self._lock:
            await self._refresh()

    async def _refresh(self) -> None:
        view = self._current()
        assert self._reader is not None, "a view comes with a log reader"
        reader = self._reader
        start = view.replica.newest_index + 1
        try:
            frames = await self._blocking(lambda: reader.read(start))
            seen = False
            while some := await self._blocking(partial(take_some, frames)):
                view.follow(some)
                seen = True
            if seen:
                self._log_facts = await self._blocking(lambda: facts_of(reader))
        except (LogTruncatedError, CorruptDataError):
            # A log that was truncated between two looks has a gap: only a fresh start tells
            # whether that is all.
            await self._start()
        if self._current().replica.table_tail.size > TABLE_TAIL_BYTES_MAX:
            await self._start()
        self._refreshed_s = self._environment.monotonic()

    async def _start(self) -> None:
        """Start from the newest checkpoint, again if it is replaced meanwhile."""
        failure: Exception | None = None
        for attempt in range(STARTS_MAX):
            if attempt > 1:
                await self._environment.sleep(PAUSE_S * 2**attempt)
            try:
                view = await self._build()
            except CorruptDataError as error:
                # A deletion between two steps looks like damage; damage looks the same twice.
                if isinstance(failure, CorruptDataError) and str(failure) == str(error):
                    raise
                failure = error
                continue
            except (LogTruncatedError, LogLostError, ChunkNotFoundError) as error:
                failure = error
                continue
            old, self._view = self._view, view
            if old is not None:
                await old.segments.close()
                await self._blocking(old.drop)
            return
        assert failure is not None, "the loop ends early or with a failure"
        raise failure

    async def _build(self) -> View:
        ask = partial(first_answer, self._environment, self._container)
        if self._reader is None:
            self._reader = await ask(self._log.open_read)
        reader = self._reader
        self._log_facts = await ask(partial(facts_of, reader))
        self._generation += 1
        folder = self._folder / f"{self._generation}"
        if isinstance(self._log, NoLog):
            # Most readers never need what a recovery is made of.
            from siltstone.container.reader.storage_only_view import build_lost_view

            return await build_lost_view(
                self._container, self._storage, self._environment, self._settings, folder
            )
        return await build_view(
            self._container,
            reader,
            self._storage,
            self._environment,
            self._settings,
            folder,
            self._owned,
            None if self._view is None else self._view.where.lineage,
        )

    async def _blocking(self, call: Callable[[], T]) -> T:
        return await self._environment.run_blocking(LOG_POOL, call)

    def _current(self) -> View:
        if self._closed or self._view is None:
            raise ClosedError("container is closed")
        return self._view

    async def _fresh(self) -> Reading:
        """The view after a look at the log that is at most ``POLL_S`` old."""
        self._current()
        async with self._lock:
            if self._environment.monotonic() - self._refreshed_s >= POLL_S:
                await self._refresh()
        return self._current().reading

    async def _retried(self, call: Callable[[Reading], Awaitable[T]]) -> T:
        """Run a read; when what it needs went away meanwhile, look again and run it once more."""
        view = self._current()
        try:
            return await call(view.reading)
        except (LostDataError, ChunkNotFoundError):
            await self._look_again(view)
        except LogTruncatedError:
            return await self._behind_truncation(call)
        except ClosedError:
            if self._current() is view:
                raise
        return await call(self._current().reading)

    async def _behind_truncation(self, call: Callable[[Reading], Awaitable[T]]) -> T:
        """Run a read whose bytes left the log: they are in chunks, as newer frames say."""
        for _ in range(STARTS_MAX - 1):
            await self.refresh()
            with suppress(LogTruncatedError):
                return await call(self._current().reading)
        await self.refresh()
        return await call(self._current().reading)

    async def _reading_now(self) -> Reading:
        await self.refresh()
        return self._current().reading

    def _pin_place(self) -> tuple[int, AsyncChunkStorage, Environment]:
        self._current()
        return self._container, self._storage, self._environment

    # --- reading ----------------------------------------------------------------------------------

    async def info(self, name: str) -> SegmentInfo:
        """What is acknowledged of a segment."""
        return (await self._fresh()).info(name)

    async def read(self, name: str, offset: int, length: int) -> bytes:
        """See ``Reading.read``."""
        if self._beyond(name, offset, length):
            await self._fresh()
        return await self._retried(lambda reading: reading.read(name, offset, length))

    async def read_into(self, name: str, offset: int, buffer: memoryview) -> int:
        """See ``Reading.read_into``."""
        if self._beyond(name, offset, len(buffer)):
            await self._fresh()
        return await self._retried(lambda reading: reading.read_into(name, offset, buffer))

    def place(self, name: str, offset: int, end: int) -> ReadPlace | None:
        """See ``Container.place``."""
        return self._current().reading.places.find(name, offset, end)

    def tables_now(self) -> Reading | None:
        """See ``Container.tables_now``; ``None`` when it is time to look at the log again."""
        fresh = self._environment.monotonic() - self._refreshed_s < POLL_S
        return self._current().reading if fresh else None

    def _beyond(self, name: str, offset: int, length: int) -> bool:
        """Whether a newer look could show more of what is asked for."""
        segment = self._current().replica.find(name)
        return segment is None or offset + length > segment.length

    async def wait_for_length(self, name: str, offset: int, timeout_s: float) -> SegmentInfo:
        """Wait until the segment is longer than ``offset``, or sealed, or the time is over."""
        end = self._environment.monotonic() + timeout_s
        while True:
            await self.refresh()
            info = self._current().reading.info(name)
            left = end - self._environment.monotonic()
            if info.length > offset or info.sealed or left <= 0:
                return info
            await self._environment.sleep(min(POLL_S, left))

    async def list_segments(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[SegmentInfo]:
        """See ``Reading.list_segments``."""
        return (await self._fresh()).list_segments(prefix, start_after, limit)

    async def chunks(self, name: str, start: int = 0, limit: int = 1_000) -> list[ChunkInfo]:
        """See ``Reading.chunks``."""
        return (await self._fresh()).chunks(name, start, limit)

    async def map(self, name: str, start: int | None = None, end: int | None = None) -> SegmentMap:
        """See ``Reading.map``."""
        await self._fresh()
        return await self._retried(lambda reading: whole_map(reading, name, start, end))

    # --- care -------------------------------------------------------------------------------------

    def stats(self) -> ContainerStats:
        """The container at a glance, as it was at the last look at the log."""
        view = self._current()
        replica, recovered, log = view.replica, view.recovered, self._log_facts
        now = self._environment.monotonic()
        warnings = warned_of_tail(view.where.warnings, log.dropped_tail)
        return ContainerStats(
            container=self._container,
            epoch=log.epoch,
            lineage=uuid_text(view.where.lineage),
            unflushed_bytes=sum(segment.tail.size for segment in list(replica.dirty.values())),
            exposed_bytes=replica.exposure.size,
            exposed_age_s=now - replica.exposure.since(now),
            unflushed_table_bytes=replica.table_tail.size,
            log_held_by=log_held_by(replica),
            safe_index=recovered.safe_index,
            log_first=log.first,
            log_end=replica.newest_index + 1,
            table_version=replica.tables.applied_version,
            checkpoint_version=recovered.checkpoint.index_version,
            dropped_tail=log.dropped_tail,
            warnings=warnings,
        )

    async def close(self, flush: object = None) -> None:
        """Free everything, also when the caller is cancelled. Idempotent.

        ``flush`` is that of an owner: a reader has nothing to flush.
        """
        self._closed = True
        await self._closing.run(self._close)

    async def _close(self) -> None:
        end = partial(closed_in_time, self._environment)
        if self._view is not None:
            await self._view.segments.close()
            await end(INDEX_POOL, self._view.index.close, "a reader's index")
        remove = partial(shutil.rmtree, self._folder, ignore_errors=True)
        await end(INDEX_POOL, remove, "the folder of a reader's index")
        if self._reader is not None:
            await end(LOG_POOL, self._reader.close, "tier 1")
        await end(LOG_POOL, self._log.close, "tier 1")
        await self._storage.close()


async def open_reader(
    *,
    container: int,
    log: FencedLog,
    storage: ChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    index_folders: Sequence[Path],
    metrics: Metrics = NO_METRICS,
) -> ReadContainer:
    """Open a container read-only, beside an owner or without one.

    The container owns ``log`` and ``storage`` from now on and closes them, also when opening fails.

    Args:
        container: its index in the store.
        log: its tier-1 log; never claimed. A ``NoLog`` shows what long-term storage alone holds,
            as it is now: such a reader follows nobody.
        storage: long-term storage of the store.
        environment: gives time, chance and threads.
        settings: its knobs.
        metrics: takes what is measured.
        index_folders: where an owner on this machine may keep its index, at least one folder.
            They are not touched; this reader's own index lies beside the first, or in a temporary
            folder, until it is closed.

    Raises:
        StoreNotFoundError: nobody ever opened the container for writing.
        CorruptDataError: journal, log or index checkpoint are damaged.
        ChunkError: long-term storage did not answer.
    """
    chunks = bridged(storage, environment, settings, metrics)
    make = partial(make_reader_folder, index_folders[0])
    folder = await environment.run_blocking(INDEX_POOL, make)
    reader = ReadContainer(container, log, chunks, environment, settings, folder, index_folders)
    try:
        await reader._start()
    except BaseException:
        await reader.close()
        raise
    return reader
