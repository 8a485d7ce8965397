"""What the state of long-term storage is, as a pure function of what was measured. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from siltstone.core.storage.call_stats import RecentCalls

JUMP_S: Final = 60.0
"""No clock is corrected in passing by this much at once: it was set, or the machine slept."""
UNANSWERED_MIN: Final = 3
UNANSWERED_SHARE: Final = 0.1
"""Storage fails when this many calls of the last minute, and this share, got no answer."""
SLOW_MIN: Final = 3
SLOW_SHARE: Final = 0.5
"""It is slow when this many calls, and this share, took longer than expected: the median did."""


class HealthState(StrEnum):
    """How well long-term storage works, best first."""

    OK = "ok"
    SLOW = "slow"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


class HealthReason(StrEnum):
    """Why the state is not ``OK``; or what to know although it is.

    That is ``CLOCK_JUMPED``, ``CLOCK_BEHIND``, and the last three, which keyspaces tell.
    """

    SILENT = "storage does not answer"
    STUCK = "every thread waits for a call past its deadline"
    FAILING = "some calls get no answer"
    LATE = "bytes are late for long-term storage"
    SLOW = "calls take longer than expected"
    THROTTLED = "the service asks for fewer calls"
    CLOCK_JUMPED = "the clock of this machine jumped"
    CLOCK_BEHIND = "the log has times that are yet to come by this clock"
    CLOSED = "the container is closed"
    COMPACTION_NEEDED = "values of a keyspace take much room that nothing needs"
    COMPACTION_FAILS = "values of a keyspace cannot be compacted"
    OBJECTS_LOST = "values of a keyspace are damaged or gone"


_STATES: Final = {
    HealthReason.SILENT: HealthState.UNAVAILABLE,
    HealthReason.STUCK: HealthState.UNAVAILABLE,
    HealthReason.FAILING: HealthState.DEGRADED,
    HealthReason.LATE: HealthState.DEGRADED,
    HealthReason.SLOW: HealthState.SLOW,
    HealthReason.THROTTLED: HealthState.SLOW,
    HealthReason.CLOCK_JUMPED: HealthState.OK,
    HealthReason.CLOCK_BEHIND: HealthState.OK,
}
_ORDER: Final = tuple(HealthState)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """What is expected.

    Attributes:
        late_s: bytes that are overdue for this long are late; from here on appends are throttled.
        late_s_max: from here on they are throttled as much as they ever are; above ``late_s``.
        throttle_s_max: how long an append is held back then; 0 never does.
    """

    late_s: float
    late_s_max: float
    throttle_s_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What was measured.

    Attributes:
        recent: the calls of the last minute.
        silent: whether the circuit is not closed.
        stuck: whether every thread is held by a call past its deadline.
        lateness_s: seconds for which the oldest unflushed byte, or record of the table log, has
            been due for a flush; 0 while none is.
        clock_jump_s: how far the clock jumped within a day, in seconds; 0 if it did not.
        clock_behind_s: how far the newest time in the log lies in the future, in seconds.
    """

    recent: RecentCalls
    silent: bool
    stuck: bool
    lateness_s: float
    clock_jump_s: float = 0.0
    clock_behind_s: float = 0.0


def judge(signs: Signs, limits: HealthLimits) -> tuple[HealthState, tuple[HealthReason, ...]]:
    """Return the state and every reason for it, the gravest first."""
    recent = signs.recent
    holds = {
        HealthReason.SILENT: signs.silent,
        HealthReason.STUCK: signs.stuck,
        HealthReason.FAILING: _many(
            recent.unanswered, recent.count, UNANSWERED_MIN, UNANSWERED_SHARE
        ),
        HealthReason.LATE: signs.lateness_s >= limits.late_s,
        HealthReason.SLOW: _many(recent.slow, recent.count, SLOW_MIN, SLOW_SHARE),
        HealthReason.THROTTLED: recent.throttled > 0,
        HealthReason.CLOCK_JUMPED: signs.clock_jump_s != 0,
        HealthReason.CLOCK_BEHIND: signs.clock_behind_s >= JUMP_S,
    }
    reasons = tuple(reason for reason, is_so in holds.items() if is_so)
    state = max((_STATES[reason] for reason in reasons), key=_ORDER.index, default=HealthState.OK)
    return state, reasons


def throttle_s(lateness_s: float, limits: HealthLimits) -> float:
    """Return how long each append is held back: more the later the bytes before it are."""
    share = (lateness_s - limits.late_s) / (limits.late_s_max - limits.late_s)
    return limits.throttle_s_max * min(1.0, max(0.0, share))


def _many(count: int, of: int, count_min: int, share_min: float) -> bool:
    return count >= count_min and count >= of * share_min
