"""A blocking call that others come between: its thread runs only while the loop waits for it.

One of all threads runs at a time, so nothing is left to the machine, and a seed repeats it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any, Final

_STEPS: ContextVar[Steps | None] = ContextVar("steps", default=None)

TURN_S: Final = 600.0
"""A thread whose turn takes this long waits for something that no other thread will do."""


class EndedError(BaseException):
    """The caller is dead, and the call goes no further."""


class Steps:
    """A call, from pause to pause.

    Attributes:
        pause_s: seconds until its next step is due, while it pauses.
        is_sent: whether that step happens although the caller is stopped.
        result: what it returned.
        error: what it raised.

    Args:
        call: it may call ``pause``.
        context: what it runs in, and nothing else does.
    """

    def __init__(self, call: Callable[[], Any], context: Context) -> None:
        self._call = call
        self._context = context
        self._go = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._has_ended = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="steps", daemon=True)
        self.pause_s = 0.0
        self.is_sent = False
        self.result: Any = None
        self.error: BaseException | None = None

    def resume(self) -> bool:
        """Make the next step; return whether there is another one."""
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._go.release()
        if not self._paused.acquire(timeout=TURN_S):
            raise RuntimeError("a step does not end")
        if self._has_ended:
            self._thread.join()
        return not self._has_ended

    def end(self) -> None:
        """Let it go no further: its pause, and any other one, raises ``EndedError``."""
        self._is_over = True
        while not self._has_ended and self._thread.ident is not None:
            self.resume()

    def wait(self, seconds: float, *, is_sent: bool) -> None:
        """See ``pause``; on the thread of the call."""
        if not self._is_over:
            self.pause_s, self.is_sent = seconds, is_sent
            self._paused.release()
            self._go.acquire()
        if self._is_over:
            raise EndedError

    def _run(self) -> None:
        try:
            self.result = self._context.run(self._within)
        except BaseException as error:  # noqa: BLE001 - told to the caller
            self.error = error
        self._has_ended = True
        self._paused.release()

    def _within(self) -> Any:
        _STEPS.set(self)
        return self._call()


def pause(seconds: float, *, is_sent: bool = False) -> bool:
    """Let others work for this time, where a call is made in steps; return whether it is.

    Args:
        seconds: of virtual time.
        is_sent: the caller need not run for what comes next: it has sent it off.

    Raises:
        EndedError: the caller died meanwhile.
    """
    steps = _STEPS.get()
    if steps is None:
        return False
    steps.wait(seconds, is_sent=is_sent)
    return True


class StepLock:
    """A lock, also one that its owner takes again, between calls that are made in steps."""

    def __init__(self) -> None:
        self._owner: object = None
        self._depth = 0

    def __enter__(self) -> None:
        mine = _STEPS.get() or threading.current_thread()
        while self._owner not in (None, mine):
            if not pause(1e-3):
                raise RuntimeError("a call in steps has the lock, and the loop wants it")
        self._owner = mine
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
