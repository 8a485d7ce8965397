"""Calls whose end is always waited for, and whose result is never lost, unless they hang."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

from siltstone.core.environment import Environment, Pool
from siltstone.core.storage.late_work import finish, forget, in_time

T = TypeVar("T")

logger = logging.getLogger(__name__)

CLOSE_S: Final = 30.0
"""How long what is closed may take: the local index may have much in memory to write."""

CANCELLED_S: Final = 10.0
"""How long a cancelled caller waits: these calls work on a local disk, and end before."""


def keep(_: object) -> None:
    """Undo nothing."""


class _Whole(Generic[T]):
    """A call that undoes its own effect when its caller has left."""

    def __init__(self, call: Callable[[], T], undo: Callable[[T], None]) -> None:
        self._call = call
        self._undo = undo
        self._lock = threading.Lock()
        self._is_left = False
        self._is_made = False

    def run(self) -> T:
        """Make the call; on its thread."""
        result = self._call()
        with self._lock:
            self._is_made = not self._is_left
        if not self._is_made:
            self._undo(result)
        return result

    def leave(self) -> bool:
        """Say that the caller does not wait any more; false if the call was made just now."""
        with self._lock:
            self._is_left = not self._is_made
        return self._is_left


async def run_whole(
    environment: Environment,
    pool: Pool,
    call: Callable[[], T],
    undo: Callable[[T], None] = keep,
) -> T:
    """Run ``call`` on a thread. A cancelled caller waits for its end, so no later call meets it.

    It waits for ``CANCELLED_S`` at most: a call that ends after that is undone on its own thread.

    Args:
        environment: gives the thread.
        pool: of which pool.
        call: what is run.
        undo: frees what a cancelled caller does not get; run on a thread as well.
    """
    whole = _Whole(call, undo)
    work = asyncio.ensure_future(environment.run_blocking(pool, whole.run))
    try:
        await asyncio.wait([work])
        return work.result()
    except asyncio.CancelledError:
        await _left(whole, work)
        if work.done() and not work.cancelled() and work.exception() is None:
            await run_whole(environment, pool, partial(undo, work.result()))
        raise


async def _left(whole: _Whole[T], work: asyncio.Future[T]) -> None:
    """Wait for a call whose caller is cancelled, or leave it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + CANCELLED_S
    while not work.done() and loop.time() < until:
        with suppress(asyncio.CancelledError):  # it is on its way out already
            await asyncio.wait([work], timeout=until - loop.time())
    if not work.done() and whole.leave():
        work.add_done_callback(forget)
        return
    while not work.done():  # it was made just now
        with suppress(asyncio.CancelledError):
            await asyncio.wait([work])


class WholeClose:
    """A closing that continues to its end although the caller that asked for it is cancelled."""

    def __init__(self) -> None:
        self._work: asyncio.Task[None] | None = None

    async def run(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Close, and raise what that raises; a caller that asks again only waits for the end."""
        if self._work is None:
            self._work = asyncio.create_task(close())
            await finish(self._work)
        else:
            await asyncio.wait([self._work])


async def closed_in_time(
    environment: Environment, pool: Pool, close: Callable[[], object], what: str
) -> None:
    """Close something on a thread, or leave it if that hangs: then it goes with the process."""
    work = asyncio.ensure_future(environment.run_blocking(pool, close))
    if not await in_time(work, CLOSE_S):
        logger.warning("%s could not be closed within %.0f s", what, CLOSE_S)
