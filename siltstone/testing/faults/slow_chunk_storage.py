"""A chunk storage that takes time, as a service at the other end of a link does.

The time comes from the environment's clock and randomness: on virtual time a test plays hours of it
from a seed, and a benchmark waits for real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.storage.wrapper import WrappedChunkStorage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """How long a call takes.

    Attributes:
        latency_s: seconds that every call takes at least, half of them before its effect.
        jitter_s: up to this many more, evenly spread.
        stalls: share of the calls, from 0 to 1, that take ``stall_s`` more.
        stall_s: see above; paid before the effect.
        rate: bytes a second of one call; calls at the same time do not share it.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    stalls: float = 0.0
    stall_s: float = 0.0
    rate: float = float("inf")


class SlowChunkStorage(WrappedChunkStorage):
    """Delegates everything to ``inner``, and takes the time that ``slowness`` says.

    A listing takes it once, when it is asked for its first chunk. ``close`` takes none.

    Attributes:
        slowness: may be replaced at any time.

    Args:
        inner: closed by ``close``.
        environment: gives randomness and the waits.
        slowness: see above.
    """

    def __init__(self, inner: ChunkStorage, environment: Environment, slowness: Slowness) -> None:
        super().__init__(inner)
        self._environment = environment
        self.slowness = slowness

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        super().create(name, buffers)
        self._pause(sum(map(len, buffers)) / self.slowness.rate)

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        """``create_from`` of ``optional_verbs``."""
        super().create_from(name, length, pieces)
        self._pause(length / self.slowness.rate)

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``create_whole`` of ``optional_verbs``."""
        super().create_whole(name, buffers)
        self._pause(sum(map(len, buffers)) / self.slowness.rate)

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        super().write(name, offset, buffers)
        self._pause(sum(map(len, buffers)) / self.slowness.rate)

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``."""
        count = super().read_into(name, offset, buffer)
        self._pause(len(buffer) / self.slowness.rate)
        return count

    def _call(self, operation: str, name: str, action: Callable[[], T]) -> T:
        how, chance = self.slowness, self._environment.random
        spread_s = how.latency_s + how.jitter_s * chance() if how.jitter_s else how.latency_s
        stall_s = how.stall_s if how.stalls and chance() < how.stalls else 0.0
        self._pause(spread_s / 2 + stall_s)
        result = action()
        self._pause(spread_s / 2)
        return result

    def _pause(self, seconds: float) -> None:
        if seconds:
            self._environment.pause(seconds)
