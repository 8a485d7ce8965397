"""The binding ``shelf``: write-once chunks in a dictionary that the settings hand in."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from siltstone.core.chunk_arguments import (
    check_buffers,
    check_chunk_name,
    check_listing,
    check_offset,
    check_target,
    require,
)
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat, ChunkStorage
from siltstone.core.errors import (
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ClosedError,
    SettingsError,
)
from siltstone.core.hooks import hookimpl


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> ChunkStorage | None:
    if name != "shelf":
        return None
    if set(settings) != {"chunks"}:
        raise SettingsError("shelf.chunks: field required")
    return Shelf(settings["chunks"])


class Shelf:
    """All that a service must be able to do, and nothing more."""

    def __init__(self, chunks: dict[str, bytes]) -> None:
        self._chunks = chunks
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(append=False)

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        self._check(name, "create")
        check_buffers(buffers)
        content = b"".join(buffers)
        with self._lock:
            if name in self._chunks:
                raise ChunkExistsError("chunk exists", chunk=name, operation="create")
            self._chunks[name] = content

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        self._check(name, "write")
        require("append", able=False)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        content = self._check(name, "read_into").get(name)
        check_offset(offset)
        check_target(buffer)
        if content is None:
            raise ChunkNotFoundError("no such chunk", chunk=name, operation="read_into")
        if offset > len(content):
            raise ChunkOffsetError(
                chunk=name, operation="read_into", expected=len(content), actual=offset
            )
        part = content[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def stat(self, name: str) -> ChunkStat:
        content = self._check(name, "stat").get(name)
        if content is None:
            raise ChunkNotFoundError("no such chunk", chunk=name, operation="stat")
        return ChunkStat(name=name, length=len(content), version="1")

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        self._check_open()
        low, above = check_listing(prefix, start_after)
        for name in sorted(self._chunks, key=str.encode):
            self._check_open()
            content = self._chunks.get(name)
            if content is not None and name.encode().startswith(low) and name.encode() > above:
                yield ChunkStat(name=name, length=len(content), version="1")

    def delete(self, name: str) -> None:
        if self._check(name, "delete").pop(name, None) is None:
            raise ChunkNotFoundError("no such chunk", chunk=name, operation="delete")

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        self._check_open()
        require("concat", able=False)

    def seal(self, name: str) -> None:
        self._check_open()
        require("seal", able=False)

    def used_space(self) -> int:
        self._check_open()
        require("used_space", able=False)
        return 0

    def free_space(self) -> int:
        self._check_open()
        require("free_space", able=False)
        return 0

    def close(self) -> None:
        self._is_closed = True

    def _check(self, name: str, operation: str) -> dict[str, bytes]:
        self._check_open()
        check_chunk_name(name, operation)
        return self._chunks

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the shelf was closed")
