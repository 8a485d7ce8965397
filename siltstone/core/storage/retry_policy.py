"""Whether a call to long-term storage may be sent again, and how long to wait before."""

from __future__ import annotations

from typing import Final

from siltstone.core.environment import Environment
from siltstone.core.errors import ChunkError, ChunkThrottledError, Outcome
from siltstone.core.storage.bandwidth import BandwidthError
from siltstone.core.storage.call_stats import WRITES

WAIT_S_MIN: Final = 0.1
"""A service that drops one connection is back at once."""
WAIT_S_MAX: Final = 2.0
"""A thread may wait here; what takes longer is a matter for the caller's own, longer pauses."""

POSTPONED: Final = (ChunkThrottledError, BandwidthError)
"""Errors that say: this call again, later. They may name the time."""


def wait_s(environment: Environment, made: int, error: ChunkError) -> float:
    """Seconds to wait after the attempt ``made``, from 1 on, that ended with ``error``.

    They double, with jitter, up to ``WAIT_S_MAX``; a service that names a time itself gets it, plus
    the jitter, so that not all come back at once.
    """
    longest = min(WAIT_S_MAX, WAIT_S_MIN * 2.0 ** min(made - 1, 10))
    jittered = longest * (0.5 + environment.random() / 2)
    asked = error.retry_after_s if isinstance(error, POSTPONED) else None
    return jittered if asked is None else asked + jittered


def had_no_effect(operation: str, error: ChunkError) -> bool:
    """Whether a postponed call may be sent again: nothing of it was applied, for certain.

    A write that was followed by a read of what it wrote, and the read throttled, is not such a one.
    """
    if error.outcome is not Outcome.NOT_APPLIED:
        return False
    return operation not in WRITES or error.operation == operation
