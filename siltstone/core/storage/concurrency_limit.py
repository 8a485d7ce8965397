"""The concurrency limit of a service: fewer calls in flight while it asks for fewer, then more.

The rule is that of networks, additive increase and multiplicative decrease. So owners that share a
service and know nothing of one another come to fair shares of what it takes.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """A semaphore whose bound moves between 1 and ``most``. First come, first served; loop only.

    Attributes:
        most: the bound while the service throttles nothing; at least 1.
    """

    __slots__ = ("_cut_at", "_held", "_limit", "_waiters", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._limit = float(most)
        self._held = 0
        self._cut_at = float("-inf")
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """How many may be held now."""
        return int(self._limit)

    async def acquire(self, until: float | None = None) -> None:
        """Take a slot, once the earlier callers have theirs; by ``until`` on the loop's clock.

        Raises:
            TimeoutError: it was not free in time.
        """
        if not self._waiters and self._held < self.limit:
            self._held += 1
            return
        async with asyncio.timeout_at(until):
            await self._wait()

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # it was given and its owner cancelled in the same step
            elif waiter in self._waiters:
                self._waiters.remove(waiter)  # else ``_wake`` passed over it in the same step
            raise

    def release(self) -> None:
        """Give a slot back."""
        self._held -= 1
        self._wake()

    def throttled(self, begun_s: float, now_s: float) -> None:
        """The service refused a call that began at ``begun_s`` because it gets too many.

        What began before the last cut tells of the bound before it, and cuts no further.
        """
        if begun_s >= self._cut_at:
            self._cut_at = now_s
            self._limit = max(1.0, self._limit / 2)

    def answered(self) -> None:
        """The service served a call, which still has its slot.

        As many as may be in flight raise the bound by one, if they are in flight: what a service
        that is asked little would take is unknown.
        """
        if self._held >= self.limit:
            self._limit = min(float(self.most), self._limit + 1 / self._limit)
            self._wake()

    def _wake(self) -> None:
        while self._waiters and self._held < self.limit:
            waiter = self._waiters.popleft()
            if not waiter.done():
                self._held += 1
                waiter.set_result(None)
