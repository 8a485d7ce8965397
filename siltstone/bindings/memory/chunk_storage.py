"""Chunk storage in memory, with the profile of any service: write-once, small pages, slow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from siltstone.bindings.memory.bucket import Bucket, StoredChunk
from siltstone.bindings.memory.errors import exists, full, not_found, sealed
from siltstone.core.chunk_arguments import (
    check_buffers,
    check_chunk_length,
    check_chunk_name,
    check_concat,
    check_listing,
    check_offset,
    check_target,
    check_whole,
    require,
)
from siltstone.core.chunk_storage import UNLIMITED, Buffer, Capabilities, ChunkStat
from siltstone.core.errors import ChunkOffsetError, ClosedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The service that is played; the fields are those of ``MemorySettings``."""

    append: bool = True
    concat: bool = True
    seal: bool = True
    concat_part_bytes_min: int = 1
    concat_part_bytes_max: int = UNLIMITED
    concat_parts_max: int = UNLIMITED
    appends_max: int = UNLIMITED
    chunk_bytes_max: int = UNLIMITED
    list_page_count: int = 1_000
    latency_s: float = 0.0
    capacity_bytes: int = UNLIMITED


class MemoryChunkStorage:
    """A ``ChunkStorage`` over a ``Bucket``; several may share one, as clients share a service.

    A change takes effect at one moment in the middle of its call, so other clients see it before
    its caller knows. The end of a chunk is checked by the service itself.

    Args:
        bucket: the service; a private one if left out.
        profile: what the service can do.
        clock: seconds since 1970.
        sleep: how latency is spent.
    """

    def __init__(
        self,
        bucket: Bucket | None = None,
        profile: Profile | None = None,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bucket = bucket or Bucket()
        self._profile = profile or Profile()
        self._clock = clock
        self._sleep = sleep
        self._is_closed = False
        self._capabilities = Capabilities(
            append=self._profile.append,
            concat=self._profile.concat,
            seal=self._profile.seal,
            used_space=True,
            free_space=True,
            offset_checked=True,
            concat_part_bytes_min=self._profile.concat_part_bytes_min,
            concat_part_bytes_max=self._profile.concat_part_bytes_max,
            concat_parts_max=self._profile.concat_parts_max,
            appends_max=self._profile.appends_max,
            chunk_bytes_max=self._profile.chunk_bytes_max,
            whole=True,
        )

    @property
    def capabilities(self) -> Capabilities:
        """What the profile says."""
        return self._capabilities

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Insert the chunk in one step."""
        self._check_open()
        key = check_chunk_name(name, "create")
        check_chunk_length(check_buffers(buffers), self._capabilities)
        self._insert(name, key, "create", b"".join(buffers))

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Insert the chunk in one step, as ``create`` does."""
        self._check_open()
        key = check_chunk_name(name, "create")
        check_whole(buffers, self._capabilities)
        self._insert(name, key, "create", b"".join(buffers))

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """Append in one step."""
        self._check_open()
        key = check_chunk_name(name, "write")
        require("append", able=self._capabilities.append)
        check_offset(offset)
        length = check_buffers(buffers)
        check_chunk_length(offset + length, self._capabilities)
        with self._service():
            chunk = self._chunk(name, key, "write")
            if chunk.is_sealed:
                raise sealed(name)
            if offset != len(chunk.content):
                raise ChunkOffsetError(
                    chunk=name, operation="write", expected=len(chunk.content), actual=offset
                )
            if chunk.writes >= self._capabilities.appends_max:
                raise ValueError(f"too many writes to one chunk max={chunk.writes}")
            self._check_room(name, "write", length)
            chunk.content += b"".join(buffers)
            chunk.writes += 1
            chunk.version, chunk.modified_s = self._bucket.next_version(), self._clock()

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """Copy out what is there."""
        self._check_open()
        key = check_chunk_name(name, "read_into")
        check_offset(offset)
        check_target(buffer)
        with self._service():
            content = self._chunk(name, key, "read_into").content
            if offset > len(content):
                raise ChunkOffsetError(
                    chunk=name, operation="read_into", expected=len(content), actual=offset
                )
            length = min(len(buffer), len(content) - offset)
            buffer[:length] = content[offset : offset + length]
            return length

    def stat(self, name: str) -> ChunkStat:
        """Look the chunk up."""
        self._check_open()
        key = check_chunk_name(name, "stat")
        with self._service():
            return _chunk_stat(key, self._chunk(name, key, "stat"))

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """List page by page, each as of the moment it is asked for."""
        self._check_open()
        return self._listed(*check_listing(prefix, start_after))

    def delete(self, name: str) -> None:
        """Take the chunk out."""
        self._check_open()
        key = check_chunk_name(name, "delete")
        with self._service():
            self._chunk(name, key, "delete")
            self._bucket.remove(key)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """Copy the sources together in one step."""
        self._check_open()
        check_concat(target, sources, self._capabilities)
        parts = []
        with self._bucket.lock:
            for name, length in sources:
                content = self._chunk(name, name.encode(), "concat").content
                if length > len(content):
                    raise ChunkOffsetError(
                        chunk=name, operation="concat", expected=len(content), actual=length
                    )
                parts.append(bytes(content[:length]))
        self._insert(target, target.encode(), "concat", b"".join(parts))

    def seal(self, name: str) -> None:
        """Mark the chunk."""
        self._check_open()
        key = check_chunk_name(name, "seal")
        require("seal", able=self._capabilities.seal)
        with self._service():
            self._chunk(name, key, "seal").is_sealed = True

    def used_space(self) -> int:
        """The lengths of all chunks, added up."""
        self._check_open()
        with self._service():
            return self._bucket.used_bytes()

    def free_space(self) -> int:
        """What is left of the capacity."""
        self._check_open()
        with self._service():
            if self._profile.capacity_bytes == UNLIMITED:
                return UNLIMITED
            return max(0, self._profile.capacity_bytes - self._bucket.used_bytes())

    def close(self) -> None:
        """Let no call in any more; the bucket stays."""
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the chunk storage was closed")

    @contextmanager
    def _service(self) -> Iterator[None]:
        """Half of the latency, the service's moment, the other half."""
        self._wait()
        with self._bucket.lock:
            yield
        self._wait()

    def _wait(self) -> None:
        if self._profile.latency_s:
            self._sleep(self._profile.latency_s / 2)

    def _insert(self, name: str, key: bytes, operation: str, content: bytes) -> None:
        with self._service():
            if key in self._bucket.chunks:
                raise exists(name, operation)
            self._check_room(name, operation, len(content))
            chunk = StoredChunk(
                content=bytearray(content),
                version=self._bucket.next_version(),
                modified_s=self._clock(),
            )
            self._bucket.insert(key, chunk)

    def _chunk(self, name: str, key: bytes, operation: str) -> StoredChunk:
        chunk = self._bucket.chunks.get(key)
        if chunk is None:
            raise not_found(name, operation)
        return chunk

    def _check_room(self, name: str, operation: str, length: int) -> None:
        if self._profile.capacity_bytes == UNLIMITED:
            return  # Adding up all chunks for every write would make large tests slow.
        if self._bucket.used_bytes() + length > self._profile.capacity_bytes:
            raise full(name, operation)

    def _listed(self, prefix: bytes, start_after: bytes) -> Iterator[ChunkStat]:
        start = max(prefix, start_after + b"\0" if start_after else b"")
        while True:
            with self._service():
                keys = self._bucket.page(start, self._profile.list_page_count)
                page = [
                    _chunk_stat(key, self._bucket.chunks[key])
                    for key in keys
                    if key.startswith(prefix)
                ]
            for stat in page:
                yield stat
                self._check_open()
            if len(page) < self._profile.list_page_count:
                return
            start = keys[-1] + b"\0"


def _chunk_stat(key: bytes, chunk: StoredChunk) -> ChunkStat:
    return ChunkStat(
        name=key.decode(),
        length=len(chunk.content),
        version=str(chunk.version),
        modified_s=chunk.modified_s,
    )
