"""A service that takes few calls at a time is sent fewer calls, and everything gets done.

The model: a service that refuses every call while more than ``takes`` calls are in flight. What
must hold: each call has its effect once, its caller hears so, and soon no call is refused any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import Pool
from siltstone.core.errors import (
    ChunkNotFoundError,
    ChunkThrottledError,
    Outcome,
    StorageSuspendedError,
)
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.call_stats import CallLimits
from siltstone.core.storage.circuit_breaker import CircuitLimits, CircuitState
from siltstone.core.storage.concurrency_limit import Slots
from siltstone.testing.faults.faulty_chunk_storage import FaultyChunkStorage
from siltstone.testing.virtual_time import VirtualEnvironment

T = TypeVar("T")
THREADS = 16
LIMITS = CallLimits(slow_s=1e9, circuit=CircuitLimits(failures_max=5, probe_s=5.0))


class Counting(VirtualEnvironment):
    """Knows how many blocking calls are in flight."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, latency=lambda pool, chance: 0.01 + 0.05 * chance.random())
        self.in_flight = 0

    async def run_blocking(self, pool: Pool, call: Callable[[], T]) -> T:
        self.in_flight += 1
        try:
            return await super().run_blocking(pool, call)
        finally:
            self.in_flight -= 1


class Place:
    """A bridge to a service that refuses calls beyond ``takes``, with a fixed outcome."""

    def __init__(self, takes: int, *, seed: int = 0, retry_after_s: float | None = None) -> None:
        self.environment = Counting(seed)
        self.takes = takes
        self.refused: list[float] = []
        self.outcome = Outcome.NOT_APPLIED
        self.retry_after_s = retry_after_s
        self.memory = MemoryChunkStorage()
        self.service = FaultyChunkStorage(self.memory, before=self.door)
        self.storage = AsyncChunkStorage(
            self.service, self.environment, threads=THREADS, deadline_s=60.0, limits=LIMITS
        )

    def door(self, operation: str, name: str) -> None:
        if self.environment.in_flight > self.takes:
            self.refused.append(self.environment.monotonic())
            raise ChunkThrottledError(
                "slow down",
                chunk=name,
                operation=operation,
                outcome=self.outcome,
                retry_after_s=self.retry_after_s,
            )

    async def create(self, count: int) -> None:
        await asyncio.gather(*(self.storage.create(f"{n:04d}", [b"x"]) for n in range(count)))


def play(place: Place, scenario: Callable[[], object]) -> None:
    async def body() -> None:
        work = scenario()
        assert asyncio.iscoroutine(work)
        await work

    with place.environment.runner() as runner:
        runner.run(body())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("takes", [1, 2, 3, 7])
def test_everything_drains_through_a_service_that_takes_few_calls(takes: int, seed: int) -> None:
    place = Place(takes, seed=seed)
    limits = []

    async def scenario() -> None:
        await place.create(300)
        limits.append(place.storage.limit)
        place.takes = THREADS
        await asyncio.gather(*(place.storage.stat("0000") for _ in range(400)))
        limits.append(place.storage.limit)

    play(place, scenario)
    assert [chunk.name for chunk in place.memory.list()] == [f"{n:04d}" for n in range(300)]
    assert place.refused
    assert limits[0] <= 2 * takes + 2
    assert limits[1] == THREADS
    created = [call for call in place.service.calls if call.operation == "create"]
    assert len(created) == 300 + len(place.refused)


def test_the_same_seed_plays_the_same_refusals() -> None:
    def refusals() -> list[float]:
        place = Place(2, seed=5)
        play(place, lambda: place.create(100))
        return place.refused

    assert refusals() == refusals()


def test_throttles_are_no_silence_and_are_counted() -> None:
    place = Place(3)

    async def scenario() -> None:
        await place.create(100)

    play(place, scenario)
    recent = place.storage.watch.recent()
    assert recent.throttled == len(place.refused) > 0
    assert recent.unanswered == 0
    assert place.storage.watch.circuit.state is CircuitState.CLOSED


@pytest.mark.parametrize("retry_after_s", [3.0, 17.5])
def test_the_time_that_the_service_names_is_waited_for(retry_after_s: float) -> None:
    place = Place(0, retry_after_s=retry_after_s)

    async def scenario() -> None:
        work = asyncio.ensure_future(place.storage.stat("a"))
        while len(place.refused) < 3:
            await place.environment.sleep(0.5)
        place.takes = THREADS
        with pytest.raises(ChunkNotFoundError):
            await work

    play(place, scenario)
    gaps = [after - before for before, after in zip(place.refused, place.refused[1:], strict=False)]
    assert all(retry_after_s <= gap <= retry_after_s + 2.1 for gap in gaps), gaps


def test_a_doubtful_refusal_of_a_change_is_not_repeated() -> None:
    place = Place(0)
    place.outcome = Outcome.UNKNOWN

    async def scenario() -> None:
        with pytest.raises(ChunkThrottledError) as caught:
            await place.storage.create("a", [b"x"])
        assert caught.value.outcome is Outcome.UNKNOWN

    play(place, scenario)
    assert len(place.service.calls) == 1


def test_a_change_whose_check_was_throttled_is_not_repeated() -> None:
    place = Place(THREADS)

    def call(storage: ChunkStorage) -> None:
        storage.create("a", [b"x"])
        place.takes = 0
        storage.stat("a")

    async def scenario() -> None:
        with pytest.raises(ChunkThrottledError):
            await place.storage.run("create", "a", call)

    play(place, scenario)
    assert [call.operation for call in place.service.calls] == ["create", "stat"]


def test_a_call_that_is_throttled_for_ever_ends_in_time_and_had_no_effect() -> None:
    place = Place(0, retry_after_s=25.0)

    async def scenario() -> None:
        with pytest.raises(ChunkThrottledError) as caught:
            await place.storage.create("a", [b"x"])
        assert caught.value.outcome is Outcome.NOT_APPLIED
        assert len(place.refused) == 3
        assert place.environment.monotonic() <= 60.0

    play(place, scenario)
    assert list(place.memory.list()) == []


def test_a_service_that_refuses_even_one_call_at_a_time_is_away() -> None:
    place = Place(0)

    async def scenario() -> None:
        with pytest.raises(StorageSuspendedError):
            await place.storage.stat("a")

    play(place, scenario)
    assert place.storage.watch.circuit.state is CircuitState.OPEN


def test_slots_are_given_in_order_and_a_cancelled_waiter_keeps_none() -> None:
    async def scenario() -> None:
        slots, order = Slots(2), []

        async def work(number: int) -> None:
            await slots.acquire()
            order.append(number)

        await slots.acquire()
        await slots.acquire()
        tasks = [asyncio.create_task(work(number)) for number in range(4)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        slots.release()
        tasks[1].cancel()  # it has been given the slot, and does not know it yet
        for _ in range(4):
            await asyncio.sleep(0)
        assert order == [2]
        slots.release()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == [2, 3]

    asyncio.run(scenario())


def test_one_burst_of_refusals_halves_once() -> None:
    slots = Slots(16)
    for _ in range(16):
        slots.throttled(0.0, 1.0)
    assert slots.limit == 8
    slots.throttled(1.0, 2.0)
    assert slots.limit == 4
    for now in range(3, 10):
        slots.throttled(now, now)
    assert slots.limit == 1
    for _ in range(16 * 16):
        slots.answered()
    assert slots.limit == 1, "few calls tell little about a service"
