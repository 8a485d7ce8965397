"""What an owned container measures of itself, other than what its parts measure themselves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from siltstone.container.models.health import HealthState
from siltstone.core import metrics as m
from siltstone.core.constants import TABLE_LOG_ID
from siltstone.core.storage.circuit_breaker import CircuitState

if TYPE_CHECKING:
    from siltstone.container.commit.pipeline import Pipeline
    from siltstone.container.compact.optimiser import Optimiser
    from siltstone.container.flush.checkpointer import Checkpointer
    from siltstone.container.health.monitor import ContainerHealth, HealthMonitor
    from siltstone.core.environment import Environment
    from siltstone.core.storage.async_storage import AsyncChunkStorage
    from siltstone.journal.journal import Journal
    from siltstone.journal.pinned_layout import PinnedLayoutStore
    from siltstone.metadata.index import Index
    from siltstone.metadata.recent_rows import RecentRows
    from siltstone.segments.packing_segment_storage import PackingSegmentStorage
    from siltstone.segments.segment_storage import ChunkedSegmentStorage

TICK_S: Final = 1.0
SELDOM_S: Final = 60.0
"""Counting tasks and asking the index cost more, so they are done less often."""
TASK_PAGES: Final = 10

RECORD_FRAMES: Final = 8
"""Frames of records that an idle container leaves after what it stated last, at most about."""

HELD_BY: Final = ("user_bytes", "table_log", "journal", "checkpoint", "nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNeeds:
    """What of the tier-1 log is needed, as indexes of frames.

    Attributes:
        next_index: one above the newest frame.
        user: the first with bytes of a segment that are not flushed; ``None`` without.
        table: the first with a table update that is not flushed; ``None`` without.
        stated: the safe index that the journal states.
        checkpoint: the frame of the newest checkpoint record; ``None`` before there is one.
    """

    next_index: int
    user: int | None
    table: int | None
    stated: int
    checkpoint: int | None


def held_by(needs: LogNeeds) -> str:
    """Return what has to happen first for tier 1 to be freed further: one of ``HELD_BY``.

    What is not flushed holds back everything after it. Without that, a newer statement of the
    journal is missing, or the record of a checkpoint; a few frames are records of such acts.
    """
    user, table = needs.user, needs.table
    if user is not None and (table is None or user <= table):
        return "user_bytes"
    if table is not None:
        return "table_log"
    done = needs.next_index - RECORD_FRAMES
    if needs.stated < done:
        return "journal"
    if needs.checkpoint is not None and needs.checkpoint < done:
        return "checkpoint"
    return "nothing"


class LogByteCounter:
    """Counts the bytes of frames from the first that the log keeps on, a thousand at a time."""

    FRAMES: Final = 1_000

    def __init__(self) -> None:
        self._buckets: deque[list[int]] = deque()
        self.size = 0

    def add(self, index: int, size: int) -> None:
        """Count a frame."""
        if self._buckets and index - self._buckets[-1][0] < self.FRAMES:
            self._buckets[-1][1] = index
            self._buckets[-1][2] += size
        else:
            self._buckets.append([index, index, size])
        self.size += size

    def drop_below(self, first: int) -> None:
        """The log forgot frames below ``first``; a bucket goes with its last one."""
        while self._buckets and self._buckets[0][1] < first:
            self.size -= self._buckets.popleft()[2]


class FrameMeter:
    """Measures each acknowledged frame, and knows the bytes that the log keeps.

    Attributes:
        kept: counts them.
    """

    def __init__(self, metrics: m.Metrics) -> None:
        self.kept = LogByteCounter()
        self._metrics = metrics

    def count(self, index: int, user: int, table: int, requests: int, seconds: float) -> None:
        """See ``pipeline.OnFrame``."""
        metrics = self._metrics
        self.kept.add(index, user + table)
        metrics.observe(m.LOG_APPEND, seconds)
        metrics.add(m.LOG_FRAMES, 1)
        metrics.add(m.LOG_BYTES, user, "user")
        metrics.add(m.LOG_BYTES, table, "table")
        metrics.add(m.LOG_REQUESTS, requests)


class MeasuredParts(Protocol):
    """The parts of an owned container that are measured."""

    environment: Environment
    storage: AsyncChunkStorage
    pipeline: Pipeline
    health: HealthMonitor
    journal: Journal
    pinned: PinnedLayoutStore
    checkpointer: Checkpointer
    optimiser: Optimiser
    index: Index
    recent_rows: RecentRows
    segments: PackingSegmentStorage
    system: ChunkedSegmentStorage


class Measuring:
    """Feeds the metrics of one owned container, which are enabled."""

    def __init__(self, parts: MeasuredParts, frames: FrameMeter) -> None:
        self._parts = parts
        self._metrics = parts.storage.metrics
        self._kept = frames.kept
        self._rewritten = 0
        self._read_backs_failed = 0
        self._seldom_at = 0.0
        self._counted: dict[m.Metric, tuple[int, int]] = {}

    async def run(self) -> None:
        """Set the gauges every second until cancelled."""
        while True:
            self.measure()
            await self._parts.environment.sleep(TICK_S)

    def measure(self) -> None:
        """Set the gauges now."""
        parts, metrics = self._parts, self._metrics
        self._measure_health(parts.health.now)
        self._measure_log()
        replica = parts.pipeline.replica
        metrics.set(m.UNFLUSHED_BYTES, replica.unflushed_bytes, "user")
        metrics.set(m.UNFLUSHED_BYTES, replica.table_tail.size, "table")
        metrics.set(m.EXPOSED_BYTES, replica.exposure.size)
        metrics.set(m.TABLE_VERSION, replica.tables.applied_version)
        metrics.set(m.CHECKPOINT_VERSION, parts.checkpointer.version)
        for layout in parts.pinned.snapshot():
            if layout.layout.segment_id == TABLE_LOG_ID:
                metrics.set(m.TABLE_LOG_LENGTH, layout.layout.storage_length)
                metrics.set(m.TABLE_LOG_CHUNKS, len(layout.chunks))
        metrics.add(m.REWRITTEN, parts.optimiser.rewritten - self._rewritten)
        self._rewritten = parts.optimiser.rewritten
        failed = parts.segments.mishaps.read_backs_failed + parts.system.mishaps.read_backs_failed
        metrics.add(m.READ_BACKS_FAILED, failed - self._read_backs_failed)
        self._read_backs_failed = failed
        now = parts.environment.monotonic()
        self._count_lookups()
        if now >= self._seldom_at:
            self._seldom_at = now + SELDOM_S
            metrics.set(m.GARBAGE_TASKS, self._tasks())
            self._measure_index()

    def _count_lookups(self) -> None:
        recent = self._parts.recent_rows
        self._hits_and_misses(m.RECENT_ROWS, (recent.hits, recent.misses))
        self._hits_and_misses(m.CACHE_BLOCKS, self._parts.storage.cache_counts)

    def _measure_index(self) -> None:
        index = self._parts.index
        self._metrics.set(m.INDEX_BYTES, index.file_bytes())
        blocks = index.cache_counts()
        self._hits_and_misses(m.INDEX_BLOCKS, (blocks.hits, blocks.misses))

    def _hits_and_misses(self, metric: m.Metric, counts: tuple[int, int]) -> None:
        """Add what came since the last look: hits, misses."""
        before = self._counted.get(metric, (0, 0))
        self._counted[metric] = counts
        for outcome, was, now in zip(("hit", "miss"), before, counts, strict=True):
            self._metrics.add(metric, now - was, outcome)

    def _measure_health(self, health: ContainerHealth) -> None:
        metrics = self._metrics
        for state in HealthState:
            metrics.set(m.HEALTH, state is health.state, state.value)
        metrics.set(m.CALLS_MAX, health.calls_max)
        metrics.set(m.CIRCUIT, health.circuit is not CircuitState.CLOSED)
        metrics.set(m.SAFE_MODE, health.safe_mode)
        metrics.set(m.UNFLUSHED_AGE, health.unflushed_age_s)
        metrics.set(m.LATENESS, health.lateness_s)
        metrics.set(m.THROTTLE, health.throttle_s)
        if health.free_bytes is not None:
            metrics.set(m.FREE_BYTES, health.free_bytes)
        if health.used_bytes is not None:
            metrics.set(m.USED_BYTES, health.used_bytes)

    def _measure_log(self) -> None:
        metrics, pipeline = self._metrics, self._parts.pipeline
        replica = pipeline.replica
        self._kept.drop_below(pipeline.log_first)
        metrics.set(m.LOG_KEPT_BYTES, self._kept.size)
        metrics.set(m.LOG_KEPT_FRAMES, replica.newest_index + 1 - pipeline.log_first)
        firsts = [segment.tail.first.index for segment in replica.dirty.values() if segment.tail]
        reason = held_by(
            LogNeeds(
                next_index=replica.newest_index + 1,
                user=min(firsts, default=None),
                table=replica.table_tail.first.index if replica.table_tail else None,
                stated=self._parts.journal.stated_safe_index,
                checkpoint=replica.checkpoint_index,
            )
        )
        for name in HELD_BY:
            metrics.set(m.LOG_HELD, name == reason, name)

    def _tasks(self) -> int:
        """Count the tasks, up to ten pages of rows."""
        pages = self._parts.pipeline.replica.rows.task_pages()
        return sum(len(page) for page in islice(pages, TASK_PAGES))
