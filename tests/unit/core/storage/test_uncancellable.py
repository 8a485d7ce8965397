"""A call whose caller is cancelled is waited for, unless it hangs: then it undoes itself later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from siltstone.core.environment import Pool, SystemEnvironment
from siltstone.core.storage.uncancellable import closed_in_time, run_whole

POOL = Pool(name="test", threads=1)
WAIT_S = 120


@pytest.mark.parametrize("hangs", [False, True])
def test_what_a_cancelled_caller_does_not_get_is_undone(
    monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    monkeypatch.setattr(
        "siltstone.core.storage.uncancellable.CANCELLED_S", 0.01 if hangs else float(WAIT_S)
    )
    begun, proceed, undone = threading.Event(), threading.Event(), threading.Event()
    given: list[str] = []

    def call() -> str:
        begun.set()
        assert proceed.wait(WAIT_S)
        return "made"

    def undo(result: str) -> None:
        given.append(result)
        undone.set()

    async def play(environment: SystemEnvironment) -> None:
        caller = asyncio.ensure_future(run_whole(environment, POOL, call, undo))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, WAIT_S)
        caller.cancel()
        if not hangs:
            await asyncio.sleep(0)
            caller.cancel()
            assert not caller.done()
            proceed.set()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert given == ([] if hangs else ["made"])
        proceed.set()
        assert await asyncio.get_running_loop().run_in_executor(None, undone.wait, WAIT_S)
        assert given == ["made"]

    _play(play)


def test_a_close_that_hangs_is_left_with_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("siltstone.core.storage.uncancellable.CLOSE_S", 0.01)
    proceed = threading.Event()

    async def play(environment: SystemEnvironment) -> None:
        await closed_in_time(environment, POOL, lambda: proceed.wait(WAIT_S), "the local index")
        proceed.set()

    _play(play)
    assert "the local index could not be closed" in caplog.text


def _play(play: Callable[[SystemEnvironment], object]) -> None:
    environment = SystemEnvironment()
    try:
        asyncio.run(play(environment))  # type: ignore[arg-type]
    finally:
        environment.close()
