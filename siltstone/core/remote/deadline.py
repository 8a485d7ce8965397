"""When a call to a service ends, whatever comes in between."""

from __future__ import annotations

import time


class DeadlineError(TimeoutError):
    """A call did not end in time."""


class Deadline:
    """Begins when it is made, and is looked at wherever a call could continue."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left_s(self) -> float:
        """Seconds that are left, above 0. Raises ``DeadlineError`` when there are none."""
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise DeadlineError("the call did not end before its deadline")
        return left_s

    def check(self) -> None:
        """Raise ``DeadlineError`` when it has passed."""
        self.left_s()
