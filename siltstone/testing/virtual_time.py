"""A world on virtual time: a whole container runs in it without sleeping, and repeats from a seed.

The loop never waits: when nothing can run it jumps to the next timer. Blocking calls run inline, as
one step of the loop, after and before a pause that the seed chooses, so that other work comes in
between as it would with threads. What is not played: a call that is interrupted in its middle.
"""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - this is where chance comes from a seed
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from siltstone.core.environment import Pool

T = TypeVar("T")

START_S = 1_700_000_000.0
"""Seconds since 1970 when a world begins."""

RESOLUTION_S = 1e-6

Latency = Callable[[Pool, random.Random], float]
"""Seconds that a blocking call of a pool takes, half before it has its effect and half after."""


def instant(pool: Pool, chance: random.Random) -> float:
    """The latency of calls that take no time."""
    return 0.0


def jittered(most_s: float) -> Latency:
    """Return the latency of calls that take up to ``most_s``, most of them much less."""
    return lambda pool, chance: most_s * chance.random() ** 3


class Clock:
    """The time of one world.

    Attributes:
        now: seconds since it began.
    """

    def __init__(self) -> None:
        self.now = 0.0


class _Selector(selectors.DefaultSelector):
    """A selector that lets the time pass instead of waiting."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found:
            return found
        if timeout is None:
            raise RuntimeError("virtual time stands still: every task waits and no timer is set")
        self._clock.now += max(0.0, timeout)
        return []


class _Task(asyncio.Task[Any]):
    """A task whose place in a set is the same in every run of a seed."""

    def __init__(self, number: int, coroutine: Coroutine[Any, Any, Any], **choices: Any) -> None:
        self._number = number
        super().__init__(coroutine, **choices)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of a ``Clock``."""

    def __init__(self, clock: Clock) -> None:
        self._virtual_clock = clock
        self._tasks_made = 0
        super().__init__(_Selector(clock))
        # Timers are due within this of their time: sums of seconds are not exact.
        self._clock_resolution = RESOLUTION_S
        self.set_task_factory(self._new_task)

    def time(self) -> float:
        """Seconds since the world began."""
        return self._virtual_clock.now

    def _new_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Any,
        *,
        context: Context | None = None,
        **choices: Any,
    ) -> _Task:
        self._tasks_made += 1
        return _Task(self._tasks_made, coroutine, loop=loop, context=context, **choices)


class VirtualEnvironment:
    """An ``Environment`` whose time, randomness, ids and threads come from one seed.

    Attributes:
        clock: the time; several environments may share one.
        latency: what blocking calls cost; may be replaced at any time. An infinite one hangs the
            call for ever, before it has its effect.

    Args:
        seed: what the random numbers begin with.
        latency: see above.
        clock: a clock to share.
    """

    def __init__(
        self, seed: int = 0, *, latency: Latency = instant, clock: Clock | None = None
    ) -> None:
        self.clock = clock or Clock()
        self.latency = latency
        self._chance = random.Random(seed)
        self._limits: dict[Pool, asyncio.Semaphore] = {}
        self._calls: set[asyncio.Task[Any]] = set()

    def runner(self) -> asyncio.Runner:
        """A runner whose loop lives on this environment's time. One at a time."""
        return asyncio.Runner(loop_factory=lambda: VirtualLoop(self.clock))

    def time(self) -> float:
        """Seconds since 1970."""
        return START_S + self.clock.now

    def monotonic(self) -> float:
        """Seconds since the world began."""
        return self.clock.now

    async def sleep(self, seconds: float) -> None:
        """Wait for that much virtual time."""
        await asyncio.sleep(seconds)

    def pause(self, seconds: float) -> None:
        """Let the time pass: a blocking call runs inline, so the whole world waits with it."""
        self.clock.now += seconds

    def random_bytes(self, count: int) -> bytes:
        """The next bytes of the seed."""
        return self._chance.randbytes(count)

    def uuid(self) -> bytes:
        """The next sixteen bytes of the seed."""
        return self._chance.randbytes(16)

    def random(self) -> float:
        """The next number of the seed in [0, 1)."""
        return self._chance.random()

    async def run_blocking(self, pool: Pool, call: Callable[[], T]) -> T:
        """Run ``call`` inline, at most ``pool.threads`` of a pool at a time, first come first."""
        work = asyncio.create_task(self._run(pool, call))
        self._calls.add(work)
        work.add_done_callback(self._forget)
        return await asyncio.shield(work)

    async def _run(self, pool: Pool, call: Callable[[], T]) -> T:
        limit = self._limits.get(pool)
        if limit is None:
            limit = self._limits[pool] = asyncio.Semaphore(pool.threads)
        async with limit:
            pause_s = self.latency(pool, self._chance) / 2
            if pause_s == float("inf"):
                await asyncio.get_running_loop().create_future()
            if pause_s:
                await asyncio.sleep(pause_s)
            result = call()
            if pause_s:
                await asyncio.sleep(pause_s)
            return result

    def _forget(self, work: asyncio.Task[Any]) -> None:
        self._calls.discard(work)
        if not work.cancelled():
            work.exception()

    def close(self) -> None:
        """End nothing: calls in progress end with their loop."""
