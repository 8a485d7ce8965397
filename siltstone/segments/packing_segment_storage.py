"""The segment layer of applications' segments, of which several may share one chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from siltstone.core.environment import Environment
from siltstone.core.layout_store import PackingLayoutStore
from siltstone.core.records.extent import Extent
from siltstone.core.records.table_record import TableEntry
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.segments.concat import run_publish
from siltstone.segments.concat_staging import Joining
from siltstone.segments.merge import Merge, Merging, reserve_merge, state_merge
from siltstone.segments.pack import PackedRun, run_pack
from siltstone.segments.repack import REPACK_EXTENTS_MAX, run_repack
from siltstone.segments.seal import seal_all
from siltstone.segments.segment_storage import ChunkedSegmentStorage
from siltstone.segments.settings import SegmentStorageSettings
from siltstone.segments.verified_blocks import VerifiedBlocks


class PackingSegmentStorage(ChunkedSegmentStorage):
    """A ``ChunkedSegmentStorage`` that can put bytes of several segments into one chunk.

    It is made like that one, of layouts that can state a pack.
    """

    def __init__(
        self,
        storage: AsyncChunkStorage,
        layouts: PackingLayoutStore,
        environment: Environment,
        settings: SegmentStorageSettings,
        blocks: VerifiedBlocks | None = None,
    ) -> None:
        super().__init__(storage, layouts, environment, settings, blocks)
        self._packing_layouts = layouts

    async def write_packed(self, runs: Sequence[PackedRun]) -> int:
        """Put bytes of several segments, at their flushed lengths, into one new chunk.

        One ``create``, then one transaction for every few hundred runs. Each transaction is whole:
        the chunk's references are the extents that name it. A segment is passed over that was
        deleted, was truncated beyond its run, is at another flushed length, has extents of a concat
        that was not shown, or is being changed by another call. All are passed over where fewer
        than two are left. ``write`` is for those.

        Args:
            runs: of different segments; together no more than a chunk takes.

        Returns:
            How many of the runs are flushed now.

        Raises:
            ValueError: the runs are more than a chunk takes.
            ChunkError: storage failed, several times if the outcome was unknown; no flushed length
                has changed.
            LogError: from a transaction: whether it took place is unknown, this owner must stop.
                When the log was full, the runs of earlier transactions are flushed.
        """
        length = sum(run.length for run in runs)
        if length > self._context.chunk_bytes:
            raise ValueError(f"{length} bytes are more than a chunk takes")
        async with self._locks.hold_free(run.segment_id for run in runs) as held:
            mine = [run for run in runs if run.segment_id in held]
            taken = sum(run.length for run in mine)
            with self._context.storage.metrics.timed("pack", length=taken):
                packed = await run_pack(self._context, self._packing_layouts, mine)
        capabilities = self._context.storage.capabilities
        if capabilities.append and capabilities.seal:
            await seal_all(self._context.storage, packed.closed, self._context.mishaps)
        return packed.count

    async def repack(self, extents: Sequence[Extent]) -> int:
        """Copy bytes of several segments from mostly dead chunks into one new chunk.

        Reads and writes of the segments continue meanwhile. What changed meanwhile stays where it
        is, and so do the bytes of a segment that is being changed when the copy is stated.

        Args:
            extents: at most ``REPACK_EXTENTS_MAX``; together no more than a chunk takes.

        Returns:
            How many extents lie in the new chunk.

        Raises:
            ValueError: they are more than that.
            ChunkError, CorruptDataError: some could not be read, and stay; or the new chunk could
                not be written, and all stay.
            LogError: from a transaction: whether it took place is unknown, this owner must stop.
        """
        length = sum(extent.length for extent in extents)
        if length > self._context.chunk_bytes or len(extents) > REPACK_EXTENTS_MAX:
            raise ValueError(
                f"{len(extents)} extents of {length} bytes are more than a chunk takes"
            )
        with self._context.storage.metrics.timed("repack", length=length):
            return await run_repack(self._context, self._packing_layouts, self._locks, extents)

    async def publish(
        self, joinings: Sequence[Joining], entries: Callable[[], Sequence[TableEntry]]
    ) -> None:
        """Join hidden segments to others, all in one transaction, with ``entries``.

        Args:
            joinings: at least one, each with another target and another source. A source of more
                than ``CONCAT_EXTENTS_MAX`` extents was placed before; see ``place``.
            entries: gives what goes with the transaction. Called when it is assigned, and again if
                that one had no room; what it raises is raised here, and nothing was done.

        Raises:
            SegmentNotFoundError: a target was deleted; nothing was done.
            SegmentSealedError: a target is sealed; nothing was done.
            OffsetError: a target has another flushed length; nothing was done.
            LogError: whether it took place is unknown, this owner must stop.
        """
        ids = sorted({one for each in joinings for one in (each.target_id, each.source_id)})
        async with AsyncExitStack() as stack:
            for segment_id in ids:
                await stack.enter_async_context(self.lock(segment_id))
            await run_publish(self._context, self._packing_layouts, joinings, entries)

    async def reserve_merge(self, merge: Merge) -> Merging:
        """Reserve a name for what other processes shall write, and say what they write there.

        Nothing refers to that name until ``state_merge`` or ``abandon_merge``.
        """
        return await reserve_merge(self._context, self._packing_layouts, merge)

    async def state_merge(self, merge: Merge, merging: Merging, sums: Sequence[int]) -> int:
        """Let a chunk that other processes wrote stand for extents that are still as they were.

        Args:
            merge: what was merged.
            merging: what ``reserve_merge`` said of it.
            sums: of the blocks of the new chunk, as it was written.

        Returns:
            How many extents it stands for; with none it was abandoned.

        Raises:
            LostDataError: the chunk is not there, or has another length; it was abandoned.
            LogError: from a transaction: whether it took place is unknown, this owner must stop.
        """
        return await state_merge(
            self._context, self._packing_layouts, self._locks, merge, merging, sums
        )

    def abandon_merge(self, merging: Merging) -> None:
        """Give up this chunk, which may exist and will never be stated."""
        self._context.memory.abandon([merging.new])

    def takes_append(self, segment_id: int) -> bool:
        """Whether the segment's next bytes are likely to be appended to a chunk of its own.

        Answered from memory, since it is asked for many segments before any of them is written.
        """
        return self._context.memory.has_open_chunk(segment_id)
