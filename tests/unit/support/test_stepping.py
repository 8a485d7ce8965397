"""Calls in steps: others come between, their caller is stopped or dies, and a lock holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from siltstone.core.environment import Pool
from siltstone.core.errors import OutcomeUnknownError
from siltstone.testing.virtual_time import Clock
from tests.support.simulation.processes import Delays, Process, ProcessLoop
from tests.support.simulation.stepping import EndedError, StepLock, pause

POOL = Pool(name="log", threads=2)


def played(program: Callable[[Process], Coroutine[Any, Any, None]]) -> None:
    clock = Clock()
    process = Process(
        "p",
        clock,
        0,
        delays=lambda pool, chance: Delays(before_s=0.0, after_s=0.0),
        outlives=lambda pool: False,
        steps=lambda pool: True,
    )
    with asyncio.Runner(loop_factory=lambda: ProcessLoop(clock, Random(0))) as runner:
        runner.run(program(process))


def test_calls_come_between_the_steps_of_one_another() -> None:
    told: list[str] = []

    def call(name: str) -> str:
        for step in range(2):
            told.append(f"{name}{step}")
            assert pause(1.0)
        return name

    async def program(process: Process) -> None:
        a = process.run_blocking(POOL, lambda: call("a"))
        await asyncio.sleep(0.5)
        b = process.run_blocking(POOL, lambda: call("b"))
        assert [await a, await b] == ["a", "b"]
        assert process.monotonic() == pytest.approx(2.5)

    played(program)
    assert told == ["a0", "b0", "a1", "b1"]


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_stopped_process_makes_only_the_step_that_it_sent_off(is_sent: bool) -> None:
    told: list[float] = []

    async def program(process: Process) -> None:
        def call() -> None:
            pause(1.0, is_sent=is_sent)
            told.append(process.monotonic())
            pause(1.0)
            told.append(process.monotonic())

        answer = process.run_blocking(POOL, call)
        await asyncio.sleep(0.5)
        process.stop()
        await asyncio.sleep(9.5)
        process.resume()
        await answer

    played(program)
    assert told == pytest.approx([1.0, 10.0] if is_sent else [10.0, 11.0])


def test_one_that_died_makes_no_further_step_and_its_thread_ends() -> None:
    told: list[str] = []
    before = threading.active_count()

    def call() -> None:
        try:
            pause(1.0)
        except EndedError:
            told.append("ended")
            pause(1.0)  # It does not pause any more.
        finally:
            told.append("cleaned up")

    async def program(process: Process) -> None:
        answer = process.run_blocking(POOL, call)
        await asyncio.sleep(0.5)
        assert threading.active_count() == before + 1
        await process.die()
        assert threading.active_count() == before
        with pytest.raises(OutcomeUnknownError):
            await answer
        await asyncio.sleep(5)

    played(program)
    assert told == ["ended", "cleaned up"]


def test_a_lock_holds_between_steps_and_its_owner_takes_it_again() -> None:
    lock = StepLock()
    told: list[str] = []

    def call(name: str) -> None:
        with lock, lock:
            told.append(name)
            pause(1.0)
            told.append(name)

    async def program(process: Process) -> None:
        both = [process.run_blocking(POOL, lambda n=n: call(n)) for n in "ab"]  # type: ignore[misc]
        await asyncio.sleep(0.5)
        with pytest.raises(RuntimeError, match="the loop wants it"), lock:
            pass
        await asyncio.gather(*both)
        with lock:
            told.append("free")

    played(program)
    assert told in (["a", "a", "b", "b", "free"], ["b", "b", "a", "a", "free"])


def test_what_is_not_in_steps_does_not_pause() -> None:
    assert not pause(1.0)
