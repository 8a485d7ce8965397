"""The read-only open of a container: no claim, nothing written but a local index of its own.

It starts like a boot and then follows the log. It never shows a length below one it has shown, and
works next to an owner that flushes, truncates and deletes: when something is gone, it looks again.

The folder of a reader's own index: next to the owner's, to link its files, else temporary.

A reader that was killed leaves its folder; the next one on the machine removes it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from siltstone.container.boot.claim import first_answer
from siltstone.container.boot.storage_layers import bridged
from siltstone.container.flush.write_through_hooks import written_adoption
from siltstone.container.health.monitor import Gauge, ReaderHealth
from siltstone.container.models.check import CheckOptions, ChunkState
from siltstone.container.models.segments import (
    ChunkInfo,
    ContainerStats,
    Finding,
    SegmentInfo,
    WriterInfo,
    warned_of_tail,
)
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.models.tables import UpdatePage
from siltstone.container.reader.backup_image import (
    IMAGE_TRIES,
    ContainerImage,
    encoded_tail,
    tail_pieces,
)
from siltstone.container.reader.no_log import NoLog
from siltstone.container.reader.reader_folder import make_reader_folder
from siltstone.container.reader.reader_view import (
    LogFacts,
    View,
    build_view,
    facts_of,
)
from siltstone.container.reads.chunk_rows import ChunkRows, named_chunks
from siltstone.container.reads.pinned_maps import PinVerbs, writers_of
from siltstone.container.reads.pins import FoundPin, remove_pin, renew_pin
from siltstone.container.reads.reads import Reading, whole_map
from siltstone.container.retention.retention import ReadRetention
from siltstone.container.state.live_segments import living_states
from siltstone.container.state.log_scan import LOG_POOL, take_some
from siltstone.container.state.replica import Replica, log_held_by
from siltstone.container.state.segment_map import SegmentMap
from siltstone.container.state.table_snapshots import LivingSnapshot
from siltstone.container.state.tail import LogSlice, TailPiece
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB, Buffer
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
from siltstone.core.records.keys import RowKind
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import WholeClose, closed_in_time, run_whole
from siltstone.core.table_value import TableValue
from siltstone.core.text import uuid_text
from siltstone.metadata.checkpoint import INDEX_POOL, take_index
from siltstone.segments.page_cache_reads import ReadPlace
from siltstone.segments.segment_storage import ChunkedSegmentStorage

if TYPE_CHECKING:
    from siltstone.container.check.checker import ContainerSnapshot
    from siltstone.container.garbage.garbage import ReadGarbage
    from siltstone.container.garbage.sweeper import SweepScope
    from siltstone.container.reads.row_pages import RowPage
    from siltstone.metadata.tables import Tables

T = TypeVar("T")
Explain = Callable[[ChunkStorage], None]
"""Looks at long-term storage where something is missing, and raises if it knows why."""
_DEEP = CheckOptions()

POLL_S: Final = 0.2
STARTS_MAX = 5
PAUSE_S = 0.05
TABLE_TAIL_BYTES_MAX = 64 * MIB
"""Beyond this a long-lived reader starts from a later checkpoint, to forget what is covered."""


class ReadContainer:
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
        explain: Explain | None = None,
    ) -> None:
        self._container = container
        self._explain = explain
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
        self.pins = PinVerbs(container, storage, environment, self._current, self._reading_now)
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
                    await self._explained()
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
        await self._explained()
        raise failure

    async def _explained(self) -> None:
        """Raise ``StoreNotFoundError`` where something is missing since the store was switched."""
        if self._explain is not None:
            await self._storage.run("stat", "", self._explain)

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
            None if self._view is None else self._view.boot_state.lineage,
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
        """Run a read; if what it needs was removed meanwhile, look again and repeat it."""
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
        try:
            return await call(self._current().reading)
        except (LostDataError, ChunkNotFoundError):
            await self._explained()
            raise

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

    # --- pins -------------------------------------------------------------------------------------

    async def writers(self, name: str) -> list[WriterInfo]:
        """See ``writers_of``."""
        return writers_of(await self._reading_now(), name)

    async def pin(self, ttl_s: float) -> FoundPin:
        """Keep every chunk that this container shows from now on, for ``ttl_s`` seconds.

        The pin names the version that was shown before it. The owner that deletes lists the pins
        after a drop was acknowledged, and what was acknowledged before the pin is seen by the look
        after it; so nothing that is shown afterwards goes while the pin lives.

        Raises:
            ChunkError: long-term storage did not answer, or refuses to create anything.
            StoreError: another lineage came, again and again.
        """
        async with self.pins.pinned(self._current().reading, ttl_s) as (made, _):
            return made

    async def renew(self, pin: FoundPin, ttl_s: float) -> FoundPin:
        """Let a pin hold for ``ttl_s`` seconds from now on; use what is returned instead of it."""
        self._current()
        return await renew_pin(self._storage, self._environment, self._container, pin, ttl_s)

    async def unpin(self, pin: FoundPin) -> None:
        """Give a pin back: what it held may go."""
        self._current()
        await remove_pin(self._storage, pin)

    # --- tables -----------------------------------------------------------------------------------

    async def table_get(self, table: str, key: bytes) -> TableValue | None:
        """See ``Reading.table_get``."""
        return (await self._fresh()).table_get(table, key)

    async def table_scan(
        self,
        table: str,
        start: bytes = b"",
        end: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int = 1_000,
    ) -> list[tuple[bytes, TableValue]]:
        """See ``Reading.table_scan``."""
        return (await self._fresh()).table_scan(table, start, end, reverse=reverse, limit=limit)

    async def table_snapshot(self, table: str, ttl_s: float) -> LivingSnapshot:
        """See ``TableSnapshots.take``. It ends early when this reader starts from a checkpoint."""
        return (await self._fresh()).table_snapshot(table, ttl_s)

    async def table_updates(self, table: str, after: int) -> UpdatePage:
        """See ``TableFeed.page``."""
        await self._fresh()
        try:
            return await self._current().feed.page(table, after)
        except (LostDataError, ChunkNotFoundError):
            async with self._lock:
                await self._start()
            return await self._current().feed.page(table, after)

    async def wait_for_version(self, after: int, timeout_s: float) -> None:
        """Wait until something is acknowledged after ``after``, or for ``timeout_s`` seconds."""
        end = self._environment.monotonic() + timeout_s
        while (await self._fresh()).replica.tables.applied_version <= after:
            left = end - self._environment.monotonic()
            if left <= 0:
                return
            await self._environment.sleep(min(POLL_S, left))

    async def table_version(self) -> int:
        """The newest table version that is acknowledged."""
        return (await self._fresh()).replica.tables.applied_version

    async def list_tables(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[str]:
        """See ``Reading.list_tables``."""
        return (await self._fresh()).list_tables(prefix, start_after, limit)

    # --- times ------------------------------------------------------------------------------------

    async def offset_at(self, name: str, time_ms: int) -> int:
        """See ``Reading.offset_at``."""
        reading = await self._fresh()
        return reading.offset_at(name, time_ms, int(self._environment.time() * 1000))

    async def append_borders(self, name: str, start: int, end: int) -> list[int]:
        """See ``Reading.append_borders``."""
        return (await self._fresh()).append_borders(name, start, end)

    @property
    def retention(self) -> ReadRetention:
        """The rules by which segments are shortened."""

        async def seen() -> Replica:
            return (await self._fresh()).replica

        return ReadRetention(seen, self._environment)

    # --- images -----------------------------------------------------------------------------------

    async def tables(self) -> Tables:
        """The tables as of now. What is awaited after that may change them. Raises as ``image``."""
        async with self._lock:
            await self._refresh()
            return self._current().replica.tables

    async def written_adoption(self) -> str | None:
        """The adoption of a layout that the owner writes, as of now. Raises as ``image``."""
        return written_adoption(await self.tables())

    async def _tails(self) -> tuple[list[tuple[TailPiece, int]], Mapping[LogSlice, Buffer]]:
        """What the tails are made of, and the bytes of it that the log has.

        An owner truncates what it flushed, so there may have to be a look at what it flushed.
        """
        for left in reversed(range(IMAGE_TRIES)):
            view = self._current()
            pieces = tail_pieces(view.replica)
            if view.reading.kept is None:
                return pieces, {}
            try:
                return pieces, await view.reading.kept.whole([piece for piece, _ in pieces])
            except LogTruncatedError:
                if not left:
                    raise
                await self._refresh()
        raise AssertionError("the last look ends this")

    async def image(self) -> ContainerImage:
        """All that is acknowledged at one moment after this call began.

        Pin the container first, and compare the lineage of the pin with that of the image: then
        every chunk that it names stays. Its index files lie in the folder of this reader and go
        when it closes. It holds the tails of all segments in memory, which back-pressure bounds.

        Raises:
            CorruptDataError: a row is missing, or something else is damaged.
            ChunkError: long-term storage did not answer.
        """
        async with self._lock:
            # Nothing is applied until the end of the block, so all of it is of one moment.
            await self._refresh()
            pieces, fetched = await self._tails()
            view = self._current()
            self._generation += 1
            folder = self._folder / f"image-{self._generation}"
            position, files = await run_whole(
                self._environment, INDEX_POOL, partial(take_index, view.index, folder)
            )
            lineage = view.replica.tables.lineage
            epoch = max(self._log_facts.epoch, view.journal_state.highest_epoch)
            version, crc = (0, 0) if position is None else (position.version, position.running_crc)
            assert version == view.replica.tables.applied_version, "a reader applies to its index"
            return ContainerImage(
                container=self._container,
                lineage=lineage,
                epoch=epoch,
                table_version=version,
                table_crc=crc,
                index_files=files,
                tail=encoded_tail(pieces, fetched, lineage, epoch),
                chunks=tuple(
                    named_chunks(self._container, view.reading, view.segments, view.system, ())
                ),
                segments=sum(1 for _ in living_states(view.replica)),
            )

    # --- what there is ----------------------------------------------------------------------------

    @property
    def garbage(self) -> ReadGarbage:
        """What may be asked about garbage."""
        from siltstone.container.garbage.garbage import ReadGarbage

        return ReadGarbage(self._container, self._seen, self._storage, self._environment)

    def _seen(self) -> tuple[Replica, int]:
        replica = self._current().replica
        assert self._reader is not None, "a view comes with a log reader"
        return replica, self._reader.epoch()

    async def check(self, wish: CheckOptions = _DEEP) -> AsyncIterator[Finding]:
        """Check every row and every chunk; yield what is wrong or worth knowing."""
        from siltstone.container.check.checker import check_container

        async with self._lock:
            reader = self._reader
            assert reader is not None, "a view comes with a log reader"
            self._log_facts = await self._blocking(lambda: facts_of(reader))
        if not wish.after:
            for warning in self.stats().warnings:
                yield Finding(severity="warning", where="journal", message=warning)
        async for finding in check_container(self._present, self._ground, wish):
            yield finding

    def _ground(self) -> SweepScope:
        from siltstone.container.garbage.sweeper import SweepScope
        from siltstone.container.reads.pin_watch import PinWatch

        _, epoch = self._seen()
        return SweepScope(
            container=self._container,
            epoch=epoch,
            rows_now=lambda: self._current().replica.rows,
            storage=self._storage,
            environment=self._environment,
            pins=PinWatch(self._storage, self._environment, self._container, None),
        )

    async def examine(self, name: str, start: int, limit: int, *, deep: bool) -> list[ChunkState]:
        """See ``examine_chunks``."""
        from siltstone.container.check.examine import examine_chunks

        async def look() -> tuple[Reading, ChunkedSegmentStorage]:
            await self.refresh()
            view = self._current()
            return view.reading, view.segments

        return await examine_chunks(look, self._storage, name, start, limit, deep=deep)

    async def rows(
        self, start: bytes, limit: int, *, kind: RowKind | None, segment: str | None
    ) -> RowPage:
        """See ``row_page``."""
        from siltstone.container.reads.row_pages import row_page

        reading = await self._fresh()
        return row_page(reading, self._container, start, limit, kind=kind, segment=segment)

    async def chunk_rows(self, *, system_now: bool = False) -> list[ChunkRows]:
        """Every chunk that is named now, with its sums; see ``named_chunks``.

        Args:
            system_now: start again from the newest checkpoint first. Else chunks of the table log
                are those of the last start, and some may be gone since.

        Raises:
            CorruptDataError: a row is missing.
            ChunkError: long-term storage did not answer.
        """
        if system_now:
            await self._present()
        else:
            await self._fresh()
        view = self._current()
        layouts = view.journal_state.layouts
        chunks = named_chunks(self._container, view.reading, view.segments, view.system, layouts)
        return list(chunks)

    def moment(self) -> object:
        """See ``Container.moment``."""
        return self._current().reading.places.moment

    async def _look_again(self, view: View) -> None:
        """See what there is now that something is gone which ``view`` shows."""
        if not isinstance(self._log, NoLog):
            await self.refresh()
            return
        from siltstone.container.reader.storage_only_view import is_newest

        async with self._lock:
            if self._current() is not view:
                return
            if not await is_newest(view, self._container, self._storage, self._environment):
                await self._start()

    async def _present(self) -> ContainerSnapshot:
        """What there is now: a view only follows the log, so system files need a fresh start."""
        from siltstone.container.check.checker import ContainerSnapshot

        async with self._lock:
            await self._start()
        view = self._current()
        journal_state = view.journal_state
        return ContainerSnapshot(
            reading=view.reading,
            segments=view.segments,
            system=view.system,
            layouts=journal_state.layouts,
            checkpoint=journal_state.checkpoint,
        )

    # --- care -------------------------------------------------------------------------------------

    def stats(self) -> ContainerStats:
        """The container at a glance, as it was at the last look at the log."""
        view = self._current()
        replica, journal_state, log = view.replica, view.journal_state, self._log_facts
        now = self._environment.monotonic()
        warnings = warned_of_tail(view.boot_state.warnings, log.dropped_tail)
        return ContainerStats(
            container=self._container,
            epoch=log.epoch,
            lineage=uuid_text(view.boot_state.lineage),
            unflushed_bytes=replica.unflushed_bytes,
            exposed_bytes=replica.exposure.size,
            exposed_age_s=now - replica.exposure.since(now),
            unflushed_table_bytes=replica.table_tail.size,
            log_held_by=log_held_by(replica),
            safe_index=journal_state.safe_index,
            log_first=log.first,
            log_end=replica.newest_index + 1,
            table_version=replica.tables.applied_version,
            checkpoint_version=journal_state.checkpoint.index_version,
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
    explain: Explain | None = None,
) -> ReadContainer:
    """Open a container read-only, next to an owner or without one.

    The container owns ``log`` and ``storage`` from now on and closes them, also when opening fails.

    Args:
        container: its index in the store.
        log: its tier-1 log; never claimed. A ``NoLog`` shows what long-term storage alone holds,
            as it is now: such a reader follows no owner.
        storage: long-term storage of the store.
        environment: gives time, randomness and threads.
        settings: those of the container.
        metrics: takes what is measured.
        index_folders: where an owner on this machine may keep its index, at least one folder.
            They are not touched; this reader's own index lies next to the first, or in a temporary
            folder, until it is closed.
        explain: asked where something is missing, also later; its errors are raised instead.

    Raises:
        StoreNotFoundError: the container was never opened for writing.
        CorruptDataError: journal, log or index checkpoint are damaged.
        ChunkError: long-term storage did not answer.
    """
    chunks = bridged(storage, environment, settings, metrics)
    make = partial(make_reader_folder, index_folders[0])
    folder = await environment.run_blocking(INDEX_POOL, make)
    reader = ReadContainer(
        container, log, chunks, environment, settings, folder, index_folders, explain
    )
    try:
        await reader._start()
    except BaseException:
        await reader.close()
        raise
    return reader
