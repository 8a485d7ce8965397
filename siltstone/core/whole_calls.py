"""Calls whose end somebody always waits for, and whose result nobody loses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from siltstone.core.environment import Environment, Pool
from siltstone.core.threads import finish

T = TypeVar("T")


def keep(_: object) -> None:
    """Undo nothing."""


async def run_whole(
    environment: Environment, pool: Pool, call: Callable[[], T], undo: Callable[[T], None] = keep
) -> T:
    """Run ``call`` on a thread. A cancelled caller waits for its end, so nobody meets it later.

    Args:
        environment: gives the thread.
        pool: of which pool.
        call: what is run.
        undo: frees what a cancelled caller does not get; run on a thread as well.
    """
    work = asyncio.ensure_future(environment.run_blocking(pool, call))
    try:
        return await finish(work)
    except asyncio.CancelledError:
        if work.done() and not work.cancelled() and work.exception() is None:
            await run_whole(environment, pool, partial(undo, work.result()))
        raise


class WholeClose:
    """A closing that goes on to its end although who asked for it is cancelled."""

    def __init__(self) -> None:
        self._work: asyncio.Task[None] | None = None

    async def run(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close, and raise what that raises; whoever asks again only waits for the end."""
        if self._work is None:
            self._work = asyncio.create_task(close())
            await finish(self._work)
        else:
            await asyncio.wait([self._work])
