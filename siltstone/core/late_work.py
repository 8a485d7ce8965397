"""Waiting for work that goes on even when nobody waits any more."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def done_or_late(
    loop: asyncio.AbstractEventLoop, work: asyncio.Future[T], deadline: float
) -> None:
    """Wait for the end of ``work`` or for the deadline, whichever is first."""
    waiter: asyncio.Future[None] = loop.create_future()

    def release(_: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_at(deadline, release)
    work.add_done_callback(release)
    try:
        await waiter
    finally:
        timer.cancel()
        work.remove_done_callback(release)
