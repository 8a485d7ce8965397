"""How many bytes move in a time, which calls wait, and which never do. All on virtual time."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import Outcome
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.bandwidth import (
    BURST_S,
    SMALL_BYTES,
    SMALL_WAIT_S,
    Bandwidth,
    BandwidthError,
)
from siltstone.core.storage.limited import Bandwidths, LimitedChunkStorage
from siltstone.testing.virtual_time import VirtualEnvironment

RATE = 10 * MIB


class Place:
    """A memory service with a limit before it."""

    def __init__(
        self, *, up: int | None = None, down: int | None = None, longest_s: float = 30
    ) -> None:
        self.environment = VirtualEnvironment()
        self.memory = MemoryChunkStorage()
        rates = [None if rate is None else Bandwidth(self.environment, rate) for rate in (up, down)]
        self.storage = LimitedChunkStorage(
            self.memory,
            self.environment,
            Bandwidths(up=rates[0], down=rates[1], longest_s=longest_s),
        )

    def create(self, name: str, length: int) -> float:
        """Create a chunk; return how long that took."""
        begun = self.environment.monotonic()
        self.storage.create(name, [bytes(length)])
        return self.environment.monotonic() - begun


def test_bytes_move_at_the_rate_and_the_first_at_once() -> None:
    place = Place(up=RATE)
    took = [place.create(str(number), RATE) for number in range(6)]
    assert took == pytest.approx([0.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    place.environment.pause(100.0)
    assert place.create("later", RATE) == 0.0


def test_whole_creates_wait_for_their_turn_too() -> None:
    place = Place(up=MIB)
    begun = place.environment.monotonic()
    for number in range(4):
        place.storage.create_whole(f"{number}", [bytes(MIB)])
    assert place.environment.monotonic() - begun == pytest.approx(2.0)


@given(st.lists(st.tuples(st.integers(1, 3 * RATE), st.floats(0, 2)), min_size=1, max_size=40))
def test_the_rate_holds_over_any_time(calls: list[tuple[int, float]]) -> None:
    environment = VirtualEnvironment()
    bandwidth = Bandwidth(environment, RATE)
    moved: list[tuple[float, int]] = []
    for length, pause_s in calls:
        wait_s = bandwidth.wait_s(length)
        assert wait_s is not None
        if length > SMALL_BYTES:
            environment.pause(wait_s)
        moved.append((environment.monotonic(), length))
        environment.pause(pause_s)
    for last, (time_s, length) in enumerate(moved):
        if length <= SMALL_BYTES:
            continue
        for first in range(last):
            # A large call moves when the time of those before it has passed.
            total = sum(length for _, length in moved[first:last])
            assert total <= RATE * (time_s - moved[first][0] + BURST_S) + 1


def test_calls_go_in_their_order() -> None:
    bandwidth = Bandwidth(VirtualEnvironment(), RATE)
    waits = [bandwidth.wait_s(length) for length in (RATE, RATE, 5 * RATE, RATE, RATE)]
    assert waits == pytest.approx([0.0, 0.0, 1.0, 6.0, 7.0])


def test_a_small_call_hardly_waits_for_large_ones() -> None:
    place = Place(up=RATE)
    place.create("large", 20 * RATE)
    assert place.create("small", SMALL_BYTES) == pytest.approx(SMALL_WAIT_S)
    assert place.create("larger", SMALL_BYTES + 1) > 18


def test_reads_do_not_wait_for_writes() -> None:
    place = Place(up=RATE)
    place.create("a", 20 * RATE)
    assert place.storage.read_into("a", 0, bytearray(RATE)) == RATE
    assert place.environment.monotonic() == 0.0


def test_reads_wait_where_that_was_asked_for() -> None:
    place = Place(down=RATE)
    place.create("a", 3 * RATE)
    for _ in range(4):
        place.storage.read_into("a", 0, bytearray(RATE))
    assert place.environment.monotonic() == pytest.approx(2.0)


def test_a_call_that_would_wait_too_long_is_refused_and_nothing_is_taken() -> None:
    place = Place(up=RATE, longest_s=5.0)
    place.create("a", 9 * RATE)
    for _ in range(3):
        with pytest.raises(BandwidthError) as caught:
            place.create("b", RATE)
        assert caught.value.outcome is Outcome.NOT_APPLIED
        assert caught.value.retry_after_s == pytest.approx(8.0)
    assert place.create("small", 10) <= SMALL_WAIT_S
    place.environment.pause(caught.value.retry_after_s - 5.0)
    assert place.create("b", RATE) == pytest.approx(5.0, abs=0.2)


def test_a_bridge_sends_what_was_refused_when_its_turn_comes() -> None:
    environment = VirtualEnvironment()
    memory = MemoryChunkStorage()
    bandwidths = Bandwidths(up=Bandwidth(environment, RATE), longest_s=2.0)
    limited = LimitedChunkStorage(memory, environment, bandwidths)
    storage = AsyncChunkStorage(limited, environment, threads=4, deadline_s=60.0)

    async def scenario() -> None:
        await asyncio.gather(*(storage.create(str(n), [bytes(2 * RATE)]) for n in range(8)))
        assert storage.limit == 4, "the service has not complained"
        recent = storage.watch.recent()
        assert (recent.throttled, recent.unanswered) == (0, 0)

    with environment.runner() as runner:
        runner.run(scenario())
    assert len(list(memory.list())) == 8
    assert environment.monotonic() >= 13.0


def test_background_work_waits_without_a_thread() -> None:
    environment = VirtualEnvironment()
    background = Bandwidth(environment, RATE)
    storage = AsyncChunkStorage(MemoryChunkStorage(), environment, threads=1, background=background)

    async def scenario() -> None:
        await storage.pace(10 * RATE)
        pacing = asyncio.ensure_future(storage.pace(RATE))
        await storage.create("a", [bytes(RATE)])
        assert environment.monotonic() == 0.0
        await pacing
        assert environment.monotonic() == pytest.approx(9.0)

    with environment.runner() as runner:
        runner.run(scenario())
