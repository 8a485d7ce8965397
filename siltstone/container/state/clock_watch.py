"""Whether the clock of this machine jumps, told by the clock that cannot be set."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from siltstone.container.models.health import JUMP_S
from siltstone.core.environment import Environment

logger = logging.getLogger(__name__)

DOUBT_S: Final = 24 * 3600.0
"""A clock that jumped ahead is not believed for this long where that would destroy something."""
JUMPS_MAX: Final = 100
"""More jumps at a time are those of a clock that no rule can go by; the oldest are believed."""


class ClockWatch:
    """Compares the clock of this machine with the monotonic one, each time it is asked."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._begin_s = environment.time() - environment.monotonic()
        self._jump: tuple[float, float] | None = None
        self._doubts: deque[tuple[float, float]] = deque(maxlen=JUMPS_MAX)

    def jump_s(self) -> float:
        """How far the clock jumped within a day: above 0 ahead, below 0 back, 0 if it did not."""
        now_s = self._look()
        if self._jump is None or now_s - self._jump[0] >= DOUBT_S:
            return 0.0
        return self._jump[1]

    def believed_s(self) -> float:
        """Seconds since 1970, as if the clock had not jumped ahead within the last day.

        That is what may decide that something is old enough to be destroyed for good: a person who
        sees that a clock is wrong has a day to set it.
        """
        now_s = self._look()
        while self._doubts and now_s - self._doubts[0][0] >= DOUBT_S:
            self._doubts.popleft()
        return self._environment.time() - sum(by_s for _, by_s in self._doubts)

    def _look(self) -> float:
        """Notice a jump since the last look; return the monotonic time."""
        now_s = self._environment.monotonic()
        begin_s = self._environment.time() - now_s
        by_s, self._begin_s = begin_s - self._begin_s, begin_s
        if abs(by_s) < JUMP_S:
            return now_s
        logger.warning("the clock of this machine jumped: by_s=%+.0f", by_s)
        self._jump = (now_s, by_s)
        if by_s > 0:
            self._doubts.append((now_s, by_s))
        while by_s < 0 and self._doubts:
            # It goes back to where it was: what it jumped ahead by is no longer in doubt.
            since_s, ahead_s = self._doubts.pop()
            by_s += ahead_s
            if by_s > 0:
                self._doubts.append((since_s, by_s))
        return now_s
