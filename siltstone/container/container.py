"""The owner of segments: what an application's writes and reads meet.

``open_container`` claims and boots one; a ``Container`` then runs its background work until it is
closed, or until its log fails, after which every call says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from siltstone.container.assembly import OwnerParts
from siltstone.container.boot.claim import Claimed, bridged, claim
from siltstone.container.check_calls import CheckCalls
from siltstone.container.close.owner_end import end_owner
from siltstone.container.close.settlement import OWNERS_MAX, settle
from siltstone.container.commit.repeats import assured
from siltstone.container.compact.compaction import Compaction
from siltstone.container.garbage.garbage import GarbageVerbs
from siltstone.container.health.monitor import ContainerHealth
from siltstone.container.models.segments import (
    ChunkInfo,
    CommitResult,
    Condition,
    ContainerStats,
    Operation,
    SegmentInfo,
)
from siltstone.container.models.settings import CloseFlush, ContainerSettings
from siltstone.container.reads.pinned_maps import PinCalls
from siltstone.container.reads.reads import Reading
from siltstone.container.state.log_scan import LOG_POOL
from siltstone.container.state_calls import StateCalls
from siltstone.container.table_calls import TableCalls
from siltstone.container.time_calls import TimeCalls
from siltstone.core.chunk_names import claim_file
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import (
    ChunkError,
    CorruptDataError,
    LogError,
    LostDataError,
    SiltstoneError,
    StorageFullError,
    StoreError,
)
from siltstone.core.fenced_log import FencedLog
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.records.claim import Claim, encode_claim
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.uncancellable import WholeClose, closed_in_time
from siltstone.segments.page_cache_reads import ReadPlace

logger = logging.getLogger(__name__)


class _Stop(Exception):  # noqa: N818 - not an error: it ends the group of background tasks
    pass


class Container(StateCalls, TableCalls, TimeCalls, CheckCalls, PinCalls):
    """One owned container. Made by ``open_container``.

    Attributes:
        append: see ``Appender.append``; bound here so that a call has no frame of ours in between.
        append_many: see ``Appender.append_many``.
        append_as: see ``Appender.append_as``.
        update: see ``Updater.update``.
    """

    append: Callable[..., asyncio.Future[int]]
    append_many: Callable[..., asyncio.Future[int]]
    append_as: Callable[..., Coroutine[Any, Any, int]]
    update: Callable[..., asyncio.Future[int]]

    def __init__(
        self,
        claimed: Claimed,
        parts: OwnerParts,
    ) -> None:
        self._parts = parts
        self._claimed = claimed
        self.append = parts.appender.append
        self.append_many = parts.appender.append_many
        self.append_as = parts.appender.append_as
        self.update = parts.updater.update
        self._stopped = asyncio.Event()
        parts.on_failure = self._failed
        self._pipeline_task = asyncio.create_task(parts.pipeline.run(), name="pipeline")
        self._main: asyncio.Task[None] | None = None
        self._closed = False
        self._closing = WholeClose()

    # --- life -------------------------------------------------------------------------------------

    async def _boot(self, owner: str) -> None:
        """The last steps of a boot: state the claim, write the first checkpoint twice, open."""
        parts = self._parts
        journal = parts.journal
        record = Claim(
            lineage=journal.lineage,
            epoch=journal.epoch,
            owner=owner,
            claimed_ms=int(parts.environment.time() * 1000),
        )
        name = claim_file(journal.container, journal.epoch)
        await parts.storage.create(name, [encode_claim(record)])
        where = parts.found
        await parts.checkpointer.write_first(
            where.index_files, where.index_version, where.index_crc
        )
        parts.checkpointer.wanted = where.repaired
        journal.patient = True
        self._main = asyncio.create_task(self._run(), name=f"container-{journal.container}")
        if where.recovered is not None and where.recovered.owners >= OWNERS_MAX:
            await self._put_in_order()

    async def _put_in_order(self) -> None:
        """Flush everything and write a checkpoint, which drops what many short owners left.

        Each left files that a boot lists or reads, and none lived until a checkpoint was due.
        """
        try:
            await self.flush()
            await self.checkpoint()
        except (ChunkError, CorruptDataError, StorageFullError, StoreError) as error:
            self._parts.pipeline.check_alive()
            logger.warning("could not drop what older owners left: %s", error)

    async def _run(self) -> None:
        """Run the background work; whatever ends it unexpectedly closes the container."""
        parts = self._parts
        try:
            async with asyncio.TaskGroup() as group:
                parts.start(group)
                await self._stopped.wait()
                raise _Stop
        except* _Stop:
            pass
        except* Exception as group_error:
            # A defect of ours, or a log that failed: either way this owner must not go on.
            error = group_error.exceptions[0]
            if parts.pipeline.failure is None:
                logger.exception("background work of the container failed", exc_info=error)
            failure = error if isinstance(error, SiltstoneError) else SiltstoneError(repr(error))
            await parts.pipeline.end(failure)

    def _failed(self, error: SiltstoneError) -> None:
        logger.error("container closes: %s", error)
        self._stopped.set()

    @property
    def failure(self) -> SiltstoneError | None:
        """Why the container closed by itself, if it did."""
        return self._parts.pipeline.failure

    @property
    def closed(self) -> bool:
        """Whether it takes no more calls."""
        return self._closed or self.failure is not None

    @property
    def epoch(self) -> int:
        """The owner's epoch."""
        return self._claimed.epoch

    async def wait_stopped(self) -> None:
        """Wait until the container stops, by ``close`` or by a failure."""
        await self._stopped.wait()

    async def close(self, flush: CloseFlush | None = None) -> None:
        """Acknowledge what was assigned, stop, and leave the log to the next owner. Idempotent.

        Args:
            flush: what is brought to long-term storage; ``None`` means what the settings say.
                See ``settle``, also for what it raises.

        Everything is freed even when a part of it fails, or when the caller is cancelled; the first
        failure is raised. What hangs is left behind; see ``end_owner``.
        """
        self._closed = True
        choice = self._parts.settings.close_flush if flush is None else flush
        await self._closing.run(partial(self._close, choice))

    async def _close(self, choice: CloseFlush) -> None:
        try:
            if self._main is not None:
                await settle(self._parts, choice, self._claimed.log_end)
        finally:
            self._stopped.set()
            self._parts.journal.patient = False
            await end_owner(self._parts, self._main, self._pipeline_task)

    # --- segments ---------------------------------------------------------------------------------

    @property
    def frame_data_max(self) -> int:
        """Most data bytes of one append."""
        return self._parts.appender.data_bytes_max

    async def info(self, name: str) -> SegmentInfo:
        """What is acknowledged of a segment."""
        return self._reading().info(name)

    async def read(self, name: str, offset: int, length: int) -> bytes:
        """See ``Reading.read``."""
        try:
            return await self._reading().read(name, offset, length)
        except LostDataError as error:
            raise await self._judged(error) from error

    async def read_into(self, name: str, offset: int, buffer: memoryview) -> int:
        """See ``Reading.read_into``."""
        try:
            return await self._reading().read_into(name, offset, buffer)
        except LostDataError as error:
            raise await self._judged(error) from error

    def place(self, name: str, offset: int, end: int) -> ReadPlace | None:
        """Where flushed bytes lie, if a read near them was answered since a row changed.

        On any thread.
        """
        return self._reading().places.find(name, offset, end)

    def tables_now(self) -> Reading | None:
        """What shows the tables as they are acknowledged now; on any thread."""
        return self._reading()

    def moment(self) -> object:
        """Another object behind every change of a row; on any thread."""
        return self._reading().places.moment

    async def wait_for_length(self, name: str, offset: int, timeout_s: float) -> SegmentInfo:
        """See ``Reading.wait_for_length``."""
        return await self._reading().wait_for_length(name, offset, timeout_s)

    async def list_segments(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[SegmentInfo]:
        """See ``Reading.list_segments``."""
        return self._reading().list_segments(prefix, start_after, limit)

    async def chunks(self, name: str, start: int = 0, limit: int = 1_000) -> list[ChunkInfo]:
        """See ``Reading.chunks``."""
        return self._reading().chunks(name, start, limit)

    async def commit(
        self, operations: Sequence[Operation], conditions: Sequence[Condition] = ()
    ) -> CommitResult:
        """See ``Committer.commit``."""
        return await self._parts.committer.commit(operations, conditions)

    async def concat(self, target: str, source: str) -> int:
        """See ``Concatenator.concat``."""
        try:
            with self._parts.storage.metrics.timed("concat"):
                return await self._parts.concatenator.concat(target, source)
        except LostDataError as error:
            raise await self._judged(error) from error

    async def flush(self, name: str | None = None) -> None:
        """Bring the bytes of one segment or all, and all metadata, to long-term storage.

        Raises:
            SegmentNotFoundError: there is no such segment.
            ChunkError: long-term storage failed; nothing is lost, the bytes stay in tier 1.
        """
        parts = self._parts
        parts.pipeline.check_alive()
        await parts.pipeline.barrier()
        try:
            if name is None:
                await parts.storage_writer.flush_all()
            else:
                await parts.storage_writer.flush(parts.reading.segment(name))
            await parts.table_writer.flush()
        except LostDataError as error:
            raise await self._judged(error) from error
        await parts.table_writer.truncate_log()

    # --- care -------------------------------------------------------------------------------------

    async def checkpoint(self) -> None:
        """Write a checkpoint now."""
        self._parts.pipeline.check_alive()
        try:
            with self._parts.storage.metrics.timed("checkpoint", segments="system"):
                await self._parts.checkpointer.write()
        except LostDataError as error:
            raise await self._judged(error) from error

    async def collect(self) -> int:
        """Carry out due tasks now; return how many chunks were deleted."""
        self._parts.pipeline.check_alive()
        return await self._parts.collector.collect()

    @property
    def garbage(self) -> GarbageVerbs:
        """What may be asked about garbage."""
        return self._parts.garbage

    @property
    def compaction(self) -> Compaction:
        """Merging chunks on request, by whoever may write them."""
        parts = self._parts
        return Compaction(parts.pipeline, parts.segments, parts.joins, parts.storage_writer)

    async def health(self) -> ContainerHealth:
        """How long-term storage does, as measured up to now; makes no call."""
        self._reading()
        return self._parts.health.look()

    def stats(self) -> ContainerStats:
        """The container at a glance."""
        self._reading()
        return self._parts.stats(self._claimed)

    async def _reading_now(self) -> Reading:
        # An owner that was overtaken would map chunks that are gone already.
        await assured(self._parts.pipeline, lambda: True)
        return self._reading()

    def _pin_place(self) -> tuple[int, AsyncChunkStorage, Environment]:
        self._reading()
        parts = self._parts
        return parts.journal.container, parts.storage, parts.environment

    async def _judged(self, error: LostDataError) -> SiltstoneError:
        """Return ``error``, or that this owner is fenced: then a newer one deleted the chunk."""
        try:
            await self._parts.pipeline.confirm()
        except SiltstoneError as ended:
            return ended
        return error

    def _reading(self) -> Reading:
        if self._closed or self.failure is not None:
            raise self._parts.pipeline.closed_error()
        return self._parts.reading


async def open_container(
    *,
    container: int,
    log: FencedLog,
    storage: ChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    index_folder: Path,
    owner: str,
    takeover: bool,
    metrics: Metrics = NO_METRICS,
    confirm: Callable[[ChunkStorage], None] | None = None,
) -> Container:
    """Claim a container and bring it up.

    The container owns ``log`` and ``storage`` from now on and closes them, also when opening fails.

    Args:
        container: its index in the store.
        log: its tier-1 log, not claimed yet.
        storage: long-term storage of the store.
        environment: gives time, chance and threads.
        settings: its knobs.
        index_folder: where the local index lies; a cache of this container alone.
        owner: what others are told about this owner.
        metrics: takes what is measured.
        takeover: claim although a live owner exists.
        confirm: looks at ``storage`` behind the claim, before more is written; its errors end the
            opening.

    Raises:
        StoreInUseError: a live owner exists and ``takeover`` is false.
        LogLostError: tier 1 is lost; only an explicit recovery goes on.
        CorruptDataError: journal, log or index checkpoint are damaged.
        ChunkError: long-term storage did not answer.
    """
    chunks = bridged(storage, environment, settings, metrics)
    opened: Container | None = None
    try:
        claimed = await claim(
            log, chunks, environment, container, owner=owner, takeover=takeover, confirm=confirm
        )
        parts = OwnerParts(claimed, container, log, chunks, environment, settings)
        await parts.build(claimed, index_folder)
        opened = Container(claimed, parts)
        await opened._boot(owner)
    except BaseException:
        with suppress(LogError, ChunkError):  # that something hangs is told by what came before
            if opened is not None:
                await opened.close()
            else:
                await closed_in_time(environment, LOG_POOL, log.close, "tier 1")
                await chunks.close()
        raise
    return opened
