"""Calls of the SDK, each on a thread of its own, so that one that hangs can be given up.

The SDK's blocking calls give up the lock of the interpreter, but may never return. Its coroutines
could be cancelled, but they wait for locks of the SDK while they hold that of the interpreter, and
when a connection breaks the whole process may stand still.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from siltstone.core.remote.deadline import Deadline, DeadlineError

T = TypeVar("T")
END_S: Final = 5.0
"""How long closing waits for calls."""
IDLE_MAX: Final = 16
"""So many threads of this process wait for work."""
HANGING_MAX: Final = 64
"""So many threads may be lost to calls that hang; then nothing more is sent."""

_idle: list[SimpleQueue[Callable[[], None]]] = []
"""Those that wait. A process that was forked makes no calls, so it misses none of them."""


class StoppedError(Exception):
    """The storage was closed before the call began."""


class GivenUpError(Exception):
    """Nobody waits for this call any more, so no further step is made."""


class Turn:
    """One call, as its steps see it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = threading.Event()

    def check(self) -> None:
        """Raise ``GivenUpError`` when nobody waits any more."""
        if self._is_over.is_set():
            raise GivenUpError

    def sleep(self, seconds: float) -> None:
        """Wait, and see whether anybody still does."""
        self._is_over.wait(seconds)
        self.check()

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Do what the caller must see the end of, such as filling his buffer: he waits meanwhile.

        Raises:
            GivenUpError: he does not wait any more, and may use his buffer for something else.
        """
        with self._lock:
            self.check()
            yield

    def end(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._is_over.set()


class Calls:
    """The calls of one storage."""

    def __init__(self) -> None:
        self._idle = threading.Condition()
        self._running: set[Turn] = set()
        self._hanging = 0
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._running)

    def call(self, work: Callable[[Turn], T], deadline: Deadline) -> T:
        """Run ``work``; give it up when the deadline has passed, wherever it is then.

        Raises:
            DeadlineError: it did not end in time; its next step is not made. Or too many hang.
            StoppedError: the storage was closed before it began.
        """
        left_s = deadline.left_s()
        turn, future = Turn(), Future[T]()
        with self._idle:
            if self._is_closing:
                raise StoppedError("the storage was closed")
            if self._hanging >= HANGING_MAX:
                raise DeadlineError("too many calls never ended")
            self._running.add(turn)
        start_thread(lambda: self._run(turn, work, future))
        try:
            return future.result(left_s)
        except LateError:
            if future.done():
                raise
            raise DeadlineError("the call did not end before its deadline") from None
        finally:
            self._leave(turn, future)

    def close(self) -> None:
        """Let calls end, for a moment, and begin no further steps."""
        with self._idle:
            self._is_closing = True
            self._idle.wait_for(lambda: not self._running, END_S)

    def _run(self, turn: Turn, work: Callable[[Turn], T], future: Future[T]) -> None:
        try:
            result = work(turn)
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            future.set_exception(error)
        else:
            future.set_result(result)

    def _leave(self, turn: Turn, future: Future[Any]) -> None:
        turn.end()
        with self._idle:
            self._running.discard(turn)
            self._idle.notify_all()
            if not future.done():
                self._hanging += 1
                future.add_done_callback(self._came_back)

    def _came_back(self, _: Future[Any]) -> None:
        with self._idle:
            self._hanging -= 1


def start_thread(work: Callable[[], None]) -> None:
    """Run ``work`` on a thread that does not keep the process from ending.

    Threads are used again: what the SDK does for a new one takes as long as a small read.
    """
    try:
        queue = _idle.pop()
    except IndexError:
        queue = SimpleQueue()
        threading.Thread(target=_serve, args=(queue,), name="hdfs", daemon=True).start()
    queue.put(work)


def _serve(queue: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        queue.get()()
        if len(_idle) >= IDLE_MAX:
            return
        _idle.append(queue)
