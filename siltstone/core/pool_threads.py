"""Threads for blocking calls that an event loop awaits; each call costs two wake-ups, little else.

``run_in_executor`` hands a result on through two futures, one of them with locks of its own. That
takes as much of the processor as all else that a small append needs apart from its sync.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any, Final, TypeVar
from weakref import WeakSet

from siltstone.core.bounded_calls import END_S, within

T = TypeVar("T")

EVER_S: Final = 1e6
"""Longer than any process takes to end."""

_LEFT: Final[WeakSet[asyncio.AbstractEventLoop]] = WeakSet()
"""Loops of which the end of the process left a call unmade."""

_Job = tuple[Callable[[], Any], asyncio.Future[Any], asyncio.AbstractEventLoop]


def is_left(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the end of the process left a call of ``loop`` unmade: what waits may never end."""
    return loop in _LEFT


class PoolThreads:
    """Threads that are made when they are needed, and used again. Thread-safe.

    The code that makes one closes it; otherwise the end of the process does. Both wait for the
    calls in progress, but not for ever: one that hangs keeps neither a store from being closed nor
    a process from ending.

    Args:
        name: what the names of the threads begin with.
        threads: most of them, and so most calls at a time; others wait in their order.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._threads_max = threads
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._is_closed = False
        self._process_ends = False
        self._process = os.getpid()
        # Threads that block the end of the process would wait for ever for what was never closed.
        atexit.register(self._end)

    def run(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run ``call`` on a thread; the running loop's future gets what it returns or raises.

        A future that is cancelled frees its caller. The call is made nevertheless. At the end of
        the process no call is made any more, and its future never ends, as if the process had been
        killed there: an error would be told, and dealt with, by loops that were never stopped,
        while the interpreter is taken down around them. ``is_left`` tells of it.

        Raises:
            RuntimeError: it is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._lock:
            if self._process_ends:
                _LEFT.add(loop)
                # The loop's own thread keeps it, and so nothing that waits for it is taken down.
                loop.call_later(EVER_S, future.cancel)
                return future
            if self._is_closed:
                raise RuntimeError("the threads were ended")
            if self._idle:
                self._idle -= 1
            elif len(self._threads) < self._threads_max:
                self._start()
            self._jobs.put((call, future, loop))
        return future

    def close(self, left_s: Callable[[], float] | None = None) -> None:
        """End the threads when all calls are made, and wait for that for a time. Idempotent.

        A call that takes longer continues, and its thread ends with it or with the process.

        Args:
            left_s: how many seconds are left of that time; ``None`` means ``END_S`` from now on.
        """
        if os.getpid() != self._process:
            return  # a fork does not copy the threads, and one of them may hold the lock
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                for _ in self._threads:
                    self._jobs.put(None)
        left_s = left_s or within(END_S)
        for thread in self._threads:
            thread.join(max(0.0, left_s()))
        atexit.unregister(self._end)

    def _end(self) -> None:
        self._process_ends = True
        self.close(_end_of_process())

    def _start(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future, loop = job
            result = error = None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001 - the caller that awaits it is told
                error = raised
            with self._lock:
                # Of calls that waited all threads are there, so none is missed if this is too many.
                self._idle += 1
            with suppress(RuntimeError):  # the loop was closed, so nothing waits
                loop.call_soon_threadsafe(_tell, future, result, error)
            # A thread that waits keeps nothing alive, neither buffers nor what an error has seen.
            del job, call, future, loop, result, error


def _tell(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


@cache
def _end_of_process() -> Callable[[], float]:
    """How long the end of this process waits: for all pools together."""
    return within(END_S)
