"""The optimiser: fewer, fuller chunks, in the background and within a budget.

It walks over the extents of all segments, round after round, with a cursor that only memory keeps.
It rewrites what is worth it, runs of small chunks and first chunks that are mostly dead, into new
chunks; the old ones become garbage like any other. A segment that was truncated or joined to is
looked at first. On its way it adds up how much of each chunk is alive, and moves the rest of chunks
that are mostly dead, such as a chunk that a thousand segments shared and two still share.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.commit.owner_context import OwnerContext
from siltstone.container.compact.sparse_chunks import SparseChunks
from siltstone.container.flush.segment_flusher import SegmentFlusher
from siltstone.container.state.backoff import Backoff, woken
from siltstone.core.constants import GIB, MIB, ROWS_PER_SLICE
from siltstone.core.errors import (
    ChunkError,
    CorruptDataError,
    SegmentNotFoundError,
    StorageFullError,
)
from siltstone.core.records.extent import Extent
from siltstone.metadata.extent_scan import scan_extents
from siltstone.segments.concat_staging import OFFSET_END
from siltstone.segments.packing_segment_storage import PackingSegmentStorage
from siltstone.segments.repack import REPACK_EXTENTS_MAX
from siltstone.segments.rewrite_plan import (
    RUN_EXTENTS_MAX,
    MergeRules,
    RelocationRules,
    Rewrite,
)

logger = logging.getLogger(__name__)

PAGES_PER_ROUND = 10
"""Pages of 1,000 extents that a round looks at, at most."""

HINTS_MAX = 1_000
HINT_PAUSE_S = 0.5
"""Between a hint and the look; what comes meanwhile is looked at together."""

WRITE_ONCE_BYTES_MAX = 64 * MIB
"""Without appends a new chunk is written at once, and so is in memory as a whole."""

RELOCATION_CHUNK_BYTES_MAX = GIB
"""In a larger chunk that is mostly dead, too much may still be alive."""

RELOCATION_LIVE_BYTES_MAX = 256 * MIB
"""What one round may write."""


@dataclass(slots=True)
class Budget:
    """What a round may still use."""

    bytes: int
    requests: int
    spent: bool = False

    def take(self, length: int, requests: int) -> bool:
        """Take a part, unless it is more than there is; the first part is always granted."""
        if self.spent and (length > self.bytes or requests > self.requests):
            return False
        self.bytes -= length
        self.requests -= requests
        self.spent = True
        return True


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at neighbouring extents: what to rewrite, and where to look next."""

    rewrites: tuple[Rewrite, ...]
    then: tuple[int, int]


class Optimiser:
    """Rewrites chunks of one owned container.

    Attributes:
        backoff: why it last failed.
        rewritten: chunks that were made, since this owner opened.

    Args (the others are parts of this owner):
        is_busy: whether a segment's layout must be left alone for now.
        suspended: whether it should rest.
    """

    def __init__(
        self,
        context: OwnerContext,
        segments: PackingSegmentStorage,
        segment_flusher: SegmentFlusher,
        pressure: Pressure,
        *,
        is_busy: Callable[[int], bool],
        suspended: Callable[[], bool],
    ) -> None:
        pipeline, environment = context.pipeline, context.environment
        settings = context.settings
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._segments = segments
        self._storage = context.storage
        self._segment_flusher = segment_flusher
        self._pressure = pressure
        self._environment = environment
        self._settings = settings
        self._awake = asyncio.Event()
        self._lock = asyncio.Lock()
        self._hints: dict[int, None] = {}
        self._cursor = (0, 0)
        self._sparse = SparseChunks(self._replica.rows.chunk, settings.relocation_percent)
        self.backoff = Backoff(environment, suspended)
        self._is_busy = is_busy
        self.rewritten = 0

    def hint(self, segment_id: int) -> None:
        """Look at this segment soon: its first chunks may be dead, or small ones be neighbours."""
        if len(self._hints) < HINTS_MAX:
            self._hints[segment_id] = None
            self._awake.set()

    async def run(self) -> None:
        """Do one round after another until cancelled."""
        while True:
            whole = not await woken(self._awake, self._settings.optimiser_interval_s)
            if not whole:
                # A segment that is joined to again and again need not be looked at each time.
                await self._environment.sleep(HINT_PAUSE_S)
                self._awake.clear()
            await self.backoff.rest()
            try:
                await self.round(whole=whole)
            except (ChunkError, CorruptDataError, StorageFullError) as error:
                logger.warning("rewriting chunks failed: %s", error)
                self.backoff.failed(error)
            if self.backoff.pausing:
                await self._environment.sleep(self.backoff.remaining_s)

    async def round(self, *, whole: bool = True) -> int:
        """Look at the segments of hints, then, if ``whole``, continue from the cursor.

        Returns:
            How many chunks were made.

        Raises:
            ChunkError: storage failed; the next round continues after what failed.
            CorruptDataError: a chunk is damaged; the same.
        """
        budget = Budget(self._settings.optimiser_bytes, self._settings.optimiser_requests)
        made = self.rewritten
        async with self._lock:
            while self._hints and not self._paused:
                segment_id = next(iter(self._hints))
                del self._hints[segment_id]
                if not await self._one_segment(segment_id, budget):
                    self._hints[segment_id] = None
                    return self.rewritten - made
            for _ in range(PAGES_PER_ROUND if whole else 0):
                if self._paused or not await self._page(budget):
                    break
        return self.rewritten - made

    @property
    def _paused(self) -> bool:
        """Whether others need the service more, or it does not answer."""
        return (
            self._pressure.over
            or self.backoff.suspended()
            or self._segment_flusher.backoff.pausing
            or self._pipeline.failure is not None
        )

    # --- looking ----------------------------------------------------------------------------------

    async def _one_segment(self, segment_id: int, budget: Budget) -> bool:
        """Rewrite what is worth it in one segment; false when the budget is used up."""
        start = 0
        while True:
            extents = self._replica.rows.extents(segment_id, start, OFFSET_END, ROWS_PER_SLICE)
            more = len(extents) == ROWS_PER_SLICE
            look = self._look(segment_id, extents, more=more)
            for rewrite in look.rewrites:
                if not await self._rewrite(rewrite, budget):
                    return False
            if not more:
                self.backoff.succeeded()
                return True
            start = look.then[1]

    async def _page(self, budget: Budget) -> bool:
        """Rewrite what is worth it on the next page; false when the round is at its end."""
        extents = scan_extents(self._replica.tables, *self._cursor, ROWS_PER_SLICE)
        full = len(extents) == ROWS_PER_SLICE
        last = extents[-1].segment_id if extents else 0
        for segment_id, group in groupby(extents, key=lambda extent: extent.segment_id):
            mine = list(group)
            look = self._look(segment_id, mine, more=full and segment_id == last)
            for rewrite in look.rewrites:
                self._cursor = (segment_id, rewrite.extents[0].start)
                self._sparse.passed(mine, self._cursor)
                if self._paused or not self._affordable(rewrite, budget):
                    return False
                # Whatever becomes of it, the next round must not stop here again.
                self._cursor = (segment_id, rewrite.end)
                self._sparse.passed((), self._cursor)
                await self._carry_out(rewrite)
            self._cursor = look.then
            self._sparse.passed(mine, self._cursor)
            await asyncio.sleep(0)
        self.backoff.succeeded()
        if not full:
            self._cursor = (0, 0)
            self._sparse.ended()
        return await self._repack(budget, whole=not full) and full

    async def _repack(self, budget: Budget, *, whole: bool) -> bool:
        """Move what is left of sparse chunks; false when the budget is used up."""
        settings = self._settings
        bytes_max = min(settings.optimiser_bytes, self._copy_bytes_max, WRITE_ONCE_BYTES_MAX)
        bytes_max = min(bytes_max, settings.chunk_bytes)
        count_max = max(1, min(REPACK_EXTENTS_MAX, settings.optimiser_requests - 1))
        while batch := self._sparse.batch(count_max, bytes_max, whole=whole):
            length = sum(extent.length for extent in batch)
            if self._paused or not budget.take(length, len(batch) + 1):
                return False
            self._sparse.take(len(batch))
            movable = [extent for extent in batch if not self._is_busy(extent.segment_id)]
            if not settings.relocation_enabled or length > bytes_max:
                continue
            try:
                if await self._segments.repack(movable):
                    self.rewritten += 1
            finally:
                await self._segment_flusher.hand_over_abandoned()
        return True

    def _look(self, segment_id: int, extents: list[Extent], *, more: bool) -> _Look:
        """What is worth it among neighbouring extents of one segment."""
        then = (segment_id, extents[-1].end) if more else (segment_id + 1, 0)
        if not extents or self._is_busy(segment_id):
            return _Look((), then)
        rewrites = tuple(self._relocation(segment_id, extents))
        if not rewrites and self._settings.optimiser_enabled:
            plan = self._segments.plan_merges(segment_id, extents, self._rules(), more=more)
            if plan.resume == extents[0].start:
                plan = self._segments.plan_merges(segment_id, extents, self._rules())
            elif plan.resume is not None:
                then = (segment_id, plan.resume)
            rewrites = plan.rewrites
        return _Look(rewrites, then)

    def _relocation(self, segment_id: int, extents: list[Extent]) -> Iterator[Rewrite]:
        settings = self._settings
        if not settings.relocation_enabled:
            return
        rules = RelocationRules(
            chunk_bytes_min=settings.relocation_chunk_bytes_min,
            chunk_bytes_max=RELOCATION_CHUNK_BYTES_MAX,
            percent=settings.relocation_percent,
            live_bytes_max=min(RELOCATION_LIVE_BYTES_MAX, self._copy_bytes_max),
        )
        rewrite = self._segments.plan_relocation(segment_id, rules)
        if rewrite is not None and rewrite.extents[0].start == extents[0].start:
            yield rewrite

    def _rules(self) -> MergeRules:
        settings = self._settings
        return MergeRules(
            small_bytes=settings.optimiser_small_bytes,
            chunk_bytes=min(settings.optimiser_bytes, self._copy_bytes_max),
            count_min=settings.optimiser_chunks_min,
            extents_max=min(RUN_EXTENTS_MAX, max(2, settings.optimiser_requests // 2)),
        )

    @property
    def _copy_bytes_max(self) -> int:
        capabilities = self._storage.capabilities
        return capabilities.chunk_bytes_max if capabilities.append else WRITE_ONCE_BYTES_MAX

    # --- rewriting --------------------------------------------------------------------------------

    def _affordable(self, rewrite: Rewrite, budget: Budget) -> bool:
        return budget.take(rewrite.length, self._segments.request_count(rewrite))

    async def _rewrite(self, rewrite: Rewrite, budget: Budget) -> bool:
        if self._paused or not self._affordable(rewrite, budget):
            return False
        await self._carry_out(rewrite)
        return True

    async def _carry_out(self, rewrite: Rewrite) -> None:
        layout = self._replica.rows.layout(rewrite.segment_id)
        names_open = layout.last_chunk_id == rewrite.extents[-1].chunk_id
        try:
            if names_open and not await self._segments.close_chunk(rewrite.segment_id):
                return
            if await self._segments.rewrite(rewrite):
                self.rewritten += 1
        except SegmentNotFoundError:
            # It was removed meanwhile, with everything that was to be rewritten.
            return
        finally:
            await self._segment_flusher.hand_over_abandoned()
