"""What is repeated, how often, with which waits, and what the caller hears in the end.

The model: each attempt has one of four fates. What must hold after it: a change has its effect at
most once; a caller can rely on an outcome that is reported as known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStat, ChunkStorage
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkStorageFullError,
    ChunkThrottledError,
    ChunkUnavailableError,
    ClosedError,
    Outcome,
)
from siltstone.core.storage.retries import Retries, RetryingChunkStorage
from siltstone.testing.faults.faulty_chunk_storage import (
    Fate,
    FaultyChunkStorage,
    Plan,
    StorageCall,
)
from siltstone.testing.virtual_time import VirtualEnvironment

ATTEMPTS = 4
FAILURES = (Fate.REFUSED, Fate.LOST_REPLY, Fate.LOST_CALL)


def fates(*these: Fate) -> Plan:
    """The first calls have these fates; all later ones succeed."""

    def plan(call: StorageCall) -> Fate:
        return these[call.number - 1] if call.number <= len(these) else Fate.DONE

    return plan


class Place:
    """A memory service with one chunk, calls of chosen fates, and the wrapper around them."""

    def __init__(self, *these: Fate, deadline_s: float = 30.0, seed: int = 0) -> None:
        self.service = MemoryChunkStorage()
        self.service.create("a", [b"abc"])
        self.environment = VirtualEnvironment(seed)
        self.faulty = FaultyChunkStorage(self.service, fates(*these))
        retries = Retries(attempts=ATTEMPTS, deadline_s=deadline_s)
        self.storage = RetryingChunkStorage(self.faulty, self.environment, retries)

    def names(self) -> list[str]:
        return [chunk.name for chunk in self.service.list()]


def read(storage: ChunkStorage) -> bytes:
    buffer = bytearray(3)
    assert storage.read_into("a", 0, buffer) == 3
    return bytes(buffer)


LOOKS: dict[str, tuple[Callable[[ChunkStorage], object], object]] = {
    "read_into": (read, b"abc"),
    "stat": (lambda storage: storage.stat("a").length, 3),
    "list": (lambda storage: [chunk.name for chunk in storage.list()], ["a"]),
    "used_space": (lambda storage: storage.used_space(), 3),
}


@pytest.mark.parametrize("operation", LOOKS)
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("count", range(ATTEMPTS + 1))
def test_a_look_is_repeated(operation: str, failure: Fate, count: int) -> None:
    look, seen = LOOKS[operation]
    place = Place(*[failure] * count)
    if count < ATTEMPTS:
        assert look(place.storage) == seen
    else:
        with pytest.raises(ChunkUnavailableError, match=failure.value):
            look(place.storage)
    assert len(place.faulty.calls) == min(count + 1, ATTEMPTS)


@pytest.mark.parametrize("these", list(itertools.product(FAILURES, repeat=2)))
@pytest.mark.parametrize("count", range(3))
def test_a_delete_is_repeated(these: Sequence[Fate], count: int) -> None:
    place = Place(*these[:count])
    place.storage.delete("a")
    assert place.names() == []


@pytest.mark.parametrize("these", list(itertools.product(FAILURES, repeat=ATTEMPTS)))
def test_a_delete_that_stays_in_doubt_says_so(these: Sequence[Fate]) -> None:
    place = Place(*these)
    applied = Fate.LOST_REPLY in these
    if these.count(Fate.LOST_REPLY) > 1:
        # The second of them finds no chunk any more, and that is an answer.
        place.storage.delete("a")
    else:
        with pytest.raises(ChunkUnavailableError) as caught:
            place.storage.delete("a")
        sure = all(fate is Fate.REFUSED for fate in these)
        assert caught.value.outcome is (Outcome.NOT_APPLIED if sure else Outcome.UNKNOWN)
    assert place.names() == ([] if applied else ["a"])


def test_a_refused_delete_of_nothing_finds_nothing() -> None:
    place = Place(Fate.REFUSED)
    place.service.delete("a")
    with pytest.raises(ChunkNotFoundError):
        place.storage.delete("a")
    assert len(place.faulty.calls) == 2


def test_a_doubt_stays_when_a_later_attempt_is_denied() -> None:
    place = Place(Fate.LOST_CALL)
    denied = ChunkAccessDeniedError("no", chunk="a", operation="delete")

    def deny(operation: str, name: str) -> None:
        if len(place.faulty.calls) == 2:
            raise denied

    place.faulty.before = deny
    with pytest.raises(ChunkAccessDeniedError) as caught:
        place.storage.delete("a")
    assert caught.value is denied
    assert caught.value.outcome is Outcome.UNKNOWN


CHANGES: dict[str, Callable[[ChunkStorage], None]] = {
    "create": lambda storage: storage.create("new", [b"x"]),
    "write": lambda storage: storage.write("a", 3, [b"x"]),
    "concat": lambda storage: storage.concat("new", [("a", 1)]),
    "seal": lambda storage: storage.seal("a"),
}


@pytest.mark.parametrize("operation", CHANGES)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_change_is_never_repeated(operation: str, failure: Fate) -> None:
    place = Place(failure)
    with pytest.raises(ChunkUnavailableError, match=failure.value) as caught:
        CHANGES[operation](place.storage)
    known = failure is Fate.REFUSED
    assert caught.value.outcome is (Outcome.NOT_APPLIED if known else Outcome.UNKNOWN)
    assert [call.operation for call in place.faulty.calls] == [operation]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_whole_create_is_left_to_its_caller_to_repeat(failure: Fate) -> None:
    place = Place(failure)
    with pytest.raises(ChunkUnavailableError, match=failure.value):
        place.storage.create_whole("new", [b"x"])
    assert [call.operation for call in place.faulty.calls] == ["create"]
    assert place.names() == (["a", "new"] if failure is Fate.LOST_REPLY else ["a"])


@pytest.mark.parametrize(
    "error",
    [
        ChunkNotFoundError("no", chunk="a", operation="stat"),
        ChunkOffsetError(chunk="a", operation="stat", expected=1, actual=2),
        ChunkStorageFullError("no", chunk="a", operation="stat"),
        ChunkAccessDeniedError("no", chunk="a", operation="stat"),
        ClosedError("no"),
        ValueError("no"),
    ],
)
@pytest.mark.parametrize("operation", [*LOOKS, "delete"])
def test_an_answer_is_an_answer(error: Exception, operation: str) -> None:
    place = Place()

    def answer(operation: str, name: str) -> None:
        raise error

    place.faulty.before = answer
    call = LOOKS[operation][0] if operation in LOOKS else lambda storage: storage.delete("a")
    with pytest.raises(type(error)) as caught:
        call(place.storage)
    assert caught.value is error
    assert len(place.faulty.calls) == 1
    assert place.environment.clock.now == 0


class Broken:
    """A listing that breaks after every ``step`` chunks, or only once."""

    def __init__(self, inner: ChunkStorage, step: int) -> None:
        self.inner = inner
        self.step = step
        self.begun: list[str] = []

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[ChunkStat]:
        self.begun.append(start_after)
        listing = self.inner.list(prefix, start_after)

        def listed() -> Iterator[ChunkStat]:
            for number, found in enumerate(listing):
                if number == self.step:
                    raise ChunkUnavailableError("cut", chunk=prefix, operation="list")
                yield found

        return listed()


@pytest.mark.parametrize("step", range(1, 12))
def test_a_broken_listing_continues_where_it_was(step: int) -> None:
    place = Place()
    names = ["a", *(f"b/{number:02d}" for number in range(10))]
    for name in names[1:]:
        place.service.create(name, [b"x"])
    broken = Broken(place.service, step)
    place.storage.inner = broken  # type: ignore[assignment]
    assert [found.name for found in place.storage.list()] == names
    assert [found.name for found in place.storage.list("b/", "b/04")] == names[6:]
    assert broken.begun[1 : len(names) // step] == names[step - 1 :: step][: len(names) // step - 1]


def test_a_listing_without_progress_ends() -> None:
    place = Place()
    broken = Broken(place.service, 0)
    place.storage.inner = broken  # type: ignore[assignment]
    with pytest.raises(ChunkUnavailableError, match="cut"):
        list(place.storage.list())
    assert broken.begun == [""] * ATTEMPTS


def test_the_waits_grow_and_differ() -> None:
    def waits(seed: int) -> list[float]:
        place = Place(*[Fate.REFUSED] * 3, seed=seed)
        times: list[float] = []
        place.faulty.before = lambda operation, name: times.append(place.environment.clock.now)
        place.storage.stat("a")
        return [later - earlier for earlier, later in itertools.pairwise(times)]

    for seed in range(20):
        first, second, third = waits(seed)
        assert 0.05 <= first <= 0.1
        assert 0.1 <= second <= 0.2
        assert 0.2 <= third <= 0.4
    assert waits(1) == waits(1) != waits(2)


@pytest.mark.parametrize("cost_s", [0.0, 3.0, 10.0, 11.0, 40.0])
def test_no_attempt_begins_after_the_deadline(cost_s: float) -> None:
    place = Place(*[Fate.LOST_CALL] * ATTEMPTS, deadline_s=10.0)
    begun: list[float] = []

    def slow(operation: str, name: str) -> None:
        begun.append(place.environment.clock.now)
        place.environment.clock.now += cost_s

    place.faulty.before = slow
    with pytest.raises(ChunkError):
        place.storage.stat("a")
    assert len(begun) == {0.0: 4, 3.0: 4, 10.0: 1, 11.0: 1, 40.0: 1}[cost_s]
    assert all(time <= 10.0 for time in begun)


class Door:
    """Refuses the first calls as too many; used as ``before`` of a faulty storage."""

    def __init__(self, count: int, retry_after_s: float | None) -> None:
        self.count = count
        self.retry_after_s = retry_after_s

    def __call__(self, operation: str, name: str) -> None:
        self.count -= 1
        if self.count >= 0:
            raise ChunkThrottledError(
                "slow down", chunk=name, operation=operation, retry_after_s=self.retry_after_s
            )


@pytest.mark.parametrize(("retry_after_s", "least"), [(None, 0.05), (4.0, 4.0)])
def test_a_throttled_look_is_repeated_when_the_service_says(
    retry_after_s: float | None, least: float
) -> None:
    place = Place()
    place.faulty.before = Door(2, retry_after_s)
    assert read(place.storage) == b"abc"
    assert 2 * least <= place.environment.monotonic() <= 2 * least + 0.5


def test_a_service_that_asks_for_longer_than_there_is_time_is_not_waited_for() -> None:
    place = Place(deadline_s=3.0)
    place.faulty.before = Door(1, 4.0)
    with pytest.raises(ChunkThrottledError):
        place.storage.stat("a")
    assert place.environment.monotonic() == 0.0


def test_a_throttled_call_is_left_to_the_layer_that_sends_fewer() -> None:
    place = Place()
    place.faulty.before = Door(1, None)
    retries = Retries(attempts=ATTEMPTS, deadline_s=30.0, throttled=False)
    storage = RetryingChunkStorage(place.faulty, place.environment, retries)
    with pytest.raises(ChunkThrottledError):
        storage.stat("a")
    assert len(place.faulty.calls) == 1


def test_a_throttled_change_is_not_repeated() -> None:
    place = Place()
    place.faulty.before = Door(1, None)
    with pytest.raises(ChunkThrottledError):
        place.storage.create("b", [b"x"])
    assert place.names() == ["a"]
