"""Waiting for work that continues even when no caller waits any more."""

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


async def finish(work: asyncio.Future[T]) -> T:
    """Wait for ``work`` although the caller is cancelled meanwhile, then cancel the caller."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not work.cancelled():
            work.exception()
        raise cancelled
    return work.result()


async def in_time(work: asyncio.Future[T], seconds: float) -> bool:
    """Wait this long for ``work``; raise its error, or say whether it has ended.

    Work that has not ended continues, and its result is dropped.
    """
    try:
        await asyncio.wait([work], timeout=seconds)
    finally:
        if not work.done():
            work.add_done_callback(forget)
    if work.done():
        work.result()
        return True
    return False


def forget(work: asyncio.Future[T]) -> None:
    """Take the error of what ended, so that asyncio does not print it."""
    if not work.cancelled():
        work.exception()
