"""The same verbs for asyncio: each runs on a thread; a caller that is cancelled waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, SupportsIndex, TypeVar

from siltstone.core.closed_on_exit import AsyncClosing
from siltstone.core.constants import Buffer
from siltstone.core.environment import Environment, Pool, SystemEnvironment, own_pool
from siltstone.core.storage.late_work import finish
from siltstone.volumes.client import VolumeClient, VolumeSync
from siltstone.volumes.reader import VolumeReader, VolumeWriter
from siltstone.volumes.records.state_rows import Snapshot, SyncDirection
from siltstone.volumes.volume import Progress, SyncAction, Volume, VolumeInfo

T = TypeVar("T")
R = TypeVar("R", bound=VolumeReader)
C = TypeVar("C", VolumeClient, VolumeReader, VolumeWriter)

_THREADS = 8
"""Calls at a time; most wait for a disk or a place."""


class _Threads:
    """Runs blocking calls; at most ``_THREADS`` at a time."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._pool: Pool = own_pool("volumes", _THREADS)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call to its end, also if the caller is cancelled meanwhile."""

        async def work() -> T:
            return await self._environment.run_blocking(self._pool, call)

        return await finish(asyncio.ensure_future(work()))

    async def opened(self, call: Callable[[], C]) -> C:
        """Run a call that opens something; close that if the caller is cancelled meanwhile."""
        found: list[C] = []
        try:
            await self.run(lambda: found.append(call()))
        except BaseException:
            for each in found:
                await self.run(each.close)
            raise
        return found[0]


class _AsyncPages(AsyncClosing, Generic[R]):
    """What readers and writers have in common. An async context manager."""

    def __init__(self, threads: _Threads, pages: R) -> None:
        self._threads = threads
        self._pages = pages

    @property
    def snapshot(self) -> Snapshot:
        """What it reads."""
        return self._pages.snapshot

    @property
    def page_count(self) -> int:
        """See ``VolumeReader.page_count``."""
        return self._pages.page_count

    async def read(self, index: SupportsIndex) -> bytes:
        """See ``VolumeReader.read``."""
        return await self._threads.run(partial(self._pages.read, index))

    async def close(self) -> None:
        """Let go of the snapshot. Idempotent."""
        await self._threads.run(self._pages.close)


class AsyncVolumeReader(_AsyncPages[VolumeReader]):
    """See ``VolumeReader``. For one task at a time."""


class AsyncVolumeWriter(_AsyncPages[VolumeWriter]):
    """See ``VolumeWriter``. For one task at a time."""

    def write(self, index: SupportsIndex, page: Buffer) -> None:
        """See ``VolumeWriter.write``; only memory is changed."""
        self._pages.write(index, page)

    def truncate(self, pages: SupportsIndex) -> None:
        """See ``VolumeWriter.truncate``; only memory is changed."""
        self._pages.truncate(pages)

    async def commit(self) -> Snapshot:
        """See ``VolumeWriter.commit``. If the caller is cancelled, the commit may be done."""
        return await self._threads.run(self._pages.commit)


class AsyncVolume:
    """See ``Volume``; made by ``AsyncVolumeClient``."""

    def __init__(self, threads: _Threads, volume: Volume) -> None:
        self._threads = threads
        self._volume = volume

    @property
    def name(self) -> str:
        """Of the volume."""
        return self._volume.name

    @property
    def log(self) -> str:
        """Id of its log in the place, as 32 hex digits."""
        return self._volume.log

    async def reader(self) -> AsyncVolumeReader:
        """A reader of the newest snapshot."""
        return AsyncVolumeReader(self._threads, await self._threads.opened(self._volume.reader))

    async def writer(self) -> AsyncVolumeWriter:
        """A writer on the newest snapshot."""
        return AsyncVolumeWriter(self._threads, await self._threads.opened(self._volume.writer))

    async def info(self) -> VolumeInfo:
        """See ``Volume.info``."""
        return await self._threads.run(self._volume.info)

    async def set_sync(self, sync: SyncDirection | str) -> None:
        """See ``Volume.set_sync``."""
        await self._threads.run(partial(self._volume.set_sync, sync))

    async def fetch(self) -> int:
        """See ``Volume.fetch``."""
        return await self._threads.run(self._volume.fetch)

    async def pull(self) -> bool:
        """See ``Volume.pull``."""
        return await self._threads.run(self._volume.pull)

    async def push(self) -> bool:
        """See ``Volume.push``."""
        return await self._threads.run(self._volume.push)

    async def recover(self) -> bool:
        """See ``Volume.recover``."""
        return await self._threads.run(self._volume.recover)

    async def reset(self) -> Snapshot:
        """See ``Volume.reset``."""
        return await self._threads.run(self._volume.reset)

    async def hydrate(self, *, progress: Progress | None = None) -> int:
        """See ``Volume.hydrate``; ``progress`` is called on a thread."""
        return await self._threads.run(partial(self._volume.hydrate, progress=progress))

    async def evict(self, keep: int = 0) -> int:
        """See ``Volume.evict``."""
        return await self._threads.run(partial(self._volume.evict, keep))

    async def sync(self) -> SyncAction:
        """See ``Volume.sync``."""
        return await self._threads.run(self._volume.sync)


class AsyncVolumeClient(AsyncClosing):
    """See ``VolumeClient``; made by ``open_async``. An async context manager.

    Args:
        client: the same for blocking callers; closed by ``close``.
        environment: gives the threads; not that of ``client``, and closed by ``close``.
    """

    def __init__(self, client: VolumeClient, environment: Environment) -> None:
        self._client = client
        self._environment = environment
        self._threads = _Threads(environment)

    async def names(self) -> list[str]:
        """Names of the volumes, in order."""
        return await self._threads.run(self._client.names)

    async def create(self, name: str, *, sync: SyncDirection | str | None = None) -> AsyncVolume:
        """See ``VolumeClient.create``."""
        return await self._made(partial(self._client.create, name, sync=sync))

    async def clone(
        self, name: str, log: str, *, sync: SyncDirection | str | None = None
    ) -> AsyncVolume:
        """See ``VolumeClient.clone``."""
        return await self._made(partial(self._client.clone, name, log, sync=sync))

    async def volume(self, name: str) -> AsyncVolume:
        """See ``VolumeClient.volume``."""
        return await self._made(partial(self._client.volume, name))

    async def drop(self, name: str) -> None:
        """See ``VolumeClient.drop``."""
        await self._threads.run(partial(self._client.drop, name))

    async def sync(self) -> list[VolumeSync]:
        """See ``VolumeClient.sync``."""
        return await self._threads.run(self._client.sync)

    async def close(self) -> None:
        """Wait for the sync in the background, and close. Idempotent."""
        await self._threads.run(self._client.close)
        self._environment.close()

    async def _made(self, call: Callable[[], Volume]) -> AsyncVolume:
        return AsyncVolume(self._threads, await self._threads.run(call))


async def open_async(folder: Path | str, *, place: str | None = None) -> AsyncVolumeClient:
    """Open a client for asyncio; see ``siltstone.volumes.open``."""
    environment = SystemEnvironment()
    threads = _Threads(environment)
    try:
        client = await threads.opened(
            partial(VolumeClient.open, folder, place, SystemEnvironment())
        )
    except BaseException:
        environment.close()
        raise
    return AsyncVolumeClient(client, environment)
