"""Back-pressure: a bound on the bytes that are only in tier 1; waiters keep their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from siltstone.core.errors import BackPressureError


class Pressure:
    """Counts unflushed bytes and lets callers wait for room.

    Attributes:
        open: whether a caller may go on without waiting; read on the hot path.
        held_bytes: bytes that are counted at the moment.
        on_bound: called whenever the bound is reached.
    """

    __slots__ = ("_bound", "_deadline_s", "_waiters", "held_bytes", "on_bound", "open")

    def __init__(self, *, bound: int, deadline_s: float) -> None:
        self._bound = bound
        self._deadline_s = deadline_s
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.held_bytes = 0
        self.open = True
        self.on_bound: Callable[[], None] = lambda: None

    @property
    def over(self) -> bool:
        """Whether more bytes are held than should be, or somebody waits."""
        return self.held_bytes >= self._bound or bool(self._waiters)

    def add(self, count: int) -> None:
        """Count bytes that were admitted."""
        self.held_bytes += count
        self._settle()

    def release(self, count: int) -> None:
        """Bytes were flushed or dropped: admit who waits, first in, first out."""
        self.held_bytes -= count
        assert self.held_bytes >= 0, "more bytes released than were held"
        while self._waiters and self.held_bytes < self._bound:
            size, future = self._waiters.popleft()
            if not future.done():
                self.held_bytes += size
                future.set_result(None)
        self._settle()

    def fail(self, error: BaseException) -> None:
        """Let every waiter fail."""
        while self._waiters:
            _, future = self._waiters.popleft()
            if not future.done():
                future.set_exception(error)
        self._settle()

    async def admit(self, count: int) -> None:
        """Wait until ``count`` bytes may be added, and count them.

        Raises:
            BackPressureError: the deadline passed; nothing was counted.
        """
        if self.open:
            self.add(count)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((count, future))
        self._settle()
        try:
            async with asyncio.timeout(self._deadline_s):
                await future
        except TimeoutError as error:
            self._withdraw(count, future)
            raise BackPressureError(
                "unflushed bytes stay at their bound",
                bound=self._bound,
                deadline_s=self._deadline_s,
            ) from error
        except asyncio.CancelledError:
            self._withdraw(count, future)
            raise

    def _withdraw(self, count: int, future: asyncio.Future[None]) -> None:
        granted = future.done() and not future.cancelled() and future.exception() is None
        self._waiters = deque(entry for entry in self._waiters if entry[1] is not future)
        if granted:
            self.release(count)
        self._settle()

    def _settle(self) -> None:
        was_open = self.open
        self.open = self.held_bytes < self._bound and not self._waiters
        if was_open and not self.open:
            self.on_bound()
