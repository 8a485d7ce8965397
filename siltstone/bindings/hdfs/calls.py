"""Calls of the SDK, each on a thread of its own, so that one that hangs can be given up.

The SDK's blocking calls give up the lock of the interpreter, but may never return. Its coroutines
could be cancelled, but they wait for locks of the SDK while they hold that of the interpreter, and
when a connection breaks the whole process may hang.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Generic, TypeVar

from siltstone.core.remote.deadline import Deadline, DeadlineError
from siltstone.core.spare_threads import start_thread

T = TypeVar("T")
END_S: Final = 5.0
"""How long closing waits for calls."""
HANGING_MAX: Final = 64
"""This many threads may be lost to calls that hang; then nothing more is sent."""


class CallStoppedError(Exception):
    """The storage was closed before the call began."""


class GivenUpError(Exception):
    """The caller does not wait any more, so no further step is made."""


class Turn:
    """One call, as its steps see it."""

    __slots__ = ("_is_over", "_lock", "_over")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_over = False
        # Held until the caller stops waiting: an ``Event`` would take ten times as long to make.
        self._over = threading.Lock()
        self._over.acquire()

    def check(self) -> None:
        """Raise ``GivenUpError`` when the caller does not wait any more."""
        if self._is_over:
            raise GivenUpError

    def sleep(self, seconds: float) -> None:
        """Sleep, then check that the caller still waits."""
        if self._over.acquire(timeout=seconds):
            self._over.release()
        self.check()

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Do what the caller must see the end of, such as filling its buffer: it waits meanwhile.

        Raises:
            GivenUpError: it does not wait any more, and may use its buffer for something else.
        """
        with self._lock:
            self.check()
            yield

    def end(self) -> None:
        """Say, once, that the caller does not wait any more."""
        with self._lock:
            self._is_over = True
        self._over.release()


class _Answer(Generic[T]):
    """What became of a call: one lock and three words, where a ``Future`` takes ten times as long.

    Attributes:
        ended: held until the call has ended.
        is_ended: whether it has.
        value: what it returned.
        error: what it raised; ``None`` when it returned.
    """

    __slots__ = ("ended", "error", "is_ended", "value")

    value: T

    def __init__(self) -> None:
        self.ended = threading.Lock()
        self.ended.acquire()
        self.is_ended = False
        self.error: BaseException | None = None


class Calls:
    """The calls of one storage.

    A call that ends in time takes no lock that another one may hold: each of two sides first says
    what it does, then looks at what the other has said, so that one of them at least sees both.
    """

    def __init__(self) -> None:
        self._left = threading.Condition()
        self._running: set[Turn] = set()
        self._hanging: set[_Answer[Any]] = set()
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
        turn, answer = Turn(), _Answer[T]()
        self._running.add(turn)
        try:
            if self._is_closing:
                raise CallStoppedError("the storage was closed")
            if len(self._hanging) >= HANGING_MAX:
                raise DeadlineError("too many calls never ended")
            start_thread(partial(self._run, turn, work, answer), answer.ended.release)
            try:
                if not answer.ended.acquire(timeout=left_s):
                    raise DeadlineError("the call did not end before its deadline")
            finally:
                if not answer.is_ended:
                    self._hang(answer)
        finally:
            self._leave(turn)
        error = answer.error
        if error is None:
            return answer.value
        try:
            raise error
        finally:
            # What it raises holds this frame, and must not be held by it: buffers would stay.
            del answer, error

    def close(self) -> None:
        """Let calls end, for a moment, and begin no further steps."""
        with self._left:
            self._is_closing = True
            self._left.wait_for(lambda: not self._running, END_S)

    def _run(self, turn: Turn, work: Callable[[Turn], T], answer: _Answer[T]) -> None:
        try:
            answer.value = work(turn)
        except BaseException as error:  # noqa: BLE001 - the caller is told
            answer.error = error
        answer.is_ended = True
        self._hanging.discard(answer)
        del answer, work  # as in ``call``

    def _hang(self, answer: _Answer[Any]) -> None:
        """Count a thread that no caller waits for, until its call has ended after all."""
        self._hanging.add(answer)
        if answer.is_ended:
            self._hanging.discard(answer)

    def _leave(self, turn: Turn) -> None:
        turn.end()
        self._running.discard(turn)
        if self._is_closing:
            with self._left:
                self._left.notify_all()
