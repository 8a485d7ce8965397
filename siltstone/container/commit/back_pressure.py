"""Back-pressure: a bound on the bytes that are only in tier 1, and a throttle on the way to it.

Waiters keep their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from siltstone.core.constants import KIB
from siltstone.core.errors import BackPressureError, SiltstoneError


class _Waiter(NamedTuple):
    """A waiter: for how many bytes, how it is told, since when on the loop's clock."""

    size: int
    future: asyncio.Future[None]
    since_s: float


SEGMENT_BYTES = 4 * KIB
"""About how much memory a segment with unflushed bytes takes in addition to them."""

SEGMENTS_MIN = 1_000
"""This many of them are let in under any bound."""


class Pressure:
    """Counts unflushed bytes and lets callers wait for room, or for a time when throttled.

    Args:
        bound: most bytes.
        deadline_s: how long a caller waits.
        segments: tells how many segments have such bytes. With more than one for each
            ``SEGMENT_BYTES`` of the bound, their state would take more memory than the bytes may.
        on_bound: called when there is no room.
        on_wait: called with the seconds that a caller waited before it continued.

    Attributes:
        open: whether a caller may continue without waiting; read on the hot path.
        held_bytes: bytes that are counted at the moment.
    """

    __slots__ = (
        "_bound",
        "_deadline_s",
        "_delay_s",
        "_on_bound",
        "_on_wait",
        "_refusal",
        "_segments",
        "_segments_max",
        "_timer",
        "_waiters",
        "held_bytes",
        "open",
    )

    def __init__(
        self,
        *,
        bound: int,
        deadline_s: float,
        segments: Callable[[], int] = lambda: 0,
        on_bound: Callable[[], None] = lambda: None,
        on_wait: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._bound = bound
        self._segments = segments
        self._segments_max = max(SEGMENTS_MIN, bound // SEGMENT_BYTES)
        self._deadline_s = deadline_s
        self._delay_s = 0.0
        self._refusal: Callable[[], SiltstoneError] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: deque[_Waiter] = deque()
        self.held_bytes = 0
        self.open = True
        self._on_bound = on_bound
        self._on_wait = on_wait

    @property
    def over(self) -> bool:
        """Whether more bytes are held than should be, or a caller waits."""
        return not self._has_room or (bool(self._waiters) and not self._delay_s)

    @property
    def pressed(self) -> bool:
        """Whether callers wait, or will soon: three quarters of the bound are held."""
        return not self.open or 4 * self.held_bytes >= 3 * self._bound

    @property
    def _has_room(self) -> bool:
        return self.held_bytes < self._bound and self._segments() < self._segments_max

    def add(self, count: int) -> None:
        """Count bytes that were admitted."""
        self.held_bytes += count
        self._settle()

    def release(self, count: int) -> None:
        """Bytes were flushed or dropped: admit waiters, first in, first out."""
        self.held_bytes -= count
        assert self.held_bytes >= 0, "more bytes released than were held"
        self._grant()
        self._settle()

    def throttle(self, delay_s: float) -> None:
        """From now on, hold each caller back for ``delay_s``, in their order; 0 holds none back."""
        if delay_s == self._delay_s:
            return
        self._delay_s = delay_s
        self._grant()
        self._settle()

    def refuse(self, refusal: Callable[[], SiltstoneError] | None) -> None:
        """Refuse all bytes from now on, those of waiters too; ``None`` refuses nothing any more."""
        self._refusal = refusal
        if refusal is not None:
            for waiter in self._waiters:
                if waiter.size and not waiter.future.done():
                    waiter.future.set_exception(refusal())
        self._grant()
        self._settle()

    def check(self) -> None:
        """Raise the error that bytes are refused with, if they are."""
        if self._refusal is not None:
            raise self._refusal()

    def fail(self, error: BaseException) -> None:
        """Let every waiter fail."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                waiter.future.set_exception(error)
        self._settle()

    async def admit(self, count: int) -> None:
        """Wait until ``count`` bytes may be added, and count them.

        Raises:
            BackPressureError: the deadline passed; nothing was counted.
            SafeModeError: bytes are refused; nothing was counted.
        """
        if count:
            self.check()
        if self.open:
            self.add(count)
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        since_s = loop.time()
        self._waiters.append(_Waiter(count, future, since_s))
        self._grant()
        self._settle()
        try:
            async with asyncio.timeout(self._deadline_s):
                await future
            self._on_wait(loop.time() - since_s)
        except TimeoutError as error:
            self._withdraw(count, future)
            raise BackPressureError(
                "unflushed bytes stay at their bound",
                bound=self._bound,
                segments=self._segments(),
                deadline_s=self._deadline_s,
            ) from error
        except asyncio.CancelledError:
            self._withdraw(count, future)
            raise

    def _withdraw(self, count: int, future: asyncio.Future[None]) -> None:
        granted = future.done() and not future.cancelled() and future.exception() is None
        self._waiters = deque(waiter for waiter in self._waiters if waiter.future is not future)
        if granted:
            self.release(count)
        self._settle()

    def _grant(self) -> None:
        """Admit, first in, first out, waiters that waited long enough and have room."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters and self._has_room:
            waiter = self._waiters[0]
            if not waiter.future.done():
                loop = waiter.future.get_loop()
                due = waiter.since_s + self._delay_s
                if self._delay_s and due > loop.time():
                    self._timer = loop.call_at(due, self._on_timer)
                    return
                self.held_bytes += waiter.size
                waiter.future.set_result(None)
            self._waiters.popleft()

    def _on_timer(self) -> None:
        self._timer = None
        self._grant()
        self._settle()

    @property
    def _holds_back(self) -> bool:
        return self._delay_s > 0 or self._refusal is not None

    def _settle(self) -> None:
        was_open = self.open
        self.open = self._has_room and not self._waiters and not self._holds_back
        if was_open and not self.open:
            self._on_bound()
