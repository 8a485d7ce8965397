"""When calls to long-term storage are not even tried: a circuit breaker.

It opens after failures in a row. Pure: no clock and no I/O; the caller says what time it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class CircuitState(StrEnum):
    """What becomes of the next call."""

    CLOSED = "closed"
    """It is sent."""
    OPEN = "open"
    """It is refused, or sent as a probe once the pause is over."""
    PROBING = "probing"
    """It is refused: one call is on its way, and its end decides."""


PROBE_S_MAX: Final = 30.0
"""Storage that is back is noticed within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitLimits:
    """When a circuit opens and how it closes.

    Attributes:
        failures_max: this many calls in a row without an answer open it; at least 1. A journal
            gives up after six attempts, and the circuit has to open first.
        probe_s: seconds until the first probe; from each one to the next it is twice as long, up to
            ``PROBE_S_MAX``. A short interruption ends within it.
    """

    failures_max: int = 5
    probe_s: float = 5.0


class Circuit:
    """The circuit of one binding.

    Attributes:
        state: see ``CircuitState``.
        failures: calls in a row that got no answer, up to now.
    """

    __slots__ = ("_limits", "_pause_s", "_probe_at", "failures", "state")

    def __init__(self, limits: CircuitLimits) -> None:
        self._limits = limits
        self._pause_s = limits.probe_s
        self._probe_at = 0.0
        self.state = CircuitState.CLOSED
        self.failures = 0

    def admits(self, now_s: float) -> bool:
        """Whether a call may be sent now."""
        return self.state is CircuitState.CLOSED or self.probe_due(now_s)

    def probe_due(self, now_s: float) -> bool:
        """Whether the next call is a probe."""
        return self.state is CircuitState.OPEN and now_s >= self._probe_at

    def sent(self, now_s: float) -> None:
        """A call that was admitted is on its way."""
        if self.probe_due(now_s):
            self.state = CircuitState.PROBING

    def answered(self) -> None:
        """A call, begun at any time, got an answer: the service is there."""
        self.failures = 0
        self.state = CircuitState.CLOSED
        self._pause_s = self._limits.probe_s

    def unsent(self, now_s: float) -> None:
        """A call failed here, so nothing is known of the service; a probe is still due."""
        if self.state is CircuitState.PROBING:
            self.state = CircuitState.OPEN
            self._probe_at = now_s + self._pause_s

    def unanswered(self, now_s: float) -> None:
        """A call got none."""
        self.failures += 1
        if self.state is CircuitState.PROBING:
            self._pause_s = min(self._pause_s * 2, max(PROBE_S_MAX, self._limits.probe_s))
        elif self.failures < self._limits.failures_max:
            return
        self.state = CircuitState.OPEN
        self._probe_at = now_s + self._pause_s
