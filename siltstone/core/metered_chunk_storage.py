"""A chunk storage that counts what the service itself is asked: the innermost wrapper.

Beside the calls that a container makes, which the bridge reports: a call may be several requests,
when it is repeated or reads what it wrote, or none, when the cache has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from siltstone.core.chunk_care import delete_many, sweep_leftovers
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat, ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError
from siltstone.core.metrics import REQUEST, REQUEST_BYTES, REQUESTS, Metrics

T = TypeVar("T")


class MeteredChunkStorage:
    """Delegates everything to ``inner`` and measures it: requests by verb and error, bytes, times.

    A listing is one request for each chunk that it is asked for, as far as can be seen from here;
    it counts once, with the time until its first chunk.

    Args:
        inner: closed by ``close``.
        environment: gives time.
        metrics: takes what is measured, from any thread.
    """

    def __init__(self, inner: ChunkStorage, environment: Environment, metrics: Metrics) -> None:
        self._inner = inner
        self._clock = environment.monotonic
        self._metrics = metrics

    @property
    def capabilities(self) -> Capabilities:
        """Those of ``inner``."""
        return self._inner.capabilities

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        self._call("create", lambda: self._inner.create(name, buffers))
        self._moved("create", sum(map(len, buffers)))

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        self._call("write", lambda: self._inner.write(name, offset, buffers))
        self._moved("write", sum(map(len, buffers)))

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``; the bytes are those that were read."""
        count = self._call("read_into", lambda: self._inner.read_into(name, offset, buffer))
        self._moved("read_into", count)
        return count

    def stat(self, name: str) -> ChunkStat:
        """``ChunkStorage.stat``."""
        return self._call("stat", lambda: self._inner.stat(name))

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """``ChunkStorage.list``."""
        listing = self._inner.list(prefix, start_after)

        def listed() -> Iterator[ChunkStat]:
            first = self._call("list", lambda: next(listing, None))
            if first is not None:
                yield first
                yield from listing

        return listed()

    def delete(self, name: str) -> None:
        """``ChunkStorage.delete``."""
        self._call("delete", lambda: self._inner.delete(name))

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        """``delete_many`` of ``chunk_care``, one request."""
        return self._call("delete_many", lambda: delete_many(self._inner, names))

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """``sweep_leftovers`` of ``chunk_care``."""
        return self._call("sweep_leftovers", lambda: sweep_leftovers(self._inner, prefix, age_s))

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """``ChunkStorage.concat``; the service moves its bytes by itself."""
        self._call("concat", lambda: self._inner.concat(target, sources))

    def seal(self, name: str) -> None:
        """``ChunkStorage.seal``."""
        self._call("seal", lambda: self._inner.seal(name))

    def used_space(self) -> int:
        """``ChunkStorage.used_space``."""
        return self._call("used_space", self._inner.used_space)

    def free_space(self) -> int:
        """``ChunkStorage.free_space``."""
        return self._call("free_space", self._inner.free_space)

    def close(self) -> None:
        """``ChunkStorage.close``."""
        self._inner.close()

    def _call(self, operation: str, action: Callable[[], T]) -> T:
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
