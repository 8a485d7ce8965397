"""Segments kept in chunks: the facade of the segment layer.

Every verb is one operation of ``siltstone.segments``; this file only gives it its lock and
its tools. One object serves the segments of applications, another one the system segments: which of
them it is, its layout store decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial

from siltstone.core.chunk_storage import Buffer
from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.environment import Environment
from siltstone.core.layout_store import LayoutStore, NewChunk
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.block_sums import block_count
from siltstone.segments.chunk_state import ChunkMemory, Mishaps
from siltstone.segments.chunk_writes import run_close
from siltstone.segments.concat import run_concat
from siltstone.segments.concat_staging import (
    Joining,
    has_placed,
    run_place,
    run_show,
    run_unplace,
)
from siltstone.segments.context import Context
from siltstone.segments.inspect import (
    ChunkExtent,
    ChunkFinding,
    ChunkProblem,
    list_chunks,
    run_verify,
)
from siltstone.segments.locks import SegmentLocks
from siltstone.segments.page_cache_reads import NearReads
from siltstone.segments.read import fetch, run_read, sums_between
from siltstone.segments.read_ahead import PIECE_BYTES, ReadAhead, piece_end
from siltstone.segments.restore_range import run_put_back
from siltstone.segments.rewrite import request_count, run_rewrite
from siltstone.segments.rewrite_plan import (
    MergePlan,
    MergeRules,
    RelocationRules,
    Rewrite,
    plan_merges,
    plan_relocation,
)
from siltstone.segments.settings import SegmentStorageSettings
from siltstone.segments.trim import run_remove, run_skip, run_trim
from siltstone.segments.unverified_read import run_unverified_read
from siltstone.segments.verified_blocks import VerifiedBlocks
from siltstone.segments.write import run_write

__all__ = [
    "ChunkExtent",
    "ChunkFinding",
    "ChunkProblem",
    "ChunkedSegmentStorage",
    "SegmentStorageSettings",
]


class ChunkedSegmentStorage:
    """The bytes of segments in chunks on long-term storage.

    Changes of one segment run one at a time, under its lock; reads take no lock. Each change of a
    layout is one transaction of the layout store, made after all that it names is durable.

    Args:
        storage: where chunks lie.
        layouts: rows of the segments that this object serves, and only those.
        environment: gives time.
        settings: how to cut and how to verify.
        blocks: remembered blocks, if several storages shall share them.

    Attributes:
        near: reads what this machine has in memory; ``None`` where that cannot be told, and where
            reads are measured.
    """

    def __init__(
        self,
        storage: AsyncChunkStorage,
        layouts: LayoutStore,
        environment: Environment,
        settings: SegmentStorageSettings,
        blocks: VerifiedBlocks | None = None,
    ) -> None:
        if blocks is None:
            blocks = VerifiedBlocks(environment.monotonic, remember_s=settings.remember_s)
        self._context = Context(
            storage=storage,
            layouts=layouts,
            settings=settings,
            blocks=blocks,
            memory=ChunkMemory(),
            ahead=ReadAhead(
                lambda segment_id, offset, view: fetch(
                    self._context, segment_id, offset, view, PIECE_BYTES
                ),
                lambda segment_id, start, end: piece_end(
                    partial(layouts.floor, segment_id), start, end
                ),
                self._in_memory,
                settings.prefetch_bytes,
            ),
        )
        self._locks = SegmentLocks()
        self._page_cache: NearReads | None = None
        if storage.read_now is not None:
            self._page_cache = NearReads(self._context, storage.read_now)
        self.near = None if storage.metrics.enabled else self._page_cache

    @property
    def context(self) -> Context:
        """What an operation works with; one that changes a layout holds the segment's ``lock``."""
        return self._context

    @property
    def mishaps(self) -> Mishaps:
        """What went wrong at storage without being an error of any call here."""
        return self._context.mishaps

    async def close(self) -> None:
        """Read nothing ahead any more, and wait until nothing is on its way. Idempotent."""
        await self._context.ahead.close()

    def _in_memory(self, segment_id: int, offset: int) -> bool:
        return self._page_cache is not None and self._page_cache.holds(segment_id, offset)

    def _timed(
        self, operation: str, segment_id: int, length: int = 0
    ) -> AbstractContextManager[None]:
        segments = "system" if segment_id == TABLE_LOG_ID else "user"
        metrics = self._context.storage.metrics
        return metrics.timed(operation, segments=segments, length=length)

    def lock(self, segment_id: int) -> asyncio.Lock:
        """The lock of one segment's layout; it exists while a task holds or awaits it.

        Every verb below that changes a layout takes it, so it must not be held around them.
        """
        return self._locks.of(segment_id)

    async def write(
        self,
        segment_id: int,
        offset: int,
        buffers: Sequence[Buffer],
        *,
        cuts: Sequence[int] = (),
        writers: tuple[WriterRow, ...] = (),
        extra: tuple[TableEntry, ...] = (),
    ) -> int:
        """Put bytes at the flushed length into chunks, durably, and state it in one transaction.

        Bytes below the segment's start are passed over; the flushed length then still becomes
        ``offset`` plus the length of ``buffers``.

        Args:
            segment_id: the segment.
            offset: where the bytes begin; the flushed length.
            buffers: kept until the call ends, never copied.
            cuts: offsets in the segment, ascending, where an append ends and the next begins.
                Chunks are cut there; only an append larger than a chunk is cut elsewhere.
            writers: writer rows as of the end of these bytes.
            extra: entries that go with the transaction, such as rows of the time index.

        Returns:
            The new flushed length.

        Raises:
            OffsetError: ``offset`` is not the flushed length; nothing was done.
            SegmentNotFoundError: the segment was deleted, before or meanwhile; nothing was
                committed.
            ChunkError: storage failed, several times if the outcome was unknown. The flushed
                length is as it was, and the same call may be made again.
            LostDataError: the chunk to append to has lost committed bytes. Nothing was committed;
                the same call, made again, continues in a new chunk.
            LogError: from the transaction: whether it took place is unknown, this owner must stop.
        """
        length = sum(map(len, buffers))
        async with self.lock(segment_id):
            with self._timed("write", segment_id, length):
                return await run_write(
                    self._context, segment_id, offset, buffers, cuts, writers, extra
                )

    async def skip(
        self,
        segment_id: int,
        to: int,
        *,
        writers: tuple[WriterRow, ...] = (),
        extra: tuple[TableEntry, ...] = (),
    ) -> None:
        """Let the flushed length jump to ``to``, which is not above the segment's start.

        All extents go, in slices; ``writers`` are rows as of ``to``, and ``extra`` are entries that
        go with the jump. Below the flushed length it does nothing.

        Raises:
            ValueError: ``to`` lies above the segment's start: readable bytes would be dropped.
            SegmentNotFoundError: the segment was deleted.
        """
        async with self.lock(segment_id):
            await run_skip(self._context, segment_id, to, writers, extra)

    async def read_into(self, segment_id: int, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` with flushed bytes from ``offset`` on; return how many there are.

        Every byte is verified as the settings say. After an error the content of ``buffer`` is
        undefined.

        Raises:
            OffsetError: ``offset`` lies beyond the flushed length.
            SegmentTruncatedError: ``offset`` lies below the segment's start.
            SegmentNotFoundError: the segment was deleted.
            CorruptDataError: a block does not match its sum, twice.
            LostDataError: a chunk is gone or shorter than its committed length.
            ChunkError: storage did not answer.
        """
        with self._timed("read", segment_id, len(buffer)):
            return await run_read(self._context, segment_id, offset, buffer)

    async def read_unverified(self, segment_id: int, offset: int, buffer: memoryview) -> bool:
        """Fill ``buffer`` with flushed bytes for a caller that verifies them itself.

        See ``run_unverified_read``, which says when it is not done.
        """
        with self._timed("read", segment_id, len(buffer)):
            return await run_unverified_read(self._context, segment_id, offset, buffer)

    # --- joining segments -------------------------------------------------------------------------

    def has_placed(self, segment_id: int) -> bool:
        """Whether extents lie beyond the segment's flushed length: those of a concat on its way."""
        return has_placed(self._context.layouts, segment_id)

    async def concat(self, joining: Joining, *, extra: tuple[TableEntry, ...] = ()) -> None:
        """Move the readable bytes of a sealed segment after those of another, by rows alone.

        Both must be flushed to their end. The source's layout goes in the same transaction.

        Args:
            joining: the concat.
            extra: entries that go with the transaction, such as a tombstone.

        Raises:
            SegmentNotFoundError: one of the two was deleted.
            SegmentNotSealedError: the source is not sealed.
            SegmentSealedError: the target is sealed.
            OffsetError: one of the two has changed.
            CapabilityError: the source has more than ``CONCAT_EXTENTS_MAX``; ``place`` and ``show``
                are for those.
        """
        async with self._both(joining):
            await run_concat(self._context, joining, extra)

    async def place(self, joining: Joining, *, extra: tuple[TableEntry, ...] = ()) -> bool:
        """Put the next slice of a source's extents beyond the target's flushed length, unseen.

        Nothing of another concat lies there; see ``unplace``. Repeated, it continues where it was.

        Args:
            joining: the concat. The chunk that the source ends in is closed; see ``close_chunk``.
            extra: entries that go with the first slice, such as the task that would undo it.

        Returns:
            True when all of them are placed.

        Raises:
            SegmentNotFoundError: one of the two was deleted.
            OffsetError: one of the two has changed, so the concat cannot continue.
        """
        async with self._both(joining):
            return await run_place(self._context, joining, extra)

    async def show(self, joining: Joining, *, extra: tuple[TableEntry, ...] = ()) -> None:
        """Let the target's flushed length move over all that was placed, with ``extra``.

        Raises:
            SegmentNotFoundError: one of the two was deleted.
            OffsetError: one of the two has changed, so the concat cannot continue.
        """
        async with self._both(joining):
            await run_show(self._context, joining, extra)

    async def unplace(self, segment_id: int, *, extra: tuple[TableEntry, ...] = ()) -> bool:
        """Take away a slice of what was placed and not shown; the last slice carries ``extra``.

        Returns:
            True when nothing is left of it.
        """
        async with self.lock(segment_id):
            return await run_unplace(self._context, segment_id, extra)

    @asynccontextmanager
    async def _both(self, joining: Joining) -> AsyncIterator[None]:
        if joining.target_id == joining.source_id:
            raise ValueError("a segment cannot be joined to itself")
        first, second = sorted((joining.target_id, joining.source_id))
        async with self.lock(first), self.lock(second):
            yield

    async def trim(self, segment_id: int, start: int, *, keep_last: bool = False) -> bool:
        """Drop a slice of the extents that lie wholly below ``start``.

        Chunks that nothing references any more are dropped in the same transaction.

        Args:
            segment_id: the segment.
            start: bytes below it are dead.
            keep_last: whether the last extent stays, be it dead.

        Returns:
            True when nothing is left to trim, or the segment was deleted.

        Raises:
            ValueError: ``start`` lies above the segment's start: readable bytes would be dropped.
        """
        async with self.lock(segment_id):
            with self._timed("trim", segment_id):
                return await run_trim(self._context, segment_id, start, keep_last=keep_last)

    async def remove(self, segment_id: int, *, extra: tuple[TableEntry, ...] = ()) -> bool:
        """Drop a slice of a deleted segment's rows; the last one takes the layout row with it.

        Args:
            segment_id: the segment.
            extra: entries that go with the last slice, such as the removal of the state row.

        Returns:
            True when all rows are gone, also when they were before.

        Raises:
            ValueError: the segment is not deleted.
        """
        async with self.lock(segment_id):
            with self._timed("remove", segment_id):
                return await run_remove(self._context, segment_id, extra)

    async def close_chunk(self, segment_id: int) -> bool:
        """Let nothing be appended to the segment's last chunk. False if it was deleted."""
        async with self.lock(segment_id):
            return await run_close(self._context, segment_id)

    def plan_relocation(self, segment_id: int, rules: RelocationRules) -> Rewrite | None:
        """The rewrite of the first chunk's live rest, if ``rules`` find it worth that."""
        context = self._context
        state, layout = context.layouts.state(segment_id), context.layouts.layout(segment_id)
        first = context.layouts.floor(segment_id, layout.storage_start)
        if state is None or state.deleted or first is None:
            return None
        chunk = context.chunk(first.chunk_id)
        return plan_relocation(layout, first, chunk, state.start_offset, rules)

    def plan_merges(
        self, segment_id: int, extents: Sequence[Extent], rules: MergeRules, *, more: bool = False
    ) -> MergePlan:
        """Runs of small chunks among ``extents``; see ``rewrite_plan.plan_merges``."""
        context = self._context
        state, layout = context.layouts.state(segment_id), context.layouts.layout(segment_id)
        if state is None or state.deleted:
            return MergePlan(rewrites=())
        shown = [extent for extent in extents if extent.end <= layout.storage_length]
        rules = replace(rules, chunk_bytes=min(rules.chunk_bytes, context.chunk_bytes))
        return plan_merges(
            layout,
            shown,
            context.chunk,
            state.start_offset,
            rules,
            epoch=context.layouts.epoch,
            more=more and len(shown) == len(extents),
        )

    def request_count(self, rewrite: Rewrite) -> int:
        """How many calls to storage ``rewrite`` makes, about."""
        return request_count(self._context, rewrite)

    async def rewrite(self, rewrite: Rewrite) -> bool:
        """Write neighbouring bytes of a segment into one new chunk that then stands for them.

        The service joins the chunks where it can, else they are copied; what is read on the way is
        verified. Reads and writes of the segment continue meanwhile. The chunks must not be
        appended to any more; see ``close_chunk``.

        Returns:
            False if the extents changed meanwhile, or the segment was deleted: nothing was done.

        Raises:
            ChunkError: storage failed; nothing was done.
            CorruptDataError: a chunk is damaged; nothing was done.
            LogError: from the transaction: whether it took place is unknown, this owner must stop.
        """
        with self._timed("rewrite", rewrite.segment_id, rewrite.length):
            return await run_rewrite(self._context, self.lock(rewrite.segment_id), rewrite)

    async def put_back(self, segment_id: int, offset: int, buffers: Sequence[Buffer]) -> None:
        """Let a new chunk stand for flushed bytes of a segment that their chunk has lost.

        Args:
            segment_id: the segment.
            offset: of the first of them; all lie in one extent.
            buffers: the very bytes; kept until the call ends, never copied. At least one byte, and
                not more than a chunk takes.

        Raises:
            ValueError: no extent holds these, or they lie in an object in place; nothing was done.
            SegmentNotFoundError: the segment was deleted; nothing was committed.
            ChunkError: storage failed; nothing was committed.
            LogError: from the transaction: whether it took place is unknown, this owner must stop.
        """
        await run_put_back(self._context, self.lock(segment_id), segment_id, offset, buffers)

    def chunks(self, segment_id: int, start: int = 0, limit: int = 1_000) -> list[ChunkExtent]:
        """Where the flushed bytes from ``start`` on lie: the next ``limit`` extents, in order."""
        return list_chunks(self._context, segment_id, start, limit)

    def sums(self, chunk: Chunk) -> tuple[int, ...]:
        """CRC32C of each block of a chunk; none of one in place that has none.

        Raises ``CorruptDataError`` when rows are missing.
        """
        return sums_between(self._context.layouts, chunk, 0, block_count(chunk.length))

    async def verify_chunk(self, chunk: Chunk, *, deep: bool = True) -> ChunkFinding | None:
        """Read a whole chunk and compare it with its row and its sums.

        Not ``deep``, or if it has no sums, only its presence and its length are looked at.

        Returns:
            What is wrong, the first thing only; ``None`` when all is well.

        Raises:
            ChunkError: storage did not answer, so nothing is known.
        """
        return await run_verify(self._context, chunk, deep=deep)

    def take_abandoned(self) -> list[NewChunk]:
        """Hand over the names that may exist and that no transaction will ever name."""
        return self._context.memory.take_abandoned()
