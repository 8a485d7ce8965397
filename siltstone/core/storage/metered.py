"""A chunk storage that counts what the service itself is asked: the innermost wrapper.

The bridge reports the calls that a container makes, which are not the same: a call may be several
requests, when it is repeated or reads what it wrote, or none, when the cache has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError
from siltstone.core.metrics import REQUEST, REQUEST_BYTES, REQUESTS, Metrics
from siltstone.core.storage.wrapper import WrappedChunkStorage

T = TypeVar("T")


class MeteredChunkStorage(WrappedChunkStorage):
    """Delegates everything to ``inner`` and measures it: requests by verb and error, bytes, times.

    A listing is one request for each chunk that it is asked for, as far as can be seen from here;
    it counts once, with the time until its first chunk.

    Args:
        inner: closed by ``close``.
        environment: gives time.
        metrics: takes what is measured, from any thread.
    """

    def __init__(self, inner: ChunkStorage, environment: Environment, metrics: Metrics) -> None:
        super().__init__(inner)
        self._clock = environment.monotonic
        self._metrics = metrics

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        super().create(name, buffers)
        self._moved("create", sum(map(len, buffers)))

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """``create_from`` of ``optional_verbs``; the time is also that of the pieces."""
        super().create_from(name, length, pieces)
        self._moved("create", length)

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``create_whole`` of ``optional_verbs``."""
        super().create_whole(name, buffers)
        self._moved("create", sum(map(len, buffers)))

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        super().write(name, offset, buffers)
        self._moved("write", sum(map(len, buffers)))

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``; the bytes are those that were read."""
        count = super().read_into(name, offset, buffer)
        self._moved("read_into", count)
        return count

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        begun, error = self._clock(), "none"
        try:
            return action()
        except Exception as raised:
            error = _kind(raised)
            raise
        finally:
            self._metrics.observe(REQUEST, self._clock() - begun, operation)
            self._metrics.add(REQUESTS, 1, operation, error)

    def _moved(self, operation: str, length: int) -> None:
        if length:
            self._metrics.add(REQUEST_BYTES, length, operation)


def _kind(error: Exception) -> str:
    """The class of a chunk error in words; of anything else ``other``: labels must be few."""
    if not isinstance(error, ChunkError):
        return "other"
    name = type(error).__name__.removeprefix("Chunk").removesuffix("Error")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
