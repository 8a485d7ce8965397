"""The owner of segments: what an application's writes and reads meet.

``open_container`` claims and boots one; a ``Container`` then runs its background work until it is
closed, or until its log fails, after which every call says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from siltstone.container.changes.segment_changes import NewSegment
from siltstone.container.check.checker import ContainerSnapshot, check_container
from siltstone.container.check.examine import examine_chunks
from siltstone.container.close.owner_end import end_owner
from siltstone.container.close.settlement import settle
from siltstone.container.commit.repeats import confirm_acknowledged
from siltstone.container.compact.compaction import Compaction
from siltstone.container.garbage.garbage import GarbageVerbs
from siltstone.container.health.monitor import ContainerHealth
from siltstone.container.imports.record_sums import keep_sums, record_sums
from siltstone.container.models.check import CheckOptions, ChunkState
from siltstone.container.models.segments import (
    ChunkInfo,
    CommitResult,
    Condition,
    ContainerStats,
    Finding,
    Operation,
    SegmentInfo,
    TableValue,
    WriterInfo,
)
from siltstone.container.models.settings import CloseFlush
from siltstone.container.models.tables import UpdatePage
from siltstone.container.owner_parts import OwnerParts
from siltstone.container.reads.pinned_maps import PinVerbs, writers_of
from siltstone.container.reads.reads import Reading
from siltstone.container.reads.row_pages import RowPage, row_page
from siltstone.container.retention.retention import Retention
from siltstone.container.state.table_snapshots import LivingSnapshot
from siltstone.core.errors import LostDataError, SiltstoneError
from siltstone.core.records.keys import RowKind
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.storage.uncancellable import WholeClose
from siltstone.segments.page_cache_reads import ReadPlace

if TYPE_CHECKING:
    from siltstone.container.changes import bound_calls
    from siltstone.container.flush.write_through_hooks import BeginHooks
    from siltstone.container.imports.adoptions import Adoptions
    from siltstone.container.imports.sessions import Imports
    from siltstone.core.records.chunk import Chunk
    from siltstone.segments.segment_storage import ChunkedSegmentStorage

_DEEP = CheckOptions()

logger = logging.getLogger(__name__)


class _Stop(Exception):  # noqa: N818 - not an error: it ends the group of background tasks
    pass


class Container:
    """One owned container. Made by ``open_container``.

    The pipeline runs from its construction on, since the first checkpoint puts its record into the
    log; ``begin`` starts all other work once that checkpoint is durable.

    Attributes:
        append: see ``Appender.append``; bound here so that a call has no frame of ours in between.
        append_many: see ``Appender.append_many``.
        append_as: see ``Appender.append_as``.
        update: see ``Updater.update``.
        pins: maps of segments, and the pins that keep their chunks.
    """

    append: bound_calls.AppendCall
    append_many: bound_calls.AppendManyCall
    append_as: bound_calls.AppendAsCall
    update: bound_calls.UpdateCall

    def __init__(self, parts: OwnerParts) -> None:
        self._parts = parts
        self.append = parts.appender.append
        self.append_many = parts.appender.append_many
        self.append_as = parts.appender.append_as
        self.update = parts.updater.update
        self.pins = PinVerbs(
            parts.container, parts.storage, parts.environment, self._reading, self._reading_now
        )
        self._pipeline_task = asyncio.create_task(parts.pipeline.run(), name="pipeline")
        self._main: asyncio.Task[None] | None = None
        self._closed = False
        self._closing = WholeClose()

    # --- life -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin the background work, besides the pipeline: the owner is open."""
        self._parts.journal.begin_service()
        self._main = asyncio.create_task(self._run(), name=f"container-{self._parts.container}")

    async def _run(self) -> None:
        """Run the background work; whatever ends it unexpectedly closes the container."""
        parts = self._parts
        try:
            async with asyncio.TaskGroup() as group:
                parts.start(group)
                await self._parts.stopped.wait()
                raise _Stop
        except* _Stop:
            pass
        except* Exception as group_error:
            # A defect of ours, or a log that failed: either way this owner must not continue.
            error = group_error.exceptions[0]
            if parts.pipeline.failure is None:
                logger.exception("background work of the container failed", exc_info=error)
            failure = error if isinstance(error, SiltstoneError) else SiltstoneError(repr(error))
            await parts.pipeline.end(failure)

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
        return self._parts.claimed.epoch

    async def wait_stopped(self) -> None:
        """Wait until the container stops, by ``close`` or by a failure."""
        await self._parts.stopped.wait()

    async def close(self, flush: CloseFlush | None = None) -> None:
        """Acknowledge what was assigned, stop, and leave the log to the next owner. Idempotent.

        Args:
            flush: what is brought to long-term storage; ``None`` means what the settings say.
                See ``settle``, also for what it raises.

        Everything is freed even when a part of it fails, or when the caller is cancelled; the first
        failure is raised. Calls that hang are abandoned; see ``end_owner``.
        """
        self._closed = True
        choice = self._parts.settings.close_flush if flush is None else flush
        await self._closing.run(partial(self._close, choice))

    async def _close(self, choice: CloseFlush) -> None:
        try:
            if self._main is not None:
                await settle(self._parts, choice, self._parts.claimed.log_end)
        finally:
            self._parts.stopped.set()
            self._parts.journal.end_service()
            await end_owner(self._parts, self._main, self._pipeline_task)

    # --- segments ---------------------------------------------------------------------------------

    @property
    def frame_data_max(self) -> int:
        """Most data bytes of one append."""
        return self._parts.appender.data_bytes_max

    @property
    def pressed(self) -> bool:
        """Whether appends wait for room, or will soon. See ``Pressure.pressed``."""
        return self._parts.pressure.pressed

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
        """Another object after every change of a row; on any thread."""
        return self._reading().places.moment

    async def wait_for_length(self, name: str, offset: int, timeout_s: float) -> SegmentInfo:
        """See ``Reading.wait_for_length``."""
        return await self._reading().wait_for_length(name, offset, timeout_s)

    async def list_segments(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[SegmentInfo]:
        """See ``Reading.list_segments``."""
        return self._reading().list_segments(prefix, start_after, limit)

    async def offset_at(self, name: str, time_ms: int) -> int:
        """See ``Reading.offset_at``."""
        return self._reading().offset_at(name, time_ms, int(self._parts.environment.time() * 1000))

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
                await parts.segment_flusher.flush_all()
            else:
                await parts.segment_flusher.flush(parts.reading.segment(name))
            await parts.table_log_flusher.flush()
        except LostDataError as error:
            raise await self._judged(error) from error
        await parts.table_log_flusher.truncate_log()

    async def flush_tables(self) -> None:
        """Bring all metadata and tables to long-term storage; raises like ``flush``."""
        self._parts.pipeline.check_alive()
        await self._parts.pipeline.barrier()
        await self._parts.table_log_flusher.flush()

    # --- changes of segments ----------------------------------------------------------------------

    def _timed(self, verb: str) -> AbstractContextManager[None]:
        return self._parts.storage.metrics.timed(verb)

    async def create(
        self, name: str, *, exist_ok: bool = False, attributes: Mapping[str, str] | None = None
    ) -> SegmentInfo:
        """Make an empty segment, and tell of it; see ``SegmentVerbs.create``."""
        parts = self._parts
        made = await self.make(name, exist_ok=exist_ok, attributes=attributes)
        if made is None or parts.write_through.hooks.adoption is not None:
            return parts.reading.info(name)
        segment_id, created_ms = made
        state = SegmentState(segment_id=segment_id, name=name, created_ms=created_ms)
        return parts.reading.info_of_new(state, attributes or {})

    async def make(
        self, name: str, *, exist_ok: bool = False, attributes: Mapping[str, str] | None = None
    ) -> NewSegment | None:
        """See ``SegmentVerbs.create``."""
        with self._timed("create"):
            return await self._parts.verbs.create(name, exist_ok=exist_ok, attributes=attributes)

    async def rename(self, name: str, new_name: str) -> None:
        """See ``SegmentVerbs.rename``."""
        await self._parts.verbs.rename(name, new_name)

    async def seal(self, name: str) -> SegmentInfo:
        """See ``SegmentVerbs.seal``."""
        with self._timed("seal"):
            await self._parts.verbs.seal(name)
        return self._parts.reading.info(name)

    async def truncate(self, name: str, offset: int) -> None:
        """See ``SegmentVerbs.truncate``."""
        if offset < 0:
            raise ValueError(f"offset must be at least 0, not {offset}")
        with self._timed("truncate"):
            await self._parts.verbs.truncate(name, offset)

    async def delete(self, name: str) -> None:
        """See ``SegmentVerbs.delete``."""
        with self._timed("delete"):
            await self._parts.verbs.delete(name)

    @property
    def imports(self) -> Imports:
        """The sessions in which others bring chunks."""
        return self._parts.imports

    @property
    def adoptions(self) -> Adoptions:
        """The objects that import sessions took in place."""
        return self._parts.adoptions

    async def record_sums(self, name: str, progress: Callable[[int], None]) -> int:
        """See ``record_sums.record_sums``."""
        parts = self._parts
        parts.pipeline.check_alive()
        return await record_sums(
            parts.pipeline, parts.reading, parts.segments, parts.storage, name, progress
        )

    async def keep_sums(self, chunk: Chunk, sums: Sequence[int]) -> None:
        """See ``record_sums.keep_sums``."""
        self._parts.pipeline.check_alive()
        await keep_sums(self._parts.pipeline, chunk, sums)

    async def begin_write_through(self, begin: BeginHooks) -> None:
        """See ``WriteThrough.begin``."""
        await self._parts.write_through.begin(self._parts.write_through_owner, begin)

    async def end_write_through(self) -> None:
        """See ``WriteThrough.end``."""
        await self._parts.write_through.end(self._parts.write_through_owner)

    async def written_adoption(self) -> str | None:
        """The adoption of the layout that is written; ``None`` when none is."""
        return self._parts.write_through.hooks.adoption

    async def writers(self, name: str) -> list[WriterInfo]:
        """See ``writers_of``."""
        return writers_of(await self._reading_now(), name)

    async def register_writer(self, name: str, writer: str) -> WriterInfo:
        """See ``SegmentVerbs.register_writer``."""
        return await self._parts.verbs.register_writer(name, writer)

    # --- tables -----------------------------------------------------------------------------------

    async def create_table(
        self, table: str, *, exist_ok: bool = False, reserved: bool = False
    ) -> None:
        """See ``TableVerbs.create``."""
        await self._parts.tables.create(table, exist_ok=exist_ok, reserved=reserved)

    async def table_get(self, table: str, key: bytes) -> TableValue | None:
        """See ``Reading.table_get``."""
        return self._reading().table_get(table, key)

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
        return self._reading().table_scan(table, start, end, reverse=reverse, limit=limit)

    async def table_snapshot(self, table: str, ttl_s: float) -> LivingSnapshot:
        """See ``TableSnapshots.take``."""
        return self._reading().table_snapshot(table, ttl_s)

    async def table_updates(self, table: str, after: int) -> UpdatePage:
        """See ``TableFeed.page``."""
        self._check_open()
        return await self._parts.feed.page(table, after)

    async def wait_for_version(self, after: int, timeout_s: float) -> None:
        """See ``TableFeed.wait``."""
        self._check_open()
        await self._parts.feed.wait(after, timeout_s)

    async def table_version(self) -> int:
        """The newest table version that is acknowledged."""
        return self._reading().replica.tables.applied_version

    async def list_tables(
        self, prefix: str = "", start_after: str = "", limit: int = 1_000
    ) -> list[str]:
        """See ``Reading.list_tables``."""
        return self._reading().list_tables(prefix, start_after, limit)

    # --- what there is ----------------------------------------------------------------------------

    @property
    def retention(self) -> Retention:
        """The rules by which segments are shortened."""
        return self._parts.retention

    async def check(self, wish: CheckOptions = _DEEP) -> AsyncIterator[Finding]:
        """Check every row and every chunk; yield what is wrong or worth knowing."""
        if not wish.after:
            for warning in self.stats().warnings:
                yield Finding(severity="warning", where="journal", message=warning)
        async for finding in check_container(self._present, lambda: self._parts.ground, wish):
            yield finding

    async def examine(self, name: str, start: int, limit: int, *, deep: bool) -> list[ChunkState]:
        """See ``examine_chunks``."""
        parts = self._parts

        async def look() -> tuple[Reading, ChunkedSegmentStorage]:
            return self._reading(), parts.segments

        return await examine_chunks(look, parts.storage, name, start, limit, deep=deep)

    async def rows(
        self, start: bytes, limit: int, *, kind: RowKind | None, segment: str | None
    ) -> RowPage:
        """See ``row_page``."""
        index = self._parts.container
        return row_page(self._reading(), index, start, limit, kind=kind, segment=segment)

    async def _present(self) -> ContainerSnapshot:
        parts = self._parts
        checkpoints = parts.journal.checkpoints
        return ContainerSnapshot(
            reading=self._reading(),
            segments=parts.segments,
            system=parts.system,
            layouts=parts.pinned.snapshot(),
            checkpoint=checkpoints[-1].checkpoint if checkpoints else None,
        )

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
        """Merging chunks on request, by a process that may write them."""
        parts = self._parts
        return Compaction(parts.pipeline, parts.segments, parts.joins, parts.segment_flusher)

    async def health(self) -> ContainerHealth:
        """The health of long-term storage, as measured up to now; makes no call."""
        self._check_open()
        return self._parts.health.look()

    def stats(self) -> ContainerStats:
        """The container at a glance."""
        self._check_open()
        return self._parts.stats()

    async def _reading_now(self) -> Reading:
        # An owner that was overtaken would map chunks that are already gone.
        await confirm_acknowledged(self._parts.pipeline, lambda: True)
        return self._reading()

    async def _judged(self, error: LostDataError) -> SiltstoneError:
        """Return ``error``, or that this owner is fenced: then a newer one deleted the chunk."""
        try:
            await self._parts.pipeline.confirm()
        except SiltstoneError as ended:
            return ended
        return error

    def _reading(self) -> Reading:
        self._check_open()
        return self._parts.reading

    def _check_open(self) -> None:
        if self._closed or self.failure is not None:
            raise self._parts.pipeline.closed_error()
