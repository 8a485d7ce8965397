"""The parts of an owned container, put together in the order in which they need each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from siltstone.container.boot.replay import ReplayedContainer
from siltstone.container.boot.storage_layers import packing_storage, segment_storage
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
from siltstone.container.flush.whole_cut import WholeCuts
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
from siltstone.container.models.segments import ContainerStats, warned_of_tail
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.reads.pin_watch import PinWatch
from siltstone.container.reads.reads import Reading
from siltstone.container.reads.table_feed import TableFeed
from siltstone.container.retention.retention import Retention
from siltstone.container.state.backoff import Backoff
from siltstone.container.state.replica import Replica, log_held_by
from siltstone.container.state.work_events import WorkEvents
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkStorageFullError, SiltstoneError
from siltstone.core.fenced_log import FencedLog, TendedLog
from siltstone.core.metrics import APPEND_WAIT
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.text import uuid_text
from siltstone.journal.journal import Journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
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
    """Everything that an owned container consists of, each part made after what it needs.

    Attributes:
        claimed: what was claimed, and where its boot started from.
        stopped: set once the owner has ended, or is to end.

    Args, besides what ``open_container`` was given:
        replayed: the container, claimed and replayed.
        events: those that the replica sets.
    """

    def __init__(
        self,
        replayed: ReplayedContainer,
        events: WorkEvents,
        container: int,
        log: FencedLog,
        storage: AsyncChunkStorage,
        environment: Environment,
        settings: ContainerSettings,
        open_hooks: OpenHooks,
    ) -> None:
        replica = replayed.replica
        self.claimed = replayed.claimed
        self.index = replayed.index
        self.container = container
        self.log = log
        self.storage = storage
        self.environment = environment
        self.settings = settings
        self.stopped = asyncio.Event()
        self._events = events
        self._build_journal(replica)
        self._build_pipeline(replica)
        self._build_segments(replica.rows, open_hooks)
        self._build_flushes()
        self._build_health()
        self._build_checkpoints()
        self._build_verbs()
        self._build_imports()
        self._build_garbage(replica.rows)

    def _build_journal(self, replica: Replica) -> None:
        storage, environment, claimed = self.storage, self.environment, self.claimed
        boot_state = claimed.boot_state
        self.journal = Journal(
            storage, environment, self.container, claimed.epoch, boot_state.lineage
        )
        self.pins = PinWatch(storage, environment, self.container, claimed.epoch)
        layouts = () if boot_state.journal_state is None else boot_state.journal_state.layouts
        self.pinned = PinnedLayoutStore(self.journal, layouts, replica.statement)
        self.system = segment_storage(storage, self.pinned, environment, self.settings)

    def _build_pipeline(self, replica: Replica) -> None:
        environment, settings, storage = self.environment, self.settings, self.storage
        self.pressure = Pressure(
            bound=settings.unflushed_bytes_max,
            deadline_s=settings.append_deadline_s,
            segments=replica.dirty.__len__,
            on_bound=self._events.flush.set,
            on_wait=partial(storage.metrics.observe, APPEND_WAIT),
        )
        self.pressure.add(replica.unflushed_bytes)
        self.table_pressure = Pressure(
            bound=settings.unflushed_table_bytes_max,
            deadline_s=settings.append_deadline_s,
            on_bound=self._events.table_flush.set,
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
            log_first=self.claimed.log_first,
            on_frame=self._frames.count if storage.metrics.enabled else None,
        )
        self._context = OwnerContext(
            pipeline=self.pipeline,
            storage=storage,
            environment=environment,
            settings=settings,
            fence=Fence(self.pipeline, storage, self.container),
        )

    def _failed(self, error: SiltstoneError) -> None:
        logger.error("container closes: %s", error)
        self.stopped.set()

    def _build_segments(self, rows: Rows, open_hooks: OpenHooks) -> None:
        environment, settings = self.environment, self.settings
        self._layouts = TableLayoutStore(
            rows, self.pipeline, self.container, environment, settings.garbage_delay_s
        )
        self.recent_rows = self._layouts.recent
        self.segments = packing_storage(self.storage, self._layouts, environment, settings)
        self.write_through_owner = WriteThroughOwner(
            container=self.container, context=self._context, segments=self.segments
        )
        self.write_through = write_through_of(self.write_through_owner, open_hooks)

    def _build_flushes(self) -> None:
        self.segment_flusher = SegmentFlusher(
            self.pipeline,
            self.segments,
            self.environment,
            self.settings,
            self.settings.resolved(self.storage.capabilities),
            self.pressure,
            self._events.flush,
            self._silent,
            self.write_through,
        )
        self.table_log_flusher = TableLogFlusher(
            self._context,
            self.system,
            self.journal,
            self.table_pressure,
            WholeCuts(self.pipeline, self.segment_flusher, self.storage.metrics),
            self._events.table_flush,
            self._silent,
        )

    def _silent(self) -> bool:
        """Whether long-term storage does not answer, so that work that writes there should rest."""
        return self.storage.silent

    def _build_health(self) -> None:
        gauge = Gauge(self.container, self.storage, self.environment, self.settings)
        self._clock = gauge.clock
        space = SpaceWatch(
            self.storage,
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
            self.storage,
            self.environment,
            probed=(self.container, self.claimed.epoch),
            space=space,
        )

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

    def _failing(self) -> bool:
        """Whether long-term storage fails so often that work that can wait should wait."""
        return self.health.failing

    def _build_checkpoints(self) -> None:
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
            wanted=self.claimed.boot_state.repaired,
        )

    def _build_verbs(self) -> None:
        environment, pipeline, write_through = self.environment, self.pipeline, self.write_through
        self.joins = ConcatGuard(pipeline, self.segments, self._events.garbage.set)
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
            on_garbage=self._events.garbage.set,
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
            self._events.garbage,
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
        self._events.flush.set()
        self._events.garbage.set()

    def stats(self) -> ContainerStats:
        """The container at a glance. Asks the log nothing: it may be in the middle of a sync."""
        claimed, replica = self.claimed, self.pipeline.replica
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
            warnings=warned_of_tail(claimed.boot_state.warnings, claimed.dropped_tail),
            last_error=str(troubles[0]) if troubles else None,
            read_backs_failed=sum(each.read_backs_failed for each in mishaps),
        )
