"""A chunk storage that moves no more bytes a second than it may, each way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.storage.bandwidth import Bandwidth, BandwidthError
from siltstone.core.storage.wrapper import WrappedChunkStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidths:
    """What the clients of one service share.

    Attributes:
        up: bytes that creates and writes move; ``None`` without a limit.
        down: bytes that reads move; likewise.
        longest_s: a call that would have to wait longer is a ``BandwidthError`` instead.
    """

    up: Bandwidth | None = None
    down: Bandwidth | None = None
    longest_s: float


class LimitedChunkStorage(WrappedChunkStorage):
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
        super().__init__(inner)
        self._environment = environment
        self._bandwidths = bandwidths

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        self._wait(self._bandwidths.up, name, "create", sum(map(len, buffers)))
        super().create(name, buffers)

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """``create_from`` of ``optional_verbs``; it waits for all of its bytes at once."""
        self._wait(self._bandwidths.up, name, "create", length)
        super().create_from(name, length, pieces)

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``create_whole`` of ``optional_verbs``."""
        self._wait(self._bandwidths.up, name, "create", sum(map(len, buffers)))
        super().create_whole(name, buffers)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        self._wait(self._bandwidths.up, name, "write", sum(map(len, buffers)))
        super().write(name, offset, buffers)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``; it counts what is asked for."""
        self._wait(self._bandwidths.down, name, "read_into", len(buffer))
        return super().read_into(name, offset, buffer)

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
