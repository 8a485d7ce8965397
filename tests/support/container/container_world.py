"""A container on virtual time over memory services that outlive it, with a fate for every call."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

import pytest

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.container.container import Container
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.owner_boot import open_container
from siltstone.container.reader.read_container import ReadContainer, open_reader
from siltstone.container.recovery.lossy_recovery import recover_container
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB
from siltstone.core.errors import ChunkUnavailableError, Outcome, OutcomeUnknownError
from siltstone.core.fenced_log import FencedLog
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.storage.optional_verbs import ReadNow, immediate_reads
from siltstone.metadata.rows import Rows
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from siltstone.testing.faults.faulty_fenced_log import FaultPlan, FaultyFencedLog
from siltstone.testing.virtual_time import Latency, VirtualEnvironment, instant
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog
from tests.support import inside
from tests.support.async_tests import running_clock
from tests.support.container.row_checks import all_chunks as all_chunks
from tests.support.container.row_checks import check_rows
from tests.support.memory_folder import memory_folder

SETTINGS = ContainerSettings(
    chunk_bytes=16 * KIB,
    flush_bytes=8 * KIB,
    flush_age_s=5.0,
    table_flush_age_s=5.0,
    checkpoint_age_s=60.0,
    garbage_delay_s=10.0,
    garbage_interval_s=5.0,
    index_cache_bytes=KIB * KIB,
)


@dataclass
class Owner:
    """One opened container and the services as it alone sees them."""

    container: Container
    storage: FaultyChunkStorage
    log: FaultyFencedLog
    folder: Path
    dead: bool = False

    @property
    def rows(self) -> Rows:
        return inside.parts(self.container).pipeline.replica.rows


class NearFaultyStorage(FaultyChunkStorage):
    """Lets reads of what the machine has in memory pass by the faults: they are no calls."""

    def immediate_reads(self) -> ReadNow | None:
        return immediate_reads(self.inner)


class World:
    """Services, time, and the owners that come and go.

    As ``async with`` it lives on the virtual time of the test, whose loop it shares; its tasks end
    with the block. As ``with`` it has a loop of its own, which ``run`` runs.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        profile: Profile | None = None,
        settings: ContainerSettings = SETTINGS,
        latency: Latency = instant,
        new_log: Callable[[], FencedLog] | None = None,
        new_storage: Callable[[], ChunkStorage] | None = None,
        near: bool = False,
    ) -> None:
        self.environment = VirtualEnvironment(seed, latency=latency)
        self.settings = settings
        self.bucket = Bucket()
        self.shared_log = SharedLog()
        self.folder = Path(mkdtemp(prefix="siltstone-world-", dir=memory_folder()))
        self.owners = 0
        self.plan = FaultPlan()
        self.faulty = NearFaultyStorage if near else FaultyChunkStorage
        self.storage_hook: Callable[[FaultyChunkStorage], None] = lambda storage: None
        profile = profile or Profile()
        self.new_log = new_log or (lambda: MemoryFencedLog("world", 0, shared=self.shared_log))
        self.new_storage = new_storage or (
            lambda: MemoryChunkStorage(
                self.bucket, profile, clock=self.environment.time, sleep=lambda _: None
            )
        )
        self.runner = self.environment.runner()
        self.strangers: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self.environment.clock = running_clock()
        self.strangers = asyncio.all_tasks()
        return self

    async def __aexit__(self, *_: object) -> None:
        mine = asyncio.all_tasks() - self.strangers
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)
        self.close()

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def close(self) -> None:
        self.runner.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- owners -----------------------------------------------------------------------------------

    async def open(
        self,
        *,
        takeover: bool = False,
        index: str = "index",
        settings: ContainerSettings | None = None,
        plan: FaultPlan | None = None,
        environment: VirtualEnvironment | None = None,
        metrics: Metrics = NO_METRICS,
        owner: str | None = None,
    ) -> Owner:
        """Open a container, with the faults of ``storage_hook`` and ``plan`` from the beginning."""
        storage = self.faulty(self.new_storage())
        self.storage_hook(storage)
        log = FaultyFencedLog(self.new_log(), plan or FaultPlan())
        self.owners += 1
        container = await open_container(
            container=0,
            log=log,
            storage=storage,
            environment=environment or self.environment,
            settings=settings or self.settings,
            index_folder=self.folder / index,
            owner=owner or f"owner {self.owners}",
            takeover=takeover,
            metrics=metrics,
        )
        return Owner(container, storage, log, self.folder / index)

    async def open_reader(
        self, environment: VirtualEnvironment | None = None, *, next_to: Sequence[str] = ()
    ) -> ReadContainer:
        """Open a reader, on the machine of owners whose index folders are ``next_to``."""
        self.owners += 1
        folders = next_to or [f"reader-{self.owners}"]
        return await open_reader(
            container=0,
            log=self.new_log(),
            storage=self.new_storage(),
            environment=environment or self.environment,
            settings=self.settings,
            index_folders=[self.folder / folder for folder in folders],
        )

    async def lose_tier_1(self) -> None:
        """Recover the container as a person does who accepts the loss; its owner has died."""
        self.shared_log = SharedLog()
        report = await recover_container(
            container=0,
            new_log=self.new_log,
            storage=self.new_storage(),
            environment=self.environment,
            settings=self.settings,
            owner="a person",
            accept_loss=True,
        )
        assert report.done

    async def crash(self, owner: Owner, *, keep_index: bool = True) -> None:
        """End an owner as the death of its process would: no call of it has an effect any more."""
        if owner.dead:
            return
        owner.dead = True

        def gone(operation: str, name: str) -> None:
            raise ChunkUnavailableError(
                "the process is dead", chunk=name, operation=operation, outcome=Outcome.UNKNOWN
            )

        owner.storage.before = gone
        # Before the index is closed, which would save what only memory held.
        kept = owner.folder.with_name(f"{owner.folder.name}-crashed")
        if keep_index:
            shutil.copytree(owner.folder, kept)
        abandon: Callable[[], None] = owner.log.inner.abandon  # type: ignore[attr-defined]
        abandon()
        container = owner.container
        inside.parts(container).pipeline.fail(OutcomeUnknownError("the process is dead"))
        tasks = [task for task in (container._main, container._pipeline_task) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        container._closed = True
        inside.parts(container).index.close()
        shutil.rmtree(owner.folder, ignore_errors=True)
        if keep_index:
            kept.rename(owner.folder)

    # --- looking from outside ---------------------------------------------------------------------

    def names(self, prefix: str = "") -> list[str]:
        """Every chunk that lies on storage."""
        storage = self.new_storage()
        return [stat.name for stat in storage.list(prefix)]

    async def check(self, owner: Owner, *, strict: bool = True) -> None:
        """Every invariant that can be seen from outside; the container is idle meanwhile."""
        await check_rows(owner.container, self.new_storage(), strict=strict)


def world(seed: int = 0, **choices: Any) -> World:
    """A world that cleans up after itself, once it is entered."""
    return World(seed, **choices)


def copied(log: SharedLog) -> SharedLog:
    """A log with what this one holds now, as a copy of its disk: no process has it open."""
    copy = SharedLog()
    copy.epoch, copy.frames, copy.end, copy.crc = log.epoch, list(log.frames), log.end, log.crc
    copy.lineages, copy.lineage = set(log.lineages), log.lineage
    return copy


async def close_quietly(owner: Owner | None) -> None:
    """Close an owner whose container may have failed."""
    if owner is not None and not owner.dead:
        with suppress(Exception):
            await owner.container.close()


def pattern(seed: int, length: int) -> bytes:
    """Bytes by which misplaced ones are noticed."""
    return bytes((seed * 37 + index * 7 + index // 251) % 256 for index in range(length))


def with_settings(**changes: Any) -> ContainerSettings:
    return replace(SETTINGS, **changes)


@contextmanager
def small_slices(count: int) -> Iterator[None]:
    """Let a slice of a concat have ``count`` extents, and none go without slices beyond that.

    So do imports that join, and none of them or of the concats is small.
    """
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr("siltstone.container.changes.concat.SMALL_BYTES", 0)
        patched.setattr("siltstone.container.changes.concat.CONCAT_EXTENTS_MAX", count)
        patched.setattr("siltstone.segments.concat_staging.PLACED_PER_SLICE", count)
        patched.setattr("siltstone.container.imports.publisher.SMALL_BYTES", 0)
        patched.setattr("siltstone.container.imports.publisher.CONCAT_EXTENTS_MAX", count)
        yield
