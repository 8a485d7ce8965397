"""An event loop on a thread of its own, for callers that block."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from siltstone.core.errors import ClosedError, StoreError
from siltstone.core.open_files import is_lack, way_out, with_descriptor
from siltstone.core.pool_threads import is_left
from siltstone.store.blocking.read_thread import SecondThread
from siltstone.store.handles.unpicklable import LivingHandle

T = TypeVar("T")

BATCH_COUNT: Final = 256
"""Items that an iterator takes at a time: a change of threads costs more than an item."""

WAIT_S: Final = 1.0
"""A signal that comes just before a thread begins to wait is seen only when that wait ends."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop, if that is installed, else one of asyncio.

    Raises:
        StoreError: this process has no descriptors for it.
    """
    try:
        return with_descriptor(_new_event_loop)
    except OSError as error:
        if not is_lack(error):
            raise
        raise StoreError(f"too many open files; {way_out()}") from error


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def awaited(call: Callable[[], Awaitable[T]]) -> T:
    """Call what returns a future, which only the loop's own thread may do, and wait for it."""
    return await call()


class BackgroundLoop(LivingHandle):
    """Runs coroutines of any thread on one loop. Thread-safe; useless in a forked child.

    The first one starts its thread, so that a caller interrupted meanwhile has it to close.

    Args:
        name: of the thread.

    Attributes:
        second: a thread that helps callers who need no loop.
    """

    def __init__(self, name: str = "siltstone-loop") -> None:
        self._pid = os.getpid()
        self._loop = new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        self.second = SecondThread(f"{name}-second")
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._ident: int | None = None
        self._begun = False

    def _serve(self) -> None:
        self._ident = threading.get_ident()
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(_drain())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made the loop, so that nothing runs it."""
        return os.getpid() != self._pid

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``work`` on the loop.

        Raises:
            ClosedError: the loop was closed, or this is a forked child.
        """
        try:
            self.check_caller()
        except BaseException:
            work.close()
            raise
        with self._lock:
            if self._closed or sys.is_finalizing():
                work.close()
                raise ClosedError("the store was closed")
            if not self._begun:
                self._begin(work)
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        self._begun = True  # ahead, since the thread may run although its start is interrupted
        try:
            self._thread.start()
        except BaseException as error:
            work.close()
            self._begun = not isinstance(error, RuntimeError)  # there are too many threads
            raise

    def check_caller(self) -> None:
        """Refuse a blocking call that this thread, or this process, cannot make.

        Raises:
            ClosedError: this is a forked child.
            RuntimeError: this is the loop's own thread.
        """
        if os.getpid() != self._pid:
            raise ClosedError(
                "the store was opened before a fork: spawn the process, and open it there"
            )
        if threading.get_ident() == self._ident:
            raise RuntimeError("a blocking call on the store's own loop would wait for itself")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop and wait for its result; an interrupt cancels it.

        Raises what ``submit`` and the work raise, and ``ClosedError`` too when the process is
        ending: a call at that time comes too late.
        """
        future = self.submit(work)
        try:
            while True:
                try:
                    return future.result(WAIT_S)
                except TimeoutError:  # of this wait, or what the work itself raised
                    if future.done():
                        return future.result()
                    self._check_left()
        except CancelledError as error:
            raise ClosedError("the store was closed during the call") from error
        except BaseException:
            future.cancel()
            raise

    def _check_left(self) -> None:
        # Other threads that still wait are ended with the process, without a word.
        if is_left(self._loop) and threading.current_thread() is threading.main_thread():
            raise ClosedError("the process ends, and the store was not closed before that")

    def iterate(
        self, make: Callable[[], AsyncIterator[T]], *, batch: int = BATCH_COUNT
    ) -> Iterator[T]:
        """Yield what an asynchronous iterator yields, taking up to ``batch`` items at a time."""
        source = _Source(make())
        try:
            while True:
                items, error = self.run(source.take(batch))
                yield from items
                if error is not None:
                    raise error
                if len(items) < batch:
                    return
        finally:
            if not self._closed and not self.forked:
                self.run(source.end())

    def close(self) -> None:
        """End the loop; calls in progress raise ``ClosedError``. Idempotent."""
        with self._lock:
            if self._closed or self.forked:
                self._closed = True
                return
            self._closed = True
        if is_left(self._loop):  # its thread may wait for ever, and ends with the process
            return
        if self._begun:
            self._loop.call_soon_threadsafe(self._loop.stop)
            with suppress(RuntimeError):  # its start was interrupted; it ends by itself
                self._thread.join()
        else:
            self._loop.close()
        self.second.close()


class _Source(Generic[T]):
    """An asynchronous iterator that is asked from another thread. Used on the loop only."""

    def __init__(self, items: AsyncIterator[T]) -> None:
        self._items = items
        self._taking: asyncio.Task[Any] | None = None

    async def take(self, count: int) -> tuple[list[T], Exception | None]:
        """Return the next items and, if fewer than ``count`` came, the error that ended them."""
        self._taking = asyncio.current_task()
        items: list[T] = []
        try:
            for _ in range(count):
                items.append(await anext(self._items))  # noqa: PERF401 - must survive an error
        except StopAsyncIteration:
            return items, None
        except Exception as error:  # noqa: BLE001 - raised in the caller's thread, after its items
            return items, error
        return items, None

    async def end(self) -> None:
        """Close the iterator, after a ``take`` that its caller left and that may still run."""
        if self._taking is not None and not self._taking.done():
            if not self._taking.cancelling():  # a second time would cut its way out short
                self._taking.cancel()
            await asyncio.wait([self._taking])
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()


async def _drain() -> None:
    """Cancel what still runs, so that no caller waits for ever."""
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
