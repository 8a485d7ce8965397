"""The layers between a container and long-term storage, made as the settings say."""

from __future__ import annotations

from siltstone.container.models.settings import ContainerSettings
from siltstone.container.state.boot_state import BootState
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.layout_store import LayoutStore, PackingLayoutStore
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.bandwidth import Bandwidth
from siltstone.core.storage.call_stats import CallLimits
from siltstone.core.storage.circuit_breaker import CircuitLimits
from siltstone.journal.journal import Journal
from siltstone.journal.pinned_layout import PinnedLayoutStore
from siltstone.segments.packing_segment_storage import PackingSegmentStorage
from siltstone.segments.segment_storage import ChunkedSegmentStorage, SegmentStorageSettings
from siltstone.segments.verified_blocks import VerifiedBlocks


def bridged(
    storage: ChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
    metrics: Metrics = NO_METRICS,
) -> AsyncChunkStorage:
    """The bridge to a binding, with the threads and the deadline of the settings."""
    background = settings.background_rate
    return AsyncChunkStorage(
        storage,
        environment,
        threads=settings.storage_threads,
        deadline_s=settings.storage_deadline_s,
        rate_min=settings.storage_rate_min,
        background=None if background is None else Bandwidth(environment, background),
        metrics=metrics,
        limits=CallLimits(slow_s=settings.slow_call_s, circuit=CircuitLimits()),
    )


def segment_storage(
    storage: AsyncChunkStorage,
    layouts: LayoutStore,
    environment: Environment,
    settings: ContainerSettings,
    *,
    prefetch_bytes: int = 0,
) -> ChunkedSegmentStorage:
    """The segment layer over ``layouts`` as the settings say."""
    choices = _choices(settings, prefetch_bytes)
    blocks = VerifiedBlocks(environment.monotonic, remember_s=choices.remember_s)
    return ChunkedSegmentStorage(storage, layouts, environment, choices, blocks)


def system_storage(
    boot_state: BootState,
    storage: AsyncChunkStorage,
    environment: Environment,
    settings: ContainerSettings,
) -> ChunkedSegmentStorage:
    """The system segments of the state that the journal tells of, to be read only."""
    journal_state = boot_state.journal_state
    container, epoch = 0, 1
    if journal_state is not None:
        container, epoch = journal_state.container, journal_state.epoch
    layouts = () if journal_state is None else journal_state.layouts
    # Neither of these is ever written to: no journal file is begun without a checkpoint. So it does
    # not matter what they would name files of a container that is new.
    journal = Journal(storage, environment, container, epoch, boot_state.lineage)
    pinned = PinnedLayoutStore(journal, layouts, lambda _: (0, -1))
    return segment_storage(storage, pinned, environment, settings)


def packing_storage(
    storage: AsyncChunkStorage,
    layouts: PackingLayoutStore,
    environment: Environment,
    settings: ContainerSettings,
) -> PackingSegmentStorage:
    """The segment layer of an owner for segments of applications, which may share chunks."""
    choices = _choices(settings, settings.prefetch_bytes)
    blocks = VerifiedBlocks(environment.monotonic, remember_s=choices.remember_s)
    return PackingSegmentStorage(storage, layouts, environment, choices, blocks)


def _choices(settings: ContainerSettings, prefetch_bytes: int) -> SegmentStorageSettings:
    return SegmentStorageSettings(
        chunk_bytes=settings.chunk_bytes,
        verify_reads=settings.verify_reads,
        read_back=settings.read_back,
        prefetch_bytes=prefetch_bytes,
    )
