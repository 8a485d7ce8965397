"""Pauses of blocking calls, which end early when no caller waits for the work any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")

_local = threading.local()


class StoppedError(Exception):
    """No caller waits for this work any more: it ends where it would have paused."""


class TimedCall(Protocol):
    """A call in progress.

    Attributes:
        until: when it should have ended, on the monotonic clock.
    """

    until: float

    def late_error(self) -> Exception:
        """What is said of it when it has not."""
        ...


class Stop:
    """Ends the pauses of any work that was begun by it. Thread-safe.

    Attributes:
        calls: what its work does now and may take long. The caller that waits for the work looks at
            them by ``check_calls``, so that none of them needs a thread of its own to be given up.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self.calls: set[TimedCall] = set()

    def check_calls(self, now_s: float) -> None:
        """Raise the error of a call that should have ended by now."""
        for call in list(self.calls):
            if call.until < now_s:
                raise call.late_error()

    def set(self) -> None:
        """End all pauses, also those to come. Idempotent."""
        self._event.set()

    def check(self) -> None:
        """Raise ``StoppedError`` when no caller waits any more."""
        if self._event.is_set():
            raise StoppedError

    def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` on this thread, and end it at its next pause once ``set`` was called.

        Raises:
            StoppedError: that was so; whatever the work had not done is not done.
        """
        self.check()
        _local.stop = self
        try:
            return work()
        finally:
            _local.stop = None

    def pause(self, seconds: float) -> None:
        """Wait. Raises ``StoppedError``."""
        if self._event.wait(seconds):
            raise StoppedError


def current_stop() -> Stop | None:
    """What ends the work of this thread early; ``None`` where nothing does."""
    return getattr(_local, "stop", None)
