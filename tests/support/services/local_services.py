"""The services that the contract runs on here, each with a view from outside."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from siltstone.bindings.memory.bucket import Bucket, StoredChunk
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.posix import FileCalls
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage, StorageCall
from siltstone.testing.faults.file_layer import Call, FileLayer


def as_it_is(storage: ChunkStorage) -> ChunkStorage:
    return storage


@dataclass(kw_only=True)
class FolderService:
    """A folder; seen from outside with the calls of ``pathlib``."""

    root: Path
    calls: FileCalls | None = None
    wrap: Callable[[ChunkStorage], ChunkStorage] = as_it_is

    def open(self) -> ChunkStorage:
        return self.wrap(NfsChunkStorage(self.root, calls=self.calls))

    def outside_read(self, name: str) -> bytes | None:
        path = self.root / name
        return path.read_bytes() if path.is_file() else None

    def outside_names(self) -> list[str]:
        return [
            str((Path(folder) / file).relative_to(self.root))
            for folder, _, files in os.walk(self.root)
            for file in files
        ]

    def outside_write(self, name: str, content: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@dataclass(kw_only=True)
class BucketService:
    """A bucket in memory; seen from outside by looking into it."""

    profile: Profile = field(default_factory=Profile)
    bucket: Bucket = field(default_factory=Bucket)
    wrap: Callable[[ChunkStorage], ChunkStorage] = as_it_is

    def open(self) -> ChunkStorage:
        return self.wrap(MemoryChunkStorage(self.bucket, self.profile))

    def outside_read(self, name: str) -> bytes | None:
        with self.bucket.lock:
            chunk = self.bucket.chunks.get(name.encode())
            return None if chunk is None else bytes(chunk.content)

    def outside_names(self) -> list[str]:
        with self.bucket.lock:
            return [key.decode() for key in self.bucket.chunks]

    def outside_write(self, name: str, content: bytes) -> None:
        with self.bucket.lock:
            chunk = StoredChunk(
                content=bytearray(content),
                version=self.bucket.next_version(),
                modified_s=time.time(),
            )
            self.bucket.insert(name.encode(), chunk)


@dataclass(kw_only=True)
class StoppableBucket(BucketService):
    """A bucket whose service can be out of order, in each of the ways that a call can fail."""

    fate: Fate = Fate.LOST_CALL
    is_stopped: bool = False

    def open(self) -> ChunkStorage:
        return FaultyChunkStorage(super().open(), self._fate_of)

    def stop(self) -> None:
        self.is_stopped = True

    def start(self) -> None:
        self.is_stopped = False

    def _fate_of(self, call: StorageCall) -> Fate:
        return self.fate if self.is_stopped else Fate.DONE


@dataclass(kw_only=True)
class StoppableFolder(FolderService):
    """A folder on a disk that can fail every call; descriptors are freed anyway."""

    layer: FileLayer

    def __post_init__(self) -> None:
        self.calls = self.layer

    def stop(self) -> None:
        self.layer.before = self._fail

    def start(self) -> None:
        self.layer.before = lambda call: None

    def _fail(self, call: Call) -> None:
        if call.kind != "close":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
