"""Background work waits until it is woken, and waits longer after each failure."""

from __future__ import annotations

import asyncio
import logging

import pytest

from siltstone.container.state.backoff import Backoff, woken
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkUnavailableError, FencedError

log = logging.getLogger(__name__)


async def test_a_wait_tells_whether_it_was_woken_and_forgets_it() -> None:
    awake = asyncio.Event()
    assert not await woken(awake, 0.001)
    awake.set()
    assert await woken(awake, 60.0)
    assert not awake.is_set()


def fail(backoff: Backoff, error: Exception) -> None:
    with backoff.attempt(log, "sweep"):
        raise error


def error_of(backoff: Backoff) -> Exception | None:
    """Its answer now; it may be another one a moment later."""
    return backoff.error


def test_a_failure_of_storage_is_logged_and_costs_a_pause_until_work_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backoff = Backoff(SystemEnvironment())
    error = ChunkUnavailableError("no answer", chunk="x", operation="stat")
    fail(backoff, error)
    assert error_of(backoff) is error
    assert backoff.remaining_s > 0
    (told,) = caplog.records
    assert told.getMessage().startswith("sweep failed: no answer")
    with backoff.attempt(log, "sweep"):
        pass
    assert error_of(backoff) is None
    assert not backoff.pausing


def test_the_end_of_an_owner_is_no_failure_of_storage() -> None:
    backoff = Backoff(SystemEnvironment())
    with pytest.raises(FencedError):
        fail(backoff, FencedError("a newer epoch owns the log", epoch=2))
    assert error_of(backoff) is None
