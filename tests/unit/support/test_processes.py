"""Processes on one clock: a seed repeats their order; they stop, continue and die."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from siltstone.core.environment import Pool
from siltstone.core.errors import OutcomeUnknownError
from siltstone.testing.virtual_time import Clock
from tests.support.simulation.processes import Delays, Process, ProcessLoop, current_process

POOL = Pool(name="service", threads=2)


class Stage:
    """A clock, and processes on it whose calls take a second each way."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = Clock()
        self.seed = seed

    def process(self, name: str, *, outlives: bool = False) -> Process:
        return Process(
            name,
            self.clock,
            self.seed,
            delays=lambda pool, chance: Delays(before_s=1.0, after_s=1.0),
            outlives=lambda pool: outlives,
        )

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        def loop() -> ProcessLoop:
            return ProcessLoop(self.clock, Random(self.seed))

        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(work)


def order_of(seed: int) -> list[int]:
    done: list[int] = []

    async def program() -> None:
        async def step(number: int) -> None:
            await asyncio.sleep(0)
            done.append(number)

        await asyncio.gather(*(step(number) for number in range(20)))

    Stage(seed).run(program())
    return done


def test_a_seed_chooses_the_order_of_steps() -> None:
    assert order_of(1) == order_of(1)
    assert order_of(1) != order_of(2)
    assert sorted(order_of(1)) == list(range(20))


def test_a_process_that_is_stopped_makes_no_step() -> None:
    stage = Stage()

    async def program() -> None:
        process = stage.process("p")
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await process.sleep(1)
                assert current_process() is process
                ticks.append(stage.clock.now)

        task = process.start(tick())
        await asyncio.sleep(2.5)
        process.stop()
        await asyncio.sleep(10)
        assert len(ticks) == 2
        process.resume()
        await asyncio.sleep(0.5)
        assert len(ticks) == 3
        task.cancel()

    stage.run(program())


def test_a_call_of_a_stopped_process_continues_and_its_answer_waits() -> None:
    stage = Stage()

    async def program() -> None:
        process = stage.process("p")
        effects: list[float] = []
        answers: list[float] = []

        async def ask() -> None:
            await process.run_blocking(POOL, lambda: effects.append(stage.clock.now))
            answers.append(stage.clock.now)

        process.start(ask())
        await asyncio.sleep(1.5)
        process.stop()
        await asyncio.sleep(5)
        assert effects == [pytest.approx(1.0)]
        assert not answers
        process.resume()
        await asyncio.sleep(0.1)
        assert answers == [pytest.approx(6.5)]

    stage.run(program())


@pytest.mark.parametrize("outlives", [False, True])
def test_a_dead_process_hears_nothing_and_its_last_calls_may_arrive(outlives: bool) -> None:
    stage = Stage()

    async def program() -> None:
        process = stage.process("p", outlives=outlives)
        effects: list[int] = []
        answers: list[int] = []

        async def ask(number: int) -> None:
            await process.run_blocking(POOL, lambda: effects.append(number))
            answers.append(number)

        for number in range(3):
            process.start(ask(number))
        await asyncio.sleep(0.5)
        await process.die()
        await asyncio.sleep(10)
        # The third one waited for a thread, and threads die with their process.
        assert len(effects) == (2 if outlives else 0)
        assert not answers
        with pytest.raises(OutcomeUnknownError):
            process.run_blocking(POOL, lambda: None)

    stage.run(program())


def test_as_many_calls_at_a_time_as_threads() -> None:
    stage = Stage()

    async def program() -> None:
        process = stage.process("p")
        await asyncio.gather(*(process.run_blocking(POOL, lambda: None) for _ in range(6)))
        assert stage.clock.now == pytest.approx(6.0)

    stage.run(program())
