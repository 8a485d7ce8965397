"""The parts of an owned container, put together in the order in which they need each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from siltstone.container.boot.claim import Claimed, packing_storage, segment_storage
from siltstone.container.changes.committer import Committer
from siltstone.container.changes.concat import Concatenator
from siltstone.container.changes.segment_changes import SegmentVerbs, TableVerbs
from siltstone.container.changes.updater import Updater
from siltstone.container.commit.appender import Appender
from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.commit.concat_guard import ConcatGuard
from siltstone.container.commit.fence import Fence
from siltstone.container.commit.owner_context import OwnerContext
from siltstone.container.commit.pipeline import LogCare, Pipeline
from siltstone.container.compact.optimiser import Optimiser
from siltstone.container.flush.checkpoint_cleanup import CheckpointCleanup
from siltstone.container.flush.checkpointer import Checkpointer
from siltstone.container.flush.segment_flusher import SegmentFlusher
from siltstone.container.flush.table_log_flusher import TableLogFlusher
from siltstone.container.flush.write_through_hooks import (
    OpenHooks,
    WriteThroughOwner,
    write_through_of,
)
from siltstone.container.garbage.collector import Collector
from siltstone.container.garbage.garbage import GarbageVerbs
from siltstone.container.garbage.import_sweep import ImportSweep
from siltstone.container.garbage.sweeper import Sweeper, SweepScope
from siltstone.container.health.metrics_reporter import FrameMeter, Measuring
from siltstone.container.health.monitor import Gauge, HealthMonitor
from siltstone.container.health.space import SpaceWatch
from siltstone.container.imports.adoptions import Adoptions
from siltstone.container.imports.hidden_segments import HiddenSegments
from siltstone.container.imports.publisher import Publisher
from siltstone.container.imports.sessions import Imports
from siltstone.container.models.segments import ContainerStats
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.reader.reader_view import warned_of_tail
from siltstone.container.reads.pin_watch import PinWatch
from siltstone.container.reads.reads import Reading
from siltstone.container.reads.table_feed import TableFeed
from siltstone.container.retention.retention import Retention
from siltstone.container.state.backoff import Backoff
from siltstone.container.state.boot_state import BootState
from siltstone.container.state.replica import FlushThresholds, Replica, log_held_by
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkStorageFullError, SiltstoneError
from siltstone.core.fenced_log import FencedLog, TendedLog
from siltstone.core.layout_store import LayoutChange
from siltstone.core.metrics import APPEND_WAIT
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.text import uuid_text
from siltstone.journal.journal import Journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
from siltstone.metadata.index import Index
from siltstone.metadata.layout_store import TableLayoutStore
from siltstone.metadata.rows import Rows

logger = logging.getLogger(__name__)


class Works(Protocol):
    """Background work that runs until it is cancelled."""

    backoff: Backoff

    async def run(self) -> None:
        """Work."""
        ...


class OwnerParts:
    """Everything that an owned container consists of; ``build`` finishes it.

    Attributes:
        stopped: set once the owner has ended, or is to end.
    """

    def __init__(
        self,
        claimed: Claimed,
        container: int,
        log: FencedLog,
        storage: AsyncChunkStorage,
        environment: Environment,
        settings: ContainerSettings,
        open_hooks: OpenHooks,
    ) -> None:
        self.environment = environment
        self.settings = settings
        self.storage = storage
        self.log = log
        self.container = container
        self._open_hooks = open_hooks
        self.policy = settings.resolved(storage.capabilities)
        self.stopped = asyncio.Event()
        self._flush_wanted = asyncio.Event()
        self._table_flush_wanted = asyncio.Event()
        self._garbage_wanted = asyncio.Event()
        boot_state = claimed.boot_state
        self.journal = Journal(storage, environment, container, claimed.epoch, boot_state.lineage)
        self.pins = PinWatch(storage, environment, container, claimed.epoch)
        layouts = () if boot_state.journal_state is None else boot_state.journal_state.layouts
        self.pinned = PinnedLayoutStore(self.journal, layouts, self._statement)
        self.system = segment_storage(storage, self.pinned, environment, settings)
        self.flush_thresholds = FlushThresholds(
            segment_bytes=self.policy.size_bytes,
            on_segment=self._flush_wanted.set,
            table_bytes=settings.table_flush_bytes,
            on_table=self._table_flush_wanted.set,
        )

    def _statement(self, change: LayoutChange) -> tuple[int, int]:
        return self.table_log_flusher.statement(change)

    def build(
        self, claimed: Claimed, replica: Replica, index: Index, boot_state: BootState
    ) -> None:
        """Make everything that works on the replica, each part after what it needs."""
        environment, settings, storage = self.environment, self.settings, self.storage
        self.index, self.boot_state = index, boot_state
        if self.boot_state.journal_state is not None:
            replica.exposure.cover(self.boot_state.journal_state.safe_index)
        self.pressure = Pressure(
            bound=settings.unflushed_bytes_max,
            deadline_s=settings.append_deadline_s,
            segments=replica.dirty.__len__,
            on_bound=self._flush_wanted.set,
            on_wait=partial(storage.metrics.observe, APPEND_WAIT),
        )
        self.pressure.add(replica.unflushed_bytes)
        self.table_pressure = Pressure(
            bound=settings.unflushed_table_bytes_max,
            deadline_s=settings.append_deadline_s,
            on_bound=self._table_flush_wanted.set,
        )
        self.table_pressure.add(replica.table_tail.size)
        self._frames = FrameMeter(storage.metrics)
        self.pipeline = Pipeline(
            self.log,
            environment,
            replica,
            self.pressure,
            self.table_pressure,
            self._failed,
            log_first=claimed.log_first,
            on_frame=self._frames.count if storage.metrics.enabled else None,
        )
        self._context = OwnerContext(
            pipeline=self.pipeline,
            storage=storage,
            environment=environment,
            settings=settings,
            fence=Fence(self.pipeline, storage, self.container),
        )
        self._build_health()
        self._build_flushes(replica.rows)
        self._build_verbs()
        self._build_imports()
        self._build_garbage(replica.rows)

    def _failed(self, error: SiltstoneError) -> None:
        logger.error("container closes: %s", error)
        self.stopped.set()

    def _build_health(self) -> None:
        journal, storage = self.journal, self.storage
        gauge = Gauge(self.container, storage, self.environment, self.settings)
        self._clock = gauge.clock
        space = SpaceWatch(
            storage,
            self.environment,
            gauge.space_limits,
            self.settings.space_interval_s,
            self.pressure,
            self._full,
        )
        self.health = HealthMonitor(
            gauge,
            self.pipeline.replica,
            self.pressure,
            storage,
            self.environment,
            probed=(journal.container, journal.epoch),
            space=space,
        )

    def _build_flushes(self, rows: Rows) -> None:
        environment, settings, storage = self.environment, self.settings, self.storage
        pipeline = self.pipeline
        self._layouts = TableLayoutStore(
            rows, pipeline, self.container, environment, settings.garbage_delay_s
        )
        self.recent_rows = self._layouts.recent
        self.segments = packing_storage(storage, self._layouts, environment, settings)
        self.write_through_owner = WriteThroughOwner(
            container=self.container, context=self._context, segments=self.segments
        )
        self.write_through = write_through_of(self.write_through_owner, self._open_hooks)
        self.segment_flusher = SegmentFlusher(
            pipeline,
            self.segments,
            environment,
            settings,
            self.policy,
            self.pressure,
            self._flush_wanted,
            self._silent,
            self.write_through,
        )
        self.table_log_flusher = TableLogFlusher(
            self._context,
            self.system,
            self.journal,
            self.table_pressure,
            self._table_flush_wanted,
            self._silent,
        )
        cleanup = CheckpointCleanup(
            self._context,
            self.table_log_flusher,
            self.journal,
            self.pinned,
            self.system,
            self.pins,
            self._failing,
        )
        self.checkpointer = Checkpointer(
            self._context,
            self.table_log_flusher,
            self.journal,
            self.pinned,
            cleanup,
            self.index,
            self._silent,
            wanted=self.boot_state.repaired,
        )

    def _build_verbs(self) -> None:
        environment, pipeline, write_through = self.environment, self.pipeline, self.write_through
        self.joins = ConcatGuard(pipeline, self.segments, self._garbage_wanted.set)
        self.optimiser = Optimiser(
            self._context,
            self.segments,
            self.segment_flusher,
            self.pressure,
            is_busy=self.joins.is_busy,
            suspended=lambda: self.health.strained,
        )
        self.appender = Appender(pipeline, self.pressure)
        self.reading = Reading(pipeline.replica, self.segments)
        self.feed = TableFeed(pipeline.replica, self.system)
        self.verbs = SegmentVerbs(pipeline, self.appender, environment, write_through, self._wake)
        self.retention = Retention(pipeline, self.verbs, environment, self._clock)
        self.committer = Committer(pipeline, self.appender, self.pressure)
        self.updater = Updater(pipeline, self.committer, self.pressure)
        self.tables = TableVerbs(pipeline)
        self.concatenator = Concatenator(
            self._context,
            self.appender,
            self.reading,
            self.segments,
            self.segment_flusher,
            self.pressure,
            self.joins,
            write_through,
            on_joined=self.optimiser.hint,
        )

    def _build_imports(self) -> None:
        pipeline, environment = self.pipeline, self.environment
        publisher = Publisher(
            self._context,
            self.appender,
            self.committer,
            self.segments,
            self.segment_flusher,
            self.joins,
            HiddenSegments(pipeline, self._layouts),
            on_joined=self.optimiser.hint,
            on_garbage=self._garbage_wanted.set,
        )
        self._import_sweep = ImportSweep(
            self.container, pipeline, self.storage, self._context.fence, environment
        )
        self.imports = Imports(
            self.container,
            pipeline,
            self.storage,
            publisher,
            self._import_sweep,
            environment,
            check_allowed=self.write_through.check_import,
        )

    def _build_garbage(self, rows: Rows) -> None:
        environment, pipeline, storage = self.environment, self.pipeline, self.storage
        self.collector = Collector(
            self._context,
            self.pins,
            self.segments,
            self.segment_flusher,
            self.joins,
            self.write_through,
            self.imports,
            self._garbage_wanted,
            on_trimmed=self.optimiser.hint,
            suspended=self._failing,
        )
        self.ground = SweepScope(
            container=self.container,
            epoch=self.journal.epoch,
            rows_now=lambda: rows,
            storage=storage,
            environment=environment,
            pins=self.pins,
        )
        self.sweeper = Sweeper(
            self._context,
            self.ground,
            self.collector,
            self.journal.lineage,
            self._import_sweep,
            self._failing,
        )
        self.garbage = GarbageVerbs(self)
        self.adoptions = Adoptions(pipeline, self.collector, environment)

    def _silent(self) -> bool:
        """Whether long-term storage does not answer, so that work that writes there should rest."""
        return self.storage.silent

    def _failing(self) -> bool:
        """Whether it fails so often that work that can wait should wait."""
        return self.health.failing

    def _full(self) -> bool:
        """Whether a flush failed for lack of room, and none succeeded since."""
        replica = self.pipeline.replica
        waiting = (
            (self.segment_flusher, bool(replica.dirty)),
            (self.table_log_flusher, bool(replica.table_tail)),
        )
        return any(
            isinstance(flusher.backoff.error, ChunkStorageFullError) and more
            for flusher, more in waiting
        )

    def start(self, group: asyncio.TaskGroup) -> None:
        """Begin all background work."""
        for work in self.working:
            group.create_task(work.run())
        group.create_task(self.health.run())
        if isinstance(self.log, TendedLog):
            group.create_task(LogCare(self.log, self.pipeline, self.environment).run())
        if self.storage.metrics.enabled:
            group.create_task(Measuring(self, self._frames).run())

    @property
    def working(self) -> Sequence[Works]:
        """The background work, each in a task of its own, in the order of its use."""
        return (
            self.segment_flusher,
            self.table_log_flusher,
            self.checkpointer,
            self.collector,
            self.sweeper,
            self.optimiser,
            self.retention,
        )

    def _wake(self) -> None:
        self._flush_wanted.set()
        self._garbage_wanted.set()

    def stats(self, claimed: Claimed) -> ContainerStats:
        """The container at a glance. Asks the log nothing: it may be in the middle of a sync."""
        replica = self.pipeline.replica
        now = self.environment.monotonic()
        kinds = [part.backoff for part in self.working] + [self.checkpointer.cleanup.backoff]
        troubles = [backoff.error for backoff in kinds if backoff.error is not None]
        mishaps = (self.segments.mishaps, self.system.mishaps)
        troubles += [each.seal_error for each in mishaps if each.seal_error is not None]
        return ContainerStats(
            container=self.container,
            epoch=claimed.epoch,
            lineage=uuid_text(claimed.boot_state.lineage),
            unflushed_bytes=replica.unflushed_bytes,
            exposed_bytes=replica.exposure.size,
            exposed_age_s=now - replica.exposure.since(now),
            unflushed_table_bytes=replica.table_tail.size,
            log_held_by=log_held_by(replica),
            safe_index=self.journal.stated_safe_index,
            log_first=self.pipeline.log_first,
            log_end=max(claimed.log_end, replica.newest_index + 1),
            table_version=replica.tables.applied_version,
            checkpoint_version=self.checkpointer.version,
            dropped_tail=claimed.dropped_tail,
            warnings=warned_of_tail(self.boot_state.warnings, claimed.dropped_tail),
            last_error=str(troubles[0]) if troubles else None,
            read_backs_failed=sum(each.read_backs_failed for each in mishaps),
        )
