"""A limit for what should take little of the processor, however busy the machine is.

A limit by the clock fails on a busy machine. What does not end at all is ended by the clock, far
later.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 1.0
"""This long after it, again: an error that is raised within a finaliser goes no further."""

HOURS_S = 3600
"""For tests of which only a wait that never ends takes this long."""


class _OverError(SystemExit):
    """Ends an event loop too, which would keep any other error for a task.

    One that it interrupts between two tasks may wait for ever afterwards: the clock ends it then.
    """


@contextmanager
def processor_limit(seconds: float) -> Iterator[None]:
    """End the block when it has used this many seconds of the processor. On the main thread.

    Raises:
        TimeoutError: it has.
    """

    def over(number: int, frame: FrameType | None) -> None:
        raise _OverError

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN_S)
    try:
        yield
    except _OverError as error:
        raise TimeoutError(f"it used the processor for {seconds:g} s") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def limited(command: Sequence[str], seconds: int) -> tuple[str, ...]:
    """The same command, ended when it has used this many seconds of the processor."""
    return ("bash", "-c", f'ulimit -t {seconds}; exec "$@"', "bash", *command)
