"""A chunk storage that moves no more bytes a second than it may, each way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from siltstone.core.bandwidth import Bandwidth, BandwidthError
from siltstone.core.chunk_care import delete_many, sweep_leftovers
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat, ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidths:
    """What the clients of one service share.

    Attributes:
        up: bytes that creates and writes move; ``None`` without a limit.
        down: bytes that reads move; alike.
        longest_s: a call that would have to wait longer is a ``BandwidthError`` instead.
    """

    up: Bandwidth | None = None
    down: Bandwidth | None = None
    longest_s: float


class LimitedChunkStorage:
    """Delegates everything to ``inner``; what moves bytes waits for its turn first.

    Calls that move none, and concats, which the service does by itself, never wait.

    Args:
        inner: closed by ``close``.
        environment: gives the wait.
        bandwidths: how many bytes may move.
    """

    def __init__(
        self, inner: ChunkStorage, environment: Environment, bandwidths: Bandwidths
    ) -> None:
        self._inner = inner
        self._environment = environment
        self._bandwidths = bandwidths

    @property
    def capabilities(self) -> Capabilities:
        """Those of ``inner``."""
        return self._inner.capabilities

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        self._wait(self._bandwidths.up, name, "create", sum(map(len, buffers)))
        self._inner.create(name, buffers)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        self._wait(self._bandwidths.up, name, "write", sum(map(len, buffers)))
        self._inner.write(name, offset, buffers)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``; it counts what is asked for."""
        self._wait(self._bandwidths.down, name, "read_into", len(buffer))
        return self._inner.read_into(name, offset, buffer)

    def stat(self, name: str) -> ChunkStat:
        """``ChunkStorage.stat``."""
        return self._inner.stat(name)

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """``ChunkStorage.list``."""
        return self._inner.list(prefix, start_after)

    def delete(self, name: str) -> None:
        """``ChunkStorage.delete``."""
        self._inner.delete(name)

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        """``delete_many`` of ``chunk_care``."""
        return delete_many(self._inner, names)

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """``sweep_leftovers`` of ``chunk_care``."""
        return sweep_leftovers(self._inner, prefix, age_s)

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """``ChunkStorage.concat``."""
        self._inner.concat(target, sources)

    def seal(self, name: str) -> None:
        """``ChunkStorage.seal``."""
        self._inner.seal(name)

    def used_space(self) -> int:
        """``ChunkStorage.used_space``."""
        return self._inner.used_space()

    def free_space(self) -> int:
        """``ChunkStorage.free_space``."""
        return self._inner.free_space()

    def close(self) -> None:
        """``ChunkStorage.close``."""
        self._inner.close()

    def _wait(self, bandwidth: Bandwidth | None, name: str, operation: str, length: int) -> None:
        if bandwidth is None:
            return
        wait_s = bandwidth.wait_s(length, self._bandwidths.longest_s)
        if wait_s is None:
            raise BandwidthError(
                chunk=name, operation=operation, retry_after_s=bandwidth.debt_s(), length=length
            )
        if wait_s:
            self._environment.pause(wait_s)
