"""Where a whole container lies in a test, and how it is opened there: file log, folder, index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.container.container import Container
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.owner_boot import open_container
from siltstone.container.reader.read_container import ReadContainer, open_reader
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB, MIB
from siltstone.core.environment import Environment
from siltstone.core.posix import FileCalls, SystemFileCalls
from siltstone.tier1.file.fenced_log import FileFencedLog

RESTLESS = ContainerSettings(
    chunk_bytes=20_000,
    flush_bytes=4_000,
    flush_age_s=0.02,
    unflushed_bytes_max=64_000,
    table_flush_bytes=4_000,
    table_flush_age_s=0.03,
    checkpoint_bytes=20_000,
    checkpoint_age_s=0.15,
    garbage_delay_s=0.0,
    garbage_interval_s=0.05,
    storage_threads=4,
    index_cache_bytes=MIB,
    free_bytes_min=0,
)
"""Rolls, flushes, checkpoints, truncates and collects all the time, on disks of any size."""

STILL = replace(
    RESTLESS,
    flush_bytes=MIB,
    flush_age_s=3600.0,
    unflushed_bytes_max=MIB,
    table_flush_bytes=MIB,
    table_flush_age_s=3600.0,
    checkpoint_bytes=MIB,
    checkpoint_age_s=3600.0,
    garbage_interval_s=3600.0,
)
"""Does nothing by itself: the holder of the container says when."""


class NoSync(SystemFileCalls):
    """For tests that neither kill nor cut: a sync only takes time."""

    def fdatasync(self, fd: int) -> None:
        """Nothing."""

    def fsync(self, fd: int) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Place:
    """The folders of one container.

    Attributes:
        folder: holds ``log``, ``chunks`` and the indexes.
        file_bytes: size of a log file.
    """

    folder: Path
    file_bytes: int = 64 * KIB

    @property
    def log_folder(self) -> Path:
        return self.folder / "log"

    @property
    def chunk_folder(self) -> Path:
        return self.folder / "chunks"

    def log(self, calls: FileCalls | None = None) -> FileFencedLog:
        return FileFencedLog(str(self.log_folder), 0, file_bytes=self.file_bytes, calls=calls)

    def storage(self, calls: FileCalls | None = None) -> NfsChunkStorage:
        return NfsChunkStorage(self.chunk_folder, calls=calls)

    async def own(
        self,
        environment: Environment,
        settings: ContainerSettings = RESTLESS,
        *,
        calls: FileCalls | None = None,
        log: FileFencedLog | None = None,
        storage: ChunkStorage | None = None,
        takeover: bool = False,
        owner: str = "test",
        index: str = "index",
    ) -> Container:
        return await open_container(
            container=0,
            log=log or self.log(calls),
            storage=storage or self.storage(calls),
            environment=environment,
            settings=settings,
            index_folder=self.folder / index,
            owner=owner,
            takeover=takeover,
        )

    async def read_only(
        self,
        environment: Environment,
        settings: ContainerSettings = STILL,
        *,
        calls: FileCalls | None = None,
        index: str = "index",
    ) -> ReadContainer:
        return await open_reader(
            container=0,
            log=self.log(calls),
            storage=self.storage(calls),
            environment=environment,
            settings=settings,
            index_folders=[self.folder / index],
        )
