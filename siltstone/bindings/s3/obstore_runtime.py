"""Whether obstore is of use in this process, which is the same for all that use it there.

obstore runs all requests on threads that it makes once for a process. A child that was forked
afterwards has none of them, and waits for ever. If it does so by a blocking call, what it shares
with its parent makes the parent's threads deaf too, for ever. We make no blocking calls, and none
at all in such a child. What others do there shows when calls do not end although the library's own
limits have passed: after a few of them the SDK reads instead.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

_log = logging.getLogger(__name__)

LOST_MAX: Final = 3
"""This many lost calls in a row mean that nothing answers; one may be a pause of the machine."""


class ObstoreRuntime:
    """What is known of the library's threads in one process. Thread-safe.

    Args:
        is_of_parent: whether they are those of the process that this one was forked from.

    Attributes:
        is_used: whether this process has called the library.
    """

    def __init__(self, *, is_of_parent: bool = False) -> None:
        self.is_used = is_of_parent
        self._lock = threading.Lock()
        self._lost = 0
        self._why = "its threads belong to the process before a fork" if is_of_parent else ""
        self._is_told = False

    def is_usable(self) -> bool:
        """Whether calls are likely to be answered. When they no longer are, it is logged, once."""
        self.is_used = True
        if not self._why:
            return True
        with self._lock:
            is_told, self._is_told = self._is_told, True
        if not is_told:
            _log.warning("the SDK reads from S3 from now on, for obstore does not: %s", self._why)
        return False

    def lost(self) -> None:
        """A call outlived the library's own limits."""
        with self._lock:
            self._lost += 1
            if self._lost >= LOST_MAX:
                self._why = f"{LOST_MAX} calls in a row did not end"

    def answered(self) -> None:
        """A call ended."""
        if self._lost:
            with self._lock:
                self._lost = 0


_here = ObstoreRuntime()


def runtime() -> ObstoreRuntime:
    """That of this process."""
    return _here


def _after_fork() -> None:
    global _here
    _here = ObstoreRuntime(is_of_parent=_here.is_used)


os.register_at_fork(after_in_child=_after_fork)
