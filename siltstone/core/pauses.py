"""Pauses of blocking calls, which end early when nobody waits for the work any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_local = threading.local()


class StoppedError(Exception):
    """Nobody waits for this work any more: it ends where it would have paused."""


class Stop:
    """Ends the pauses of whatever work was begun by it. Thread-safe."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """End all pauses, those to come too. Idempotent."""
        self._event.set()

    def check(self) -> None:
        """Raise ``StoppedError`` when nobody waits any more."""
        if self._event.is_set():
            raise StoppedError

    def run(self, work: Callable[[], T]) -> T:
        """Do some work on this thread, and end it at its next pause once ``set`` was called.

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
