"""The one place that wires a store together and closes its circle.

The circle: the metadata of segments is kept in tables, the tables are kept in segments, and where a
segment's bytes lie is metadata. It is broken by two kinds of layout stores. A segment of an
application has its layout in a table; a system segment, such as the one that keeps all table
updates, has its layout pinned in memory and written to the system journal. So a boot needs the
journal only: it gives the system segments, these give the tables, and the tables give everything
else. Each container does this for itself; here it only gets a log, the long-term storage and a
folder for its index.

The first owner loads what only owners need. So a process that only reads, such as one that plans
queries of Spark, starts sooner.
"""

from __future__ import annotations

import getpass
import os
import platform
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from siltstone.container.models.settings import ContainerSettings
from siltstone.container.reader.no_log import NoLog
from siltstone.container.state.log_place import located
from siltstone.core.chunk_names import is_data_chunk
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.environment import Environment, Pool, SystemEnvironment
from siltstone.core.error_facts import add_facts
from siltstone.core.errors import ChunkError, CorruptDataError, LogLostError, StoreNotFoundError
from siltstone.core.fenced_log import OWNER_CHARACTERS_MAX, FencedLog, LogOwner
from siltstone.core.hooks import load_chunk_storage, load_fenced_log
from siltstone.core.metrics import NO_METRICS, Metrics
from siltstone.core.records.store_manifest import StoreManifest
from siltstone.core.storage.bandwidth import Bandwidth
from siltstone.core.storage.block_cache import BlockCache
from siltstone.core.storage.cached import CachedChunkStorage, uncached
from siltstone.core.storage.deadline import DeadlineChunkStorage
from siltstone.core.storage.first_look import first_look
from siltstone.core.storage.limited import Bandwidths, LimitedChunkStorage
from siltstone.core.storage.logged import logged
from siltstone.core.storage.metered import MeteredChunkStorage
from siltstone.core.storage.retries import Retries, RetryingChunkStorage
from siltstone.core.storage.uncancellable import keep, run_whole
from siltstone.core.text import uuid_text
from siltstone.metadata.index_process import check_process
from siltstone.store.manifest import check_not_left, check_there, check_uuid, read_manifest
from siltstone.store.metrics.exposition import container_metrics, expose
from siltstone.store.settings.effective import EffectiveSettings, load_settings
from siltstone.store.settings.index_folder import IndexFolders
from siltstone.store.settings.plugin_options import with_place
from siltstone.store.write_through import open_hooks

if TYPE_CHECKING:
    from siltstone.container.container import Container
    from siltstone.container.reader.read_container import ReadContainer

OPEN_POOL: Final = Pool(name="siltstone-open", threads=1)

INDEX_WRITE_BYTES: Final = 32 * MIB
"""Memory for rows that no file of a local index has yet, all containers together, so that a store
of many containers needs no more of it than one of few."""

INDEX_WRITE_BYTES_MIN: Final = 2 * MIB
"""For one index; with less, it would write files all the time."""

T = TypeVar("T")


class Assembly:
    """What is needed to open the containers of one store.

    Each container gets a log and a client of long-term storage of its own, and closes them.

    Attributes:
        settings: of the store.
        environment: gives time, randomness and threads.
        manifest: what long-term storage says of the store.
        manifest_lost: why ``manifest`` is not what long-term storage says; empty when it is.
        owner: how this owner describes itself to others; no two are the same.
    """

    def __init__(
        self,
        settings: EffectiveSettings,
        environment: Environment,
        manifest: StoreManifest,
        manifest_lost: str = "",
    ) -> None:
        self.settings = settings
        self.environment = environment
        self.manifest = manifest
        self.manifest_lost = manifest_lost
        self.owner = owner_text(environment)
        self._folders = IndexFolders(settings.index_folder)
        self._cache: BlockCache | None = None
        self._bandwidths = _bandwidths(settings, environment)
        self._unexpose: Callable[[], None] = lambda: None
        share = INDEX_WRITE_BYTES // max(1, manifest.container_count)
        self._container_settings = replace(
            settings.container,
            index_write_bytes=min(
                max(share, INDEX_WRITE_BYTES_MIN), settings.container.index_write_bytes
            ),
        )

    async def open_owner(self, index: int, *, takeover: bool) -> Container:
        """Claim a container and open it; raises ``StoreInUseError`` when a live owner holds it."""
        from siltstone.container.owner_boot import StoreHooks, open_container

        check_process()  # Ahead of the claim, which would fence a healthy owner.
        folder = await self._run(
            lambda: first_look(self.settings.index_folder, lambda: self._folders.of_owner(index)),
            keep,
        )
        metrics = self.new_metrics(index)
        log, storage = await self._run(lambda: self._log_and_storage(index, metrics), _close_both)
        opening = open_container(
            container=index,
            log=log,
            storage=storage,
            environment=self.environment,
            settings=self._container_settings,
            metrics=metrics,
            index_folder=folder,
            owner=self.owner,
            takeover=takeover,
            hooks=StoreHooks(
                # A switch to another place takes the name away while it holds the logs.
                confirm=lambda found: check_there(uncached(found)),
                open_write_through=open_hooks,
            ),
        )
        return await self._named(opening, log)

    async def open_reader(self, index: int, *, without_log: bool = False) -> ReadContainer:
        """Open a container without a claim; ``without_log``, from long-term storage alone."""
        from siltstone.container.reader.read_container import open_reader

        check_process()
        metrics = self.new_metrics(index)
        log, storage = await self._run(
            lambda: self._log_and_storage(index, metrics, without_log=without_log), _close_both
        )
        opening = open_reader(
            container=index,
            log=log,
            storage=storage,
            environment=self.environment,
            settings=self._container_settings,
            metrics=metrics,
            index_folders=self._folders.of_reader(index),
            explain=lambda found: check_not_left(uncached(found)),
        )
        return await self._named(opening, log)

    async def _named(self, opening: Coroutine[None, None, T], log: FencedLog) -> T:
        """Open; an error that says that the log is lost names its place and the settings of it."""
        try:
            return await opening
        except LogLostError as lost:
            error = lost  # The name in the clause is gone after it.
        error = await self._run(lambda: located(error, log), keep)
        raise LogLostError(str(error), settings=self.settings.log_place) from error

    async def holder(self, index: int) -> LogOwner:
        """The present or last holder of the log of a container; found without a claim."""

        def ask() -> LogOwner:
            log = self._log(index)
            try:
                return log.holder()
            finally:
                log.close()

        return await self._run(ask, keep)

    def close(self) -> None:
        """Free what the containers do not close."""
        self._folders.close()
        if self._cache is not None:
            self._cache.close()
        self._unexpose()

    def expose(self) -> None:
        """Show the metrics, if the settings say so, until ``close``."""
        self._unexpose = expose(self.settings.metrics)

    def new_metrics(self, container: int | str) -> Metrics:
        """Where the measurements of a container go, or of what else has this name."""
        store = uuid_text(self.manifest.store_id)
        return container_metrics(self.settings.metrics, store, container, self.environment)

    def new_log(self, index: int) -> FencedLog:
        """A handle of a container's log, not claimed."""
        return self._log(index)

    def new_storage(self) -> ChunkStorage:
        """A client of long-term storage."""
        return open_storage(self.settings, self.environment)

    def _log_and_storage(
        self, index: int, metrics: Metrics, *, without_log: bool = False
    ) -> tuple[FencedLog, ChunkStorage]:
        storage = open_storage(self.settings, self.environment, self._bandwidths, metrics)
        try:
            log = NoLog() if without_log else self._log(index)
            return log, self._cached(storage)
        except BaseException:
            storage.close()
            raise

    def _cached(self, storage: ChunkStorage) -> ChunkStorage:
        """Let storage be read through the cache that all containers share, if there is one."""
        folder = self.settings.cache_folder
        if folder is None:
            return storage
        if self._cache is None:
            made = partial(BlockCache, folder, self.settings.cache_bytes, self.manifest.store_id)
            self._cache = first_look(folder, made)
        return CachedChunkStorage(storage, self._cache, is_data_chunk)

    def _log(self, index: int) -> FencedLog:
        settings = self.settings
        return with_place(
            settings.text,
            "tier1",
            settings.log,
            settings.log_options,
            lambda: load_fenced_log(settings.log, settings.log_options, index),
        )

    async def _run(self, call: Callable[[], T], undo: Callable[[T], None]) -> T:
        return await run_whole(self.environment, OPEN_POOL, call, undo)


def _close_both(opened: tuple[FencedLog, ChunkStorage]) -> None:
    for one in opened:
        one.close()


def open_storage(
    settings: EffectiveSettings,
    environment: Environment,
    bandwidths: Bandwidths | None = None,
    metrics: Metrics = NO_METRICS,
) -> ChunkStorage:
    """Return a new client of the store's long-term storage.

    From the service outwards: the binding; the log of calls, if it is on; the meter, if there are
    metrics; the bandwidth, so that what is repeated counts too; the repetition of what may be
    repeated. A container adds the cache, so that a hit asks no service, and the bridge
    (``core/storage/async_storage.py``) with deadlines and the bound on calls in flight. A client
    that gets no bridge, for callers that block, has deadlines here.

    The last attempt of a call begins in the first half of the call's deadline, so that its answer
    still comes in time.

    Args:
        settings: of the store.
        environment: gives time, randomness and waits.
        bandwidths: for a client that gets a bridge, which itself sends again what was throttled or
            has no bandwidth. Without one, throttled calls are repeated here.
        metrics: takes what is measured of requests.
    """
    storage = logged(open_binding(settings), environment)
    if metrics.enabled:
        storage = MeteredChunkStorage(storage, environment, metrics)
    if bandwidths is not None and (bandwidths.up or bandwidths.down):
        storage = LimitedChunkStorage(storage, environment, bandwidths)
    container = settings.container
    retries = Retries(
        attempts=container.storage_attempts,
        deadline_s=container.storage_deadline_s / 2,
        throttled=bandwidths is None,
    )
    storage = RetryingChunkStorage(storage, environment, retries, settings.storage_place)
    if bandwidths is not None:
        return storage
    return with_deadline(storage, environment, container)


def with_deadline(
    storage: ChunkStorage, environment: Environment, settings: ContainerSettings
) -> ChunkStorage:
    """Give storage the deadlines of the settings, for callers that block."""
    return DeadlineChunkStorage(
        storage,
        environment,
        deadline_s=settings.storage_deadline_s,
        rate_min=settings.storage_rate_min,
    )


def storage_of(path: Path | str, rate: int | None = None) -> ChunkStorage:
    """Return a new client of long-term storage for the store whose settings file is ``path``.

    For callers that open no store, such as the tasks of a job; throttled calls are repeated.

    Args:
        path: of the file.
        rate: bytes a second that it moves at most, both ways together; ``None`` for no limit.

    Raises:
        StoreNotFoundError: there is no settings file.
        SettingsError: the settings file is wrong.
    """
    environment = SystemEnvironment()
    storage = open_storage(load_settings(path), environment)
    return storage if rate is None else paced(storage, environment, rate)


def paced(storage: ChunkStorage, environment: Environment, rate: int) -> ChunkStorage:
    """Let storage move this many bytes a second at most, for work that can wait."""
    bandwidth = Bandwidth(environment, rate, small_wait_s=float("inf"))
    bandwidths = Bandwidths(up=bandwidth, down=bandwidth, longest_s=float("inf"))
    return LimitedChunkStorage(storage, environment, bandwidths)


def open_binding(settings: EffectiveSettings) -> ChunkStorage:
    """Return a new client of the service itself, without any wrapper."""
    try:
        return with_place(
            settings.text,
            "long_term_storage",
            settings.binding,
            settings.binding_options,
            lambda: load_chunk_storage(settings.binding, settings.binding_options),
        )
    except ChunkError as error:
        add_facts(error, settings.storage_place)
        raise


def _bandwidths(settings: EffectiveSettings, environment: Environment) -> Bandwidths:
    up, down = (
        None if rate is None else Bandwidth(environment, rate)
        for rate in (settings.upload_rate, settings.download_rate)
    )
    # Calls that wait on a thread must be sent well before the call's deadline.
    return Bandwidths(up=up, down=down, longest_s=settings.container.storage_deadline_s / 2)


def assembled(
    path: Path | str, environment: Environment, *, without_manifest: bool = False
) -> Assembly:
    """Read the settings, and check that long-term storage holds the store that they name.

    Args:
        path: the settings file, or its folder.
        environment: gives time, randomness and threads.
        without_manifest: where ``system/store`` is missing or damaged, take what other files say,
            and say why in ``manifest_lost`` of the result.

    Raises like ``open_async_store``; nothing is claimed.
    """
    settings = load_settings(path)
    manifest_lost = ""
    with closing(open_storage(settings, environment)) as storage:
        try:
            manifest = read_manifest(storage)
        except (StoreNotFoundError, CorruptDataError) as error:
            if not without_manifest:
                add_facts(error, settings.storage_place)
                raise
            # Loaded only when it is needed, which is nearly never.
            from siltstone.store.lost_manifest import stand_in

            manifest = stand_in(storage, settings.uuid, environment)
            manifest_lost = str(error)
        check_uuid(manifest, settings.uuid, settings.storage_place)
    return Assembly(settings, environment, manifest, manifest_lost)


def container_count(path: Path | str) -> int:
    """How many containers the store has whose settings file is ``path``; see ``assembled``."""
    environment = SystemEnvironment()
    with closing(environment), closing(assembled(path, environment)) as assembly:
        return assembly.manifest.container_count


def owner_text(environment: Environment) -> str:
    """Describe this process for others who find a container held, in at most 200 characters."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        user = str(os.getuid())
    started = datetime.fromtimestamp(environment.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    store = environment.random_bytes(4).hex()
    text = f"pid={os.getpid()} user={user} opened={started} store={store} host={platform.node()}"
    return text[:OWNER_CHARACTERS_MAX]
