"""Calls to the tier-1 log of an owner, which hang when its disk does.

A call that hangs is awaited: only its end tells whether a frame is durable. But a container that is
to be closed does not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from siltstone.core.environment import Environment, own_pool
from siltstone.core.errors import LogError

T = TypeVar("T")

PATIENCE_S: Final = 30.0
"""A container that is being closed waits this long for one call: a slow disk ends it before."""


class LogCalls:
    """The calls of one owner, one at a time, in their order.

    Args:
        environment: gives time and the thread.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._pool = own_pool("log", 1)
        self._begun: dict[asyncio.Future[Any], float] = {}
        self._is_given_up = False

    async def run(self, call: Callable[[], T]) -> T:
        """Make a call after those before it, and raise what it raises.

        Raises:
            LogError: it hangs, and was given up.
        """
        if self._is_given_up:
            raise _silent()
        work = asyncio.ensure_future(self._environment.run_blocking(self._pool, call))
        self._begun[work] = self._environment.monotonic()
        try:
            return await work
        except asyncio.CancelledError:
            if self._is_given_up:
                raise _silent() from None
            raise
        finally:
            del self._begun[work]

    async def wait(self, work: asyncio.Future[Any]) -> None:
        """Wait for what ends this owner; give the log up when a call to it hangs meanwhile."""
        while not work.done():
            await asyncio.wait([work], timeout=PATIENCE_S / 2)
            now = self._environment.monotonic()
            if any(now - begun >= PATIENCE_S for begun in self._begun.values()):
                self._is_given_up = True
                for call in list(self._begun):
                    call.cancel()


def _silent() -> LogError:
    return LogError("tier 1 does not answer", seconds=PATIENCE_S)
