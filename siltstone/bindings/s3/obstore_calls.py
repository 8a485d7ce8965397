"""Calls of obstore that end for their caller in time, also when the library never answers.

They run on an event loop of ours, in a thread of its own. A caller waits for its call there, but no
longer than its limits; then the call is cancelled, and what is left of it is a task in the library
with its socket. Nothing of the caller's is ever given to the library to write to.

The library's threads hand their answers to the loop by a call of Python. One that is still in it
when the interpreter ends makes the whole process abort (PyO3/pyo3-async-runtimes#40), so the end of
a loop waits until they are out.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context
from typing import Any, Final, TypeVar, TypeVarTuple

from siltstone.bindings.s3.obstore_runtime import runtime
from siltstone.core.remote.deadline import Deadline, DeadlineError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Call = Callable[["Progress"], Coroutine[Any, Any, T]]
"""Asks the library; says when the answer begins."""
JOIN_S: Final = 1.0
"""An idle loop ends at once; a busy one when its calls do, and nothing has to wait for that."""
PAUSE_S: Final = 0.001


class Progress:
    """How far a call got.

    Attributes:
        has_begun: whether its answer began to arrive.
    """

    __slots__ = ("has_begun",)

    def __init__(self) -> None:
        self.has_begun = False


class _Loop(asyncio.SelectorEventLoop):
    """Knows which threads are handing something to it.

    Attributes:
        handing: their identifiers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.handing: set[int] = set()

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """See ``asyncio``."""
        me = threading.get_ident()
        self.handing.add(me)
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        finally:
            self.handing.discard(me)


class ObstoreCalls:
    """A loop and its thread, made for the first call. Thread-safe.

    Args:
        name: of the thread.
        silence_s: seconds within which an answer must begin; the library's own limit is shorter.
    """

    def __init__(self, name: str, silence_s: float) -> None:
        self._name = name
        self._silence_s = silence_s
        self._lock = threading.Lock()
        self._loop: _Loop | None = None
        self._close: Callable[[], object] = int

    def run(self, call: Call[T], deadline: Deadline) -> T:
        """Return what ``call`` returns, or raise what it raises.

        Raises:
            DeadlineError: it did not end in time.
        """
        left_s, progress = deadline.left_s(), Progress()
        future = asyncio.run_coroutine_threadsafe(call(progress), self._running())
        is_done = _ends(future, min(self._silence_s, left_s)) or (
            progress.has_begun and _ends(future, max(0.0, left_s - self._silence_s))
        )
        if not is_done:
            future.cancel()
            runtime().lost()
            raise DeadlineError("the call did not end in time")
        runtime().answered()
        return future.result()

    def close(self) -> None:
        """End the loop, as soon as there are no calls on it."""
        self._close()

    def _running(self) -> _Loop:
        with self._lock:
            if self._loop is None:
                self._loop = _Loop()
                thread = threading.Thread(
                    target=_serve, args=(self._loop,), name=self._name, daemon=True
                )
                thread.start()
                # Also when this object is forgotten, and at the end of the process.
                self._close = weakref.finalize(self, _end, self._loop, thread, os.getpid())
            return self._loop


def _ends(future: Future[Any], seconds: float) -> bool:
    try:
        future.exception(seconds)
    except TimeoutError:
        return future.done()
    return True


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        while tasks := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(tasks))
    finally:
        loop.close()


def _end(loop: _Loop, thread: threading.Thread, process: int) -> None:
    if os.getpid() != process:
        return
    if thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(JOIN_S)
    until = time.monotonic() + JOIN_S
    while loop.handing and time.monotonic() < until:
        time.sleep(PAUSE_S)
