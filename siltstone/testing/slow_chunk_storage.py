"""A chunk storage that takes time, as a service at the other end of a link does.

The time comes from the environment's clock and chance: on virtual time a test plays hours of it
from a seed, and a benchmark waits for real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from siltstone.core.chunk_care import delete_many, sweep_leftovers
from siltstone.core.chunk_storage import Buffer, Capabilities, ChunkStat, ChunkStorage
from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """How long a call takes.

    Attributes:
        latency_s: seconds that every call takes at least, half of them before its effect.
        jitter_s: up to so many more, evenly spread.
        stalls: share of the calls, from 0 to 1, that take ``stall_s`` more.
        stall_s: see above; paid before the effect.
        rate: bytes a second of one call; calls beside each other do not share it.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    stalls: float = 0.0
    stall_s: float = 0.0
    rate: float = float("inf")


class SlowChunkStorage:
    """Delegates everything to ``inner``, and takes the time that ``slowness`` says.

    A listing takes it once, when it is asked for its first chunk. ``close`` takes none.

    Attributes:
        slowness: may be replaced at any time.

    Args:
        inner: closed by ``close``.
        environment: gives chance and the waits.
        slowness: see above.
    """

    def __init__(self, inner: ChunkStorage, environment: Environment, slowness: Slowness) -> None:
        self._inner = inner
        self._environment = environment
        self.slowness = slowness

    @property
    def capabilities(self) -> Capabilities:
        """Those of ``inner``."""
        return self._inner.capabilities

    def create(self, name: str, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.create``."""
        self._call(lambda: self._inner.create(name, buffers), sum(map(len, buffers)))

    def write(self, name: str, offset: int, buffers: Sequence[Buffer]) -> None:
        """``ChunkStorage.write``."""
        self._call(lambda: self._inner.write(name, offset, buffers), sum(map(len, buffers)))

    def read_into(self, name: str, offset: int, buffer: memoryview | bytearray) -> int:
        """``ChunkStorage.read_into``."""
        return self._call(lambda: self._inner.read_into(name, offset, buffer), len(buffer))

    def stat(self, name: str) -> ChunkStat:
        """``ChunkStorage.stat``."""
        return self._call(lambda: self._inner.stat(name))

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        """``ChunkStorage.list``."""
        listing = self._inner.list(prefix, start_after)

        def listed() -> Iterator[ChunkStat]:
            yield from self._call(lambda: listing)

        return listed()

    def delete(self, name: str) -> None:
        """``ChunkStorage.delete``."""
        self._call(lambda: self._inner.delete(name))

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        """``delete_many`` of ``chunk_care``, one call."""
        return self._call(lambda: delete_many(self._inner, names))

    def sweep_leftovers(self, prefix: str, age_s: float) -> int:
        """``sweep_leftovers`` of ``chunk_care``."""
        return self._call(lambda: sweep_leftovers(self._inner, prefix, age_s))

    def concat(self, target: str, sources: Sequence[tuple[str, int]]) -> None:
        """``ChunkStorage.concat``; the service moves its bytes by itself."""
        self._call(lambda: self._inner.concat(target, sources))

    def seal(self, name: str) -> None:
        """``ChunkStorage.seal``."""
        self._call(lambda: self._inner.seal(name))

    def used_space(self) -> int:
        """``ChunkStorage.used_space``."""
        return self._call(self._inner.used_space)

    def free_space(self) -> int:
        """``ChunkStorage.free_space``."""
        return self._call(self._inner.free_space)

    def close(self) -> None:
        """``ChunkStorage.close``."""
        self._inner.close()

    def _call(self, action: Callable[[], T], length: int = 0) -> T:
        how, chance = self.slowness, self._environment.random
        spread_s = how.latency_s + how.jitter_s * chance() if how.jitter_s else how.latency_s
        stall_s = how.stall_s if how.stalls and chance() < how.stalls else 0.0
        self._pause(spread_s / 2 + stall_s)
        result = action()
        self._pause(spread_s / 2 + length / how.rate)
        return result

    def _pause(self, seconds: float) -> None:
        if seconds:
            self._environment.pause(seconds)
