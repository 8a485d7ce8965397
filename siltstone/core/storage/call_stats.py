"""What the calls to one binding were like: how long they took, and which got no answer.

Only the loop calls in here. The bridge reports each call; health and metrics look at the results.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

from siltstone.core.metrics import CALL_BYTES, CALL_QUEUE, CALL_SERVICE, CALLS, NO_METRICS, Metrics
from siltstone.core.storage.circuit_breaker import Circuit, CircuitLimits, CircuitState

logger = logging.getLogger(__name__)

WINDOW_S: Final = 60.0
"""Calls of the last minute tell how storage is now."""
CALLS_MAX: Final = 512
WRITES: Final = frozenset({"create", "write", "concat"})
WARNING_PAUSE_S: Final = 10.0
"""While storage is slow, a warning now and then tells as much as one for each call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """What is expected of calls.

    Attributes:
        slow_s: a call that takes longer is slow.
        circuit: when calls are refused.
    """

    slow_s: float
    circuit: CircuitLimits


NO_LIMITS: Final = CallLimits(
    slow_s=float("inf"), circuit=CircuitLimits(failures_max=2**63, probe_s=0.0)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """One call that ended, or missed its deadline.

    Attributes:
        operation: the verb.
        chunk: the name, or what stands for it.
        queue_s: seconds until a thread was free.
        service_s: seconds from then until the answer, or the deadline.
        answered: whether the service answered, with a refusal perhaps.
        failed: whether the caller got an error, of any kind.
        length: bytes that were written or read.
        throttled: whether the answer was that the service gets too many calls.
        unsent: whether this process had no descriptor left for it, which says nothing of the
            service.
    """

    operation: str
    chunk: str
    queue_s: float
    service_s: float
    answered: bool
    failed: bool
    length: int = 0
    throttled: bool = False
    unsent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentCalls:
    """The calls of the last minute, 512 at most.

    Attributes:
        count: how many ended.
        unanswered: how many of them without an answer.
        slow: how many took longer than expected.
        latency_s: median of their service times; 0 when there were none.
        throttled: how many were refused because the service gets too many.
    """

    count: int
    unanswered: int
    slow: int
    latency_s: float
    throttled: int = 0


def _measure(metrics: Metrics, report: CallReport) -> None:
    outcome = _outcome(report)
    metrics.observe(CALL_QUEUE, report.queue_s, report.operation)
    metrics.observe(CALL_SERVICE, report.service_s, report.operation)
    metrics.add(CALLS, 1, report.operation, outcome)
    if report.length:
        metrics.add(CALL_BYTES, report.length, report.operation)
    name = f"siltstone.storage.{report.operation}"
    metrics.ended(name, report.service_s, chunk=report.chunk, outcome=outcome)


def _outcome(report: CallReport) -> str:
    if report.throttled:
        return "throttled"
    if report.unsent:
        return "unsent"
    return "unanswered" if not report.answered else "refused" if report.failed else "done"


class CallWatch:
    """Watches the calls of one bridge.

    Args:
        clock: monotonic seconds.
        limits: what is expected of calls.
        metrics: gets each report if it is enabled.

    Attributes:
        circuit: whether calls are sent.
        writes: creates, writes and concats so far.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        limits: CallLimits = NO_LIMITS,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        self.circuit = Circuit(limits.circuit)
        self.writes = 0
        self._metrics = metrics
        self._clock = clock
        self._slow_s = limits.slow_s
        self._recent: deque[tuple[float, CallReport]] = deque(maxlen=CALLS_MAX)
        self._warned_at = float("-inf")
        self._unwarned = 0

    def ended(self, report: CallReport) -> None:
        """Take in a call that ended or missed its deadline."""
        now = self._clock()
        self._recent.append((now, report))
        self.writes += report.operation in WRITES
        if report.unsent:
            self.circuit.unsent(now)
        elif report.answered:
            self.circuit.answered()
        elif report.operation != "delete" or self.circuit.state is CircuitState.PROBING:
            # Deletions that fail must not keep bytes from being flushed and read.
            self.circuit.unanswered(now)
        if report.service_s >= self._slow_s:
            self._warn(now, report)
        if self._metrics.enabled:
            _measure(self._metrics, report)

    def recent(self) -> RecentCalls:
        """Sum the last minute up."""
        since = self._clock() - WINDOW_S
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        reports = [report for _, report in self._recent]
        return RecentCalls(
            count=len(reports),
            unanswered=sum(not (report.answered or report.unsent) for report in reports),
            slow=sum(report.service_s >= self._slow_s for report in reports),
            latency_s=median(report.service_s for report in reports) if reports else 0.0,
            throttled=sum(report.throttled for report in reports),
        )

    def _warn(self, now: float, report: CallReport) -> None:
        if now < self._warned_at + WARNING_PAUSE_S:
            self._unwarned += 1
            return
        logger.warning(
            "slow call to long-term storage: operation=%s chunk=%s seconds=%.3f others=%d",
            report.operation,
            report.chunk,
            report.service_s,
            self._unwarned,
        )
        self._warned_at = now
        self._unwarned = 0
