"""Signals while a JVM runs, which is to be stopped when they end the command."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from siltstone.cli.interrupts import Interrupted

_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_signals() -> Iterator[None]:
    """Let signals that end the command come after the block.

    For what is started by steps, and can be stopped only when it is there as a whole: a JVM whose
    start is interrupted lives on.
    """
    if not _is_main():
        yield
        return
    came: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, hold) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for one in came:
        signal.raise_signal(one)


@contextmanager
def told_once() -> Iterator[None]:
    """Let SIGINT raise ``Interrupted``: of a ``KeyboardInterrupt`` py4j writes a traceback."""
    if not _is_main() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
