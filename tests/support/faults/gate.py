"""Chunk storage whose mutations a test may hold back for a while."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from siltstone.bindings.nfs.chunk_storage import NfsChunkStorage
from siltstone.core.chunk_storage import Buffer

WAIT_S = 60.0


class Gate(NfsChunkStorage):
    """Holds back a create or write, if the chunk's name has a word in it, until it is released."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._held: dict[str, tuple[threading.Event, threading.Event]] = {}

    def hold(self, word: str) -> None:
        """Hold back whatever has ``word`` in its name from now on."""
        self._held[word] = (threading.Event(), threading.Event())

    def reached(self, word: str) -> bool:
        """Whether something is held back, or was, by ``word``."""
        return self._held[word][0].is_set()

    def let(self, word: str) -> None:
        """Let it continue."""
        self._held[word][1].set()

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """See ``ChunkStorage.create``."""
        self._wait(name)
        super().create(name, buffers)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """See ``ChunkStorage.write``."""
        self._wait(name)
        super().write(name, offset, buffers)

    def _wait(self, name: str) -> None:
        for word, (reached, free) in tuple(self._held.items()):
            if word in name and not free.is_set():
                reached.set()
                free.wait(WAIT_S)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until ``holds`` is true."""
    for _ in range(int(WAIT_S * 1_000)):
        if holds():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never became true")
