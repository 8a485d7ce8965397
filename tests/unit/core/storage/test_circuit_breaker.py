"""When calls are refused unsent, which call probes, and what ends the refusals."""

from __future__ import annotations

import asyncio
import logging

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.errors import (
    ChunkNotFoundError,
    ChunkUnavailableError,
    Outcome,
    StorageSuspendedError,
)
from siltstone.core.metrics import CALL_BYTES, CALL_QUEUE, CALL_SERVICE, NO_METRICS, Metrics
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.call_stats import CallLimits, CallReport, CallWatch
from siltstone.core.storage.circuit_breaker import Circuit, CircuitLimits, CircuitState
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support.async_tests import running_clock
from tests.support.recorder import Recorder

pytestmark = pytest.mark.virtual_time

LIMITS = CallLimits(slow_s=1.0, circuit=CircuitLimits(failures_max=3, probe_s=5.0))


def state(circuit: Circuit) -> CircuitState:
    return circuit.state


def suspended(place: Place) -> bool:
    """Whether it would refuse a call now; that may change a moment later."""
    circuit = place.storage.watch.circuit
    return not place.storage.healthy or not circuit.admits(place.environment.monotonic())


def test_the_circuit_step_by_step() -> None:
    circuit = Circuit(LIMITS.circuit)
    for now in (0.0, 1.0):
        circuit.sent(now)
        circuit.unanswered(now)
        assert circuit.admits(now)
    circuit.answered()
    for now in (2.0, 3.0, 4.0):
        assert state(circuit) is CircuitState.CLOSED
        circuit.unanswered(now)
    assert state(circuit) is CircuitState.OPEN
    assert not circuit.admits(8.9)
    assert not circuit.probe_due(8.9)
    assert circuit.admits(9.0)
    circuit.sent(9.0)
    assert state(circuit) is CircuitState.PROBING
    assert not circuit.admits(100.0), "one probe at a time"
    circuit.unanswered(100.0)
    assert state(circuit) is CircuitState.OPEN
    assert not circuit.admits(109.9)
    circuit.sent(110.0)
    circuit.answered()
    assert state(circuit) is CircuitState.CLOSED
    assert circuit.failures == 0


def test_probes_become_rarer_and_begin_again() -> None:
    circuit = Circuit(LIMITS.circuit)

    def pauses(count: int, now: float) -> list[float]:
        found = []
        for _ in range(3):
            circuit.unanswered(now)
        for _ in range(count):
            start = now
            while not circuit.probe_due(now):
                now += 1.0
            found.append(now - start)
            circuit.sent(now)
            circuit.unanswered(now)
        return found

    assert pauses(6, 0.0) == [5.0, 10.0, 20.0, 30.0, 30.0, 30.0]
    circuit.answered()
    assert pauses(2, 1_000.0) == [5.0, 10.0]


class Place:
    """A bridge to a memory service on virtual time, with a fate for all calls."""

    def __init__(self, *, threads: int = 2, metrics: Metrics = NO_METRICS) -> None:
        self.environment = VirtualEnvironment(clock=running_clock())
        self.service = FaultyChunkStorage(MemoryChunkStorage())
        self.storage = AsyncChunkStorage(
            self.service,
            self.environment,
            threads=threads,
            deadline_s=10.0,
            limits=LIMITS,
            metrics=metrics,
        )
        self.fate = Fate.DONE
        self.service.plan = lambda call: self.fate

    @property
    def sent(self) -> int:
        return len(self.service.calls)


async def fail(place: Place, kind: type[ChunkUnavailableError] = ChunkUnavailableError) -> None:
    with pytest.raises(ChunkUnavailableError) as caught:
        await place.storage.create("a", [b"x"])
    assert type(caught.value) is kind


@pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.LOST_CALL])
async def test_an_open_circuit_sends_one_probe_at_a_time(fate: Fate) -> None:
    place = Place()
    place.fate = fate
    for _ in range(3):
        await fail(place)
    assert suspended(place)
    for _ in range(100):
        with pytest.raises(StorageSuspendedError, match="not sent") as caught:
            await place.storage.write("a", 0, [b"x"])
        assert caught.value.outcome is Outcome.NOT_APPLIED
    assert place.sent == 3
    for probes in range(1, 4):
        await place.environment.sleep(5.0 * 2 ** (probes - 1))
        assert not suspended(place)
        await fail(place)
        await fail(place, StorageSuspendedError)
        assert place.sent == 3 + probes
    await place.environment.sleep(30.0)
    place.fate = Fate.DONE
    await place.storage.create("a", [b"x"])
    await place.storage.stat("a")
    assert not suspended(place)


async def test_while_a_probe_is_on_its_way_others_are_refused() -> None:
    place = Place()
    place.fate = Fate.LOST_CALL
    for _ in range(3):
        await fail(place)
    await place.environment.sleep(5.0)
    place.fate = Fate.DONE
    place.environment.latency = lambda pool, chance: 4.0
    probe = asyncio.ensure_future(place.storage.create("a", [b"x"]))
    await place.environment.sleep(1.0)
    await fail(place, StorageSuspendedError)
    await probe
    assert (await place.storage.stat("a")).length == 1


async def test_an_answer_of_any_kind_is_one() -> None:
    place = Place()
    for _ in range(5):
        place.fate = Fate.LOST_CALL
        await fail(place)
        await fail(place)
        place.fate = Fate.DONE
        with pytest.raises(ChunkNotFoundError):
            await place.storage.stat("nothing")
    assert not suspended(place)


async def test_failing_deletions_keep_nothing_else_from_being_sent() -> None:
    place = Place()
    await place.storage.create("a", [b"x"])
    place.fate = Fate.REFUSED
    for _ in range(10):
        with pytest.raises(ChunkUnavailableError, match="injected"):
            await place.storage.delete("a")
    assert not suspended(place)
    for _ in range(3):
        await fail(place)
    await place.environment.sleep(5.0)
    with pytest.raises(ChunkUnavailableError, match="injected"):
        await place.storage.delete("a")  # the probe
    assert suspended(place)


async def test_calls_that_hang_open_the_circuit_and_then_hold_every_thread() -> None:
    place = Place()
    place.environment.latency = lambda pool, chance: float("inf")
    results = await asyncio.gather(
        *(place.storage.stat(str(number)) for number in range(4)), return_exceptions=True
    )
    # Two were sent and hang; two waited for a thread and were not sent.
    assert [type(result) for result in results] == [ChunkUnavailableError] * 4
    outcomes = [result.outcome for result in results if isinstance(result, ChunkUnavailableError)]
    assert outcomes == [Outcome.UNKNOWN] * 2 + [Outcome.NOT_APPLIED] * 2
    assert not place.storage.healthy
    await place.environment.sleep(1_000)
    await fail(place, StorageSuspendedError)


async def test_a_call_that_waited_for_a_thread_is_not_sent_once_the_circuit_is_open() -> None:
    place = Place()
    place.environment.latency = lambda pool, chance: 2.0
    place.fate = Fate.LOST_CALL
    results = await asyncio.gather(
        *(place.storage.create(str(number), [b"x"]) for number in range(8)),
        return_exceptions=True,
    )
    assert place.sent == 4, "two rounds of two calls until three had failed"
    kinds = [type(result) for result in results]
    assert kinds == [ChunkUnavailableError] * 4 + [StorageSuspendedError] * 4


async def test_the_time_in_the_queue_is_told_apart() -> None:
    recorder = Recorder()
    place = Place(metrics=recorder)
    place.environment.latency = lambda pool, chance: 2.0
    await asyncio.gather(*(place.storage.create(str(n), [b"xy", b"z"]) for n in range(4)))
    assert recorder.values[CALL_QUEUE.name] == [0.0, 0.0, 2.0, 2.0]
    assert recorder.values[CALL_SERVICE.name] == [2.0] * 4
    assert recorder.sums[CALL_BYTES.name, "create"] == 4 * 3
    assert place.storage.watch.recent().slow == 4
    assert place.storage.watch.recent().latency_s == 2.0
    await place.environment.sleep(100.0)
    assert place.storage.watch.recent().count == 0


def test_slow_calls_are_warned_of_but_not_each(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    watch = CallWatch(lambda: now, LIMITS)

    def end(service_s: float) -> None:
        watch.ended(
            CallReport(
                operation="stat",
                chunk="c",
                queue_s=50.0,
                service_s=service_s,
                answered=True,
                failed=False,
            )
        )

    with caplog.at_level(logging.WARNING):
        end(0.9)
        assert caplog.messages == []
        for _ in range(5):
            end(1.5)
        assert len(caplog.messages) == 1
        assert "operation=stat chunk=c seconds=1.500 others=0" in caplog.messages[0]
        now = 10.0
        end(2.0)
        assert "seconds=2.000 others=4" in caplog.messages[1]
