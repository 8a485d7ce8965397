"""A place that notes what it is asked for, and may be cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.errors import ChunkUnavailableError
from siltstone.core.storage.wrapper import WrappedChunkStorage

T = TypeVar("T")


class CountedPlace(WrappedChunkStorage):
    """A client of a bucket in memory.

    Attributes:
        asked: verb and name of each call.
        is_cut_off: whether no call gets an answer.
    """

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(MemoryChunkStorage(bucket))
        self.asked: list[tuple[str, str]] = []
        self.is_cut_off = False

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        if self.is_cut_off:
            raise ChunkUnavailableError("no answer", chunk=name, operation=operation)
        self.asked.append((operation, name))
        return super()._call(operation, name, action)

    def close(self) -> None:
        """Stay open, for the next client."""
