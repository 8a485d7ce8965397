"""A log that fails when it is told to, with each of the four outcomes.

A call may be applied or not, and may be reported as done or as failed. Also a place to stop: hooks
run before and after every call, so a test can hold an owner at any step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from siltstone.core.constants import Buffer
from siltstone.core.errors import LogError, Outcome, StorageFullError, StoreError
from siltstone.core.fenced_log import FencedLog, LogOwner, LogReader, ReplaceableLog
from siltstone.core.records.frame import Frame

T = TypeVar("T")

METHODS = frozenset(
    {"claim", "append", "first", "end", "read", "dropped_tail", "truncate", "newest_epoch"}
    | {"holder", "open_read", "close", "fence_all", "set_aside"}
)
"""The methods of a log, by which a plan names calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What happens to one call.

    Attributes:
        applied: whether the call reaches the log.
        error: what the caller gets; ``None`` reports success. A call that is not applied and yet
            reported returns ``answer``: a log that lies.
        answer: the result of such a call.
    """

    applied: bool
    error: Exception | None
    answer: Any = None


@dataclass(slots=True)
class FaultPlan:
    """Which calls fail, counted from 1 on over the life of the plan.

    Attributes:
        faults: by method and number of the call.
        before: called with method and number ahead of each call.
        after: called with method and number when the call had its effect, before it is reported.
        counts: calls so far, by method.
    """

    faults: dict[tuple[str, int], Fault] = field(default_factory=dict)
    before: Callable[[str, int], None] = lambda method, number: None
    after: Callable[[str, int], None] = lambda method, number: None
    counts: Counter[str] = field(default_factory=Counter)

    def fail(
        self, method: str, number: int = 1, *, applied: bool, error: Exception | None = None
    ) -> None:
        """Fail the ``number``-th call of ``method`` from now on, 1 being the next.

        Without ``error`` it is a ``LogError`` of unknown outcome.
        """
        raised = error or LogError("injected", operation=method)
        self._set(method, number, Fault(applied=applied, error=raised))

    def lie(self, method: str, number: int = 1, *, answer: Any = None) -> None:
        """Do nothing on that call and return ``answer`` as if it had been done."""
        self._set(method, number, Fault(applied=False, error=None, answer=answer))

    def _set(self, method: str, number: int, fault: Fault) -> None:
        assert method in METHODS, method
        self.faults[method, self.counts[method] + number] = fault


class FaultyFencedLog:
    """Passes every call on to ``inner`` as the plan says.

    A failure that a real log would be poisoned by poisons this one: every later call but
    ``newest_epoch`` and ``close`` raises ``LogError``, and ``close`` leaves ``inner`` without an
    ``End`` frame.

    Args:
        inner: the log underneath.
        plan: which calls fail.
        abandon: how to free ``inner`` without an ``End`` frame; its own ``abandon`` by default.
    """

    def __init__(
        self,
        inner: FencedLog,
        plan: FaultPlan | None = None,
        abandon: Callable[[], None] | None = None,
    ) -> None:
        self.inner = inner
        self.plan = plan or FaultPlan()
        known: Callable[[], None] = getattr(inner, "abandon", inner.close)
        self._abandon = abandon or known
        self._is_poisoned = False
        self._is_closed = False

    def _call(self, method: str, action: Callable[[], T]) -> T:
        if self._is_poisoned and not self._is_closed and method != "newest_epoch":
            raise LogError("the handle is poisoned", outcome=Outcome.NOT_APPLIED)
        plan = self.plan
        plan.counts[method] += 1
        number = plan.counts[method]
        plan.before(method, number)
        fault = plan.faults.pop((method, number), None)
        if fault is None:
            result = action()
            plan.after(method, number)
            return result
        result = fault.answer
        if fault.applied:
            result = action()
        plan.after(method, number)
        if fault.error is not None:
            # A full disk leaves a log usable; so does whatever is no failure of the log.
            if not isinstance(fault.error, StorageFullError | StoreError):
                self._is_poisoned = True
            raise fault.error
        return result

    @property
    def frame_bytes_max(self) -> int:
        """``FencedLog.frame_bytes_max``."""
        return self.inner.frame_bytes_max

    @property
    def epoch(self) -> int:
        """``FencedLog.epoch``."""
        return self.inner.epoch

    def claim(self, *, lineage: bytes, new: bool, above: int, takeover: bool, owner: str) -> int:
        """``FencedLog.claim``."""
        return self._call(
            "claim",
            lambda: self.inner.claim(
                lineage=lineage, new=new, above=above, takeover=takeover, owner=owner
            ),
        )

    def append(self, buffers: Sequence[Buffer], *, count: int, reserve: bool = False) -> int:
        """``FencedLog.append``."""
        return self._call(
            "append", lambda: self.inner.append(buffers, count=count, reserve=reserve)
        )

    def first(self) -> int:
        """``FencedLog.first``."""
        return self._call("first", self.inner.first)

    def end(self) -> int:
        """``FencedLog.end``."""
        return self._call("end", self.inner.end)

    def read(self, from_index: int) -> Iterator[Frame]:
        """``FencedLog.read``."""
        return self._call("read", lambda: self.inner.read(from_index))

    def dropped_tail(self) -> int:
        """``FencedLog.dropped_tail``."""
        return self._call("dropped_tail", self.inner.dropped_tail)

    def truncate(self, before_index: int) -> None:
        """``FencedLog.truncate``."""
        self._call("truncate", lambda: self.inner.truncate(before_index))

    def newest_epoch(self) -> int:
        """``FencedLog.newest_epoch``."""
        return self._call("newest_epoch", self.inner.newest_epoch)

    def holder(self) -> LogOwner:
        """``FencedLog.holder``."""
        return self._call("holder", self.inner.holder)

    def open_read(self) -> LogReader:
        """``FencedLog.open_read``."""
        return self._call("open_read", self.inner.open_read)

    def fence_all(self) -> None:
        """``ReplaceableLog.fence_all``, if the log has it."""
        assert isinstance(self.inner, ReplaceableLog), "asked of such logs only"
        self._call("fence_all", self.inner.fence_all)

    def set_aside(self) -> str | None:
        """``ReplaceableLog.set_aside``, if the log has it."""
        assert isinstance(self.inner, ReplaceableLog), "asked of such logs only"
        return self._call("set_aside", self.inner.set_aside)

    def close(self) -> None:
        """``FencedLog.close``; of a poisoned handle without an ``End`` frame."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_poisoned:
            self._abandon()
        else:
            self._call("close", self.inner.close)
