"""Compaction on request: what the owner plans and states, while others move the bytes.

Neighbours of a segment become one chunk, as the optimiser does it; what is then still small and
alone is put together with such runs of other segments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from siltstone.container.commit.concat_guard import ConcatGuard
from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.flush.segment_flusher import SegmentFlusher
from siltstone.core.constants import MIB, ROWS_PER_SLICE
from siltstone.core.records.extent import Extent
from siltstone.metadata.extent_scan import scan_extents
from siltstone.segments.merge import Merge, Merging
from siltstone.segments.packing_segment_storage import PackingSegmentStorage
from siltstone.segments.repack import REPACK_EXTENTS_MAX
from siltstone.segments.rewrite_plan import RUN_EXTENTS_MAX, MergeRules

MERGED_BYTES_MAX = 64 * MIB
"""Of one new chunk: the process that copies holds it in memory."""

_CLOSED_TOGETHER = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRules:
    """What is worth merging.

    Attributes:
        small_bytes: at most this many bytes of a segment in one chunk are a small run.
        chunk_bytes: of a new chunk, at most 64 MiB.
        count_min: fewer small chunks than this are left alone, at least 2.
        share: whether small chunks of several segments become one.
    """

    small_bytes: int
    chunk_bytes: int = MERGED_BYTES_MAX
    count_min: int = 4
    share: bool = True


class Compaction:
    """The owner's part in a compaction of one container.

    Args:
        pipeline: of the owner.
        segments: on long-term storage.
        joins: segments that a concatenation is about to change.
        flusher: lets what is abandoned be deleted.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        segments: PackingSegmentStorage,
        joins: ConcatGuard,
        flusher: SegmentFlusher,
    ) -> None:
        self._pipeline = pipeline
        self._segments = segments
        self._joins = joins
        self._flusher = flusher

    async def plan(self, rules: CompactionRules) -> list[Merge]:
        """What is worth merging now. Changes nothing."""
        self._pipeline.check_alive()
        merges: list[Merge] = []
        alone: list[Extent] = []
        for segment_id, extents in self._by_segment():
            if self._joins.is_busy(segment_id):
                continue
            found = self._segments.plan_merges(segment_id, extents, _merge_rules(rules))
            merges += (Merge(extents=each.extents, rewrite=each) for each in found.rewrites)
            if rules.share:
                taken = {extent for merge in found.rewrites for extent in merge.extents}
                alone += (e for e in extents if e not in taken and self._is_alone(e, rules))
            await asyncio.sleep(0)
        return merges + list(_shared(alone, rules))

    async def reserve(self, merge: Merge) -> Merging | None:
        """Reserve a chunk and say what lies in it; ``None`` if a segment is gone by now."""
        self._pipeline.check_alive()
        rows = self._pipeline.replica.rows
        still_open = [
            extent.segment_id
            for extent in merge.extents
            if rows.layout(extent.segment_id).last_chunk_id == extent.chunk_id
        ]
        for begin in range(0, len(still_open), _CLOSED_TOGETHER):
            some = still_open[begin : begin + _CLOSED_TOGETHER]
            closed = await asyncio.gather(*map(self._segments.close_chunk, some))
            if merge.rewrite is not None and not all(closed):
                return None
        if any(rows.chunk(extent.chunk_id) is None for extent in merge.extents):
            return None
        return await self._segments.reserve_merge(merge)

    async def state(self, merge: Merge, merging: Merging, sums: Sequence[int]) -> int:
        """Let the new chunk replace what has not changed; see ``state_merge``.

        Returns:
            How many extents lie in it now; with none it is garbage.
        """
        self._pipeline.check_alive()
        try:
            return await self._segments.state_merge(merge, merging, sums)
        finally:
            await self._flusher.hand_over_abandoned()

    def stands(self, merge: Merge) -> bool:
        """Whether all that was to be merged still lies where it did."""
        rows = self._pipeline.replica.rows
        return all(
            rows.extents(extent.segment_id, extent.start, extent.end, 2) == [extent]
            for extent in merge.extents
        )

    async def abandon(self, merging: Merging) -> None:
        """The chunk was not written, or that is unknown: let it be deleted."""
        self._segments.abandon_merge(merging)
        await self._flusher.hand_over_abandoned()

    def _by_segment(self) -> Iterator[tuple[int, list[Extent]]]:
        tables = self._pipeline.replica.tables
        held: list[Extent] = []
        at = (0, 0)
        while page := scan_extents(tables, *at, ROWS_PER_SLICE):
            for extent in page:
                if held and held[-1].segment_id != extent.segment_id:
                    yield held[0].segment_id, held
                    held = []
                held.append(extent)
            at = (page[-1].segment_id, page[-1].end)
        if held:
            yield held[0].segment_id, held

    def _is_alone(self, extent: Extent, rules: CompactionRules) -> bool:
        """Whether it is small, alive as a whole, shown, and alone in a chunk that can be closed."""
        rows = self._pipeline.replica.rows
        state, layout = rows.state(extent.segment_id), rows.layout(extent.segment_id)
        chunk = rows.chunk(extent.chunk_id)
        return (
            state is not None
            and not state.deleted
            and extent.start >= state.start_offset
            and extent.end <= layout.storage_length
            and extent.length <= min(rules.small_bytes, rules.chunk_bytes)
            and chunk is not None
            and chunk.references == 1
            and not chunk.in_place
            and (chunk.closed or chunk.epoch != self._pipeline.epoch)
        )


def _merge_rules(rules: CompactionRules) -> MergeRules:
    return MergeRules(
        small_bytes=rules.small_bytes,
        chunk_bytes=min(rules.chunk_bytes, MERGED_BYTES_MAX),
        count_min=rules.count_min,
        extents_max=RUN_EXTENTS_MAX,
    )


def _shared(alone: Sequence[Extent], rules: CompactionRules) -> Iterator[Merge]:
    """Groups that fill a chunk each, in order, if they are enough."""
    limit = min(rules.chunk_bytes, MERGED_BYTES_MAX)
    group: list[Extent] = []
    length = 0
    for extent in alone:
        if group and (length + extent.length > limit or len(group) == REPACK_EXTENTS_MAX):
            if len(group) >= rules.count_min:
                yield Merge(extents=tuple(group))
            group, length = [], 0
        group.append(extent)
        length += extent.length
    if len(group) >= rules.count_min:
        yield Merge(extents=tuple(group))
