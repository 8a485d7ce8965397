"""Work that a coroutine leaves to the thread that waits for it.

A job runs on its caller's thread, where an interrupt ends it. What asks for the job in the middle
of its own steps runs on the loop of a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from siltstone.core.errors import ClosedError

T = TypeVar("T")

_WAIT_S: Final = 1.0
"""A signal that comes just before a thread begins to wait is seen only when that wait ends."""


class _Request(NamedTuple):
    """A call, and where its answer goes."""

    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class CallersThread:
    """Makes calls of one coroutine on the thread that waits for it."""

    def __init__(self) -> None:
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()

    async def run(self, call: Callable[[], T]) -> T:
        """Return what a call gives that ``wait_for`` makes. For the coroutine."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._requests.put(_Request(call, loop, answer))
        return await answer

    def wait_for(self, work: Future[T]) -> T:
        """Wait for the coroutine, and make its calls. What interrupts it cancels the coroutine.

        Raises what the coroutine raises, and ``ClosedError`` when its loop was closed.
        """
        work.add_done_callback(lambda _: self._requests.put(None))
        try:
            while (request := self._next()) is not None:
                self._answer(request)
            return work.result()
        except CancelledError as error:
            raise ClosedError("the store was closed during the call") from error
        except BaseException:
            work.cancel()
            raise

    def _next(self) -> _Request | None:
        while True:
            try:
                return self._requests.get(timeout=_WAIT_S)
            except Empty:
                continue

    def _answer(self, request: _Request) -> None:
        result, failure = None, None
        try:
            result = request.call()
        except Exception as error:  # noqa: BLE001 - raised in the coroutine
            failure = error
        try:
            request.loop.call_soon_threadsafe(_settle, request.answer, result, failure)
        except RuntimeError:
            return  # the loop was closed, and the coroutine ended with it


def _settle(answer: asyncio.Future[Any], result: object, failure: Exception | None) -> None:
    if answer.done():
        return  # cancelled
    if failure is None:
        answer.set_result(result)
    else:
        answer.set_exception(failure)
