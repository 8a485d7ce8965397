"""Time, randomness, ids and threads: everything that a run of the store takes from outside.

Nothing in core, journal, metadata and container calls a clock, a random source or a thread but
through an ``Environment``, so a whole store runs on virtual time and repeats from a seed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from siltstone.core.bounded_calls import END_S, within
from siltstone.core.pauses import current_stop
from siltstone.core.pool_threads import PoolThreads

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A named set of threads for blocking calls: one a binding, one a log, one an index.

    Attributes:
        name: appears in thread names; equal pools share threads.
        threads: most calls at a time.
    """

    name: str
    threads: int


_POOL_NUMBERS = itertools.count(1)


def own_pool(prefix: str, threads: int) -> Pool:
    """Return a pool that is equal to no other of this process, also after its owner has ended.

    An environment keeps the threads of a pool until it closes. With a name that returns, as
    ``id`` does, a new owner could get the one thread that an old one left in a call that hangs.
    """
    return Pool(name=f"{prefix}-{next(_POOL_NUMBERS)}", threads=threads)


class Environment(Protocol):
    """What the world gives. Safety never depends on ``time``; it only postpones deletes."""

    def time(self) -> float:
        """Seconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back; the running loop's own."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait, at least 0 seconds."""
        ...

    def pause(self, seconds: float) -> None:
        """Let the thread of a blocking call wait, at least 0 seconds. Never on the loop itself."""
        ...

    def random_bytes(self, count: int) -> bytes:
        """Bytes that cannot be predicted."""
        ...

    def uuid(self) -> bytes:
        """Sixteen bytes that were never used before."""
        ...

    def random(self) -> float:
        """A number in [0, 1), for jitter only."""
        ...

    def run_blocking(self, pool: Pool, call: Callable[[], T]) -> Awaitable[T]:
        """Run ``call`` on a thread of ``pool``; awaiting gives its result.

        Cancelling frees the caller at once; the call itself continues. A caller that must know its
        end waits for the task (``late_work.finish``).
        """
        ...

    def close(self) -> None:
        """End the threads. Calls in progress are waited for, but for those that hang."""
        ...


class SystemEnvironment:
    """The real world."""

    def __init__(self) -> None:
        self._pools: dict[Pool, PoolThreads] = {}
        self._lock = threading.Lock()

    def time(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running loop."""
        await asyncio.sleep(seconds)

    def pause(self, seconds: float) -> None:
        """Wait on the calling thread.

        Raises:
            StoppedError: a ``Stop`` began its work, and was set.
        """
        stop = current_stop()
        if stop is None:
            time.sleep(seconds)
        else:
            stop.pause(seconds)

    def random_bytes(self, count: int) -> bytes:
        """Bytes of the system's random source."""
        return os.urandom(count)

    def uuid(self) -> bytes:
        """The bytes of a random uuid."""
        return uuid.uuid4().bytes

    def random(self) -> float:
        """A number in [0, 1)."""
        return int.from_bytes(os.urandom(7), "big") / 2**56

    def run_blocking(self, pool: Pool, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run ``call`` on a thread of the pool."""
        with self._lock:
            threads = self._pools.get(pool)
            if threads is None:
                threads = self._pools[pool] = PoolThreads(pool.name, pool.threads)
        return threads.run(call)

    def close(self) -> None:
        """End the threads of all pools, within ``END_S``."""
        with self._lock:
            pools, self._pools = list(self._pools.values()), {}
        left_s = within(END_S)
        for threads in pools:
            threads.close(left_s)
