"""What is counted, compared with what reached the service."""

from __future__ import annotations

from collections import Counter

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.errors import ChunkError, ChunkThrottledError, ClosedError
from siltstone.core.metrics import REQUEST, REQUEST_BYTES, REQUESTS, Metric, Metrics
from siltstone.core.storage.metered import MeteredChunkStorage
from siltstone.core.storage.retries import Retries, RetryingChunkStorage
from siltstone.testing.faults.faulty_chunk_storage import Fate, FaultyChunkStorage, fail_number
from siltstone.testing.faults.slow_chunk_storage import SlowChunkStorage, Slowness
from siltstone.testing.virtual_time import VirtualEnvironment


class Kept(Metrics):
    """Keeps the measurements that it gets."""

    enabled = True

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.bytes: Counter[str] = Counter()
        self.seconds: list[tuple[str, float]] = []

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        if metric is REQUESTS:
            self.counts[labels] += int(amount)
        elif metric is REQUEST_BYTES:
            self.bytes[labels[0]] += int(amount)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        assert metric is REQUEST
        self.seconds.append((labels[0], value))


class Place:
    """A faulty, slow service, its meter, and a layer above that repeats calls."""

    def __init__(self) -> None:
        environment = VirtualEnvironment()
        self.kept = Kept()
        self.faulty = FaultyChunkStorage(MemoryChunkStorage())
        slow = SlowChunkStorage(self.faulty, environment, Slowness(latency_s=0.25))
        self.metered = MeteredChunkStorage(slow, environment, self.kept)
        retries = Retries(attempts=4, deadline_s=30.0)
        self.storage = RetryingChunkStorage(self.metered, environment, retries)


def test_a_whole_create_is_a_create() -> None:
    place = Place()
    place.storage.create_whole("a", [b"abc", b"de"])
    with pytest.raises(ChunkError):
        place.storage.create_whole("a", [b"x"])
    assert place.kept.counts == {("create", "none"): 1, ("create", "exists"): 1}
    assert place.kept.bytes == {"create": 5}


def test_requests_bytes_and_times_are_those_of_the_service() -> None:
    place = Place()
    place.storage.create("a", [b"abc", b"de"])
    place.storage.write("a", 5, [b"f"])
    assert place.storage.read_into("a", 2, bytearray(100)) == 4
    assert len(list(place.storage.list())) == 1
    place.storage.concat("b", [("a", 6)])
    place.storage.delete("b")
    assert place.storage.delete_many(["a"]) == {}
    verbs = ["create", "write", "read_into", "list", "concat", "delete", "delete_many"]
    assert place.kept.counts == {(verb, "none"): 1 for verb in verbs}
    assert place.kept.bytes == {"create": 5, "write": 1, "read_into": 4}
    assert place.kept.seconds == [(verb, 0.25) for verb in verbs]


def test_each_repeat_is_a_request_with_its_error() -> None:
    place = Place()
    place.storage.create("a", [b"abc"])
    place.faulty.plan = fail_number(1, Fate.LOST_REPLY, "stat")
    assert place.storage.stat("a").length == 3
    counts = place.kept.counts
    assert (counts["stat", "unavailable"], counts["stat", "none"]) == (1, 1)


@pytest.mark.parametrize(("name", "kind"), [("missing", "not_found"), ("a/../b", "name")])
def test_errors_are_told_by_their_kind(name: str, kind: str) -> None:
    place = Place()
    with pytest.raises(ChunkError):
        place.storage.stat(name)
    assert place.kept.counts == {("stat", kind): 1}
    assert place.kept.bytes == {}


def test_a_throttle_and_what_is_no_answer_of_a_service_have_kinds_too() -> None:
    place = Place()

    def refuse(operation: str, name: str) -> None:
        raise ChunkThrottledError("slow down", chunk=name, operation=operation)

    place.faulty.before = refuse
    with pytest.raises(ChunkThrottledError):
        place.storage.create("a", [b"x"])
    place.storage.close()
    place.faulty.before = lambda operation, name: None
    with pytest.raises(ClosedError):
        place.storage.stat("a")
    assert place.kept.counts == {("create", "throttled"): 1, ("stat", "other"): 1}
