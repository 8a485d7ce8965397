"""Three brokers, of which one or two die: nothing acknowledged is lost, and appends continue.

Each topic has three replicas, two of which have to have a frame before it is acknowledged.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import siltstone
from services.kafka_cluster import KafkaCluster
from siltstone.core.errors import ClosedError, FencedError, OutcomeUnknownError
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from tests.faults.kafka.log_case import LINEAGE, put
from tests.support.services.kafka_services import CONTAINER, Outside, new_topic, settings_of
from tests.support.soak import share_of

pytestmark = pytest.mark.timeout(3000)

WAIT_S = 120.0
DEADLINE_S = 60.0
AFTER_A_KILL = 20
"""Appends that are waited for, with a broker away."""
REPLICATED: dict[str, Any] = {"single_broker": False, "replication": 3}


def new_log(cluster: KafkaCluster, topic: str) -> KafkaFencedLog:
    more = REPLICATED | {"servers": cluster.endpoints, "deadline_s": DEADLINE_S}
    return KafkaFencedLog(settings_of("unused:1", topic, **more), CONTAINER)


def claim(cluster: KafkaCluster, topic: str, *, new: bool = False) -> KafkaFencedLog:
    log = new_log(cluster, topic)
    log.claim(lineage=LINEAGE, new=new, above=0, takeover=True, owner="owner")
    return log


def state_of(cluster: KafkaCluster, topic: str, container: int = CONTAINER) -> dict[str, Any]:
    """What the cluster says of the one partition."""
    with Outside(cluster.endpoints[0], topic, container).admin() as admin:
        (found,) = admin.describe_topics([f"{topic}-{container}"])
    part: dict[str, Any] = found["partitions"][0]
    return part


def wait_until_in_sync(cluster: KafkaCluster, topic: str) -> int:
    """Wait until all replicas are equal; return the number of the leader."""
    until = time.monotonic() + WAIT_S
    while True:
        part = state_of(cluster, topic)
        if len(part["isr_nodes"]) == 3 and part["leader_id"] > 0:
            return int(part["leader_id"])
        assert time.monotonic() < until, part
        time.sleep(0.1)


class Writer:
    """Appends one frame after the other, each a number, on a thread of its own."""

    def __init__(self, log: KafkaFencedLog) -> None:
        self.acknowledged: list[int] = []
        self.longest_s = 0.0
        self._log = log
        self._more = threading.Semaphore(0)
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                begun = time.monotonic()
                (index,) = put(self._log, b"%d" % len(self.acknowledged))
                self.longest_s = max(self.longest_s, time.monotonic() - begun)
                self.acknowledged.append(index)
                self._more.release()
        except BaseException as error:  # noqa: BLE001 - told to who waits
            self._failure = error

    def wait_for(self, count: int) -> None:
        """Wait for this many more appends."""
        while self._more.acquire(blocking=False):
            pass
        for _ in range(count):
            acquired = self._more.acquire(timeout=WAIT_S)
            assert acquired, self._failure

    def end(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        assert self._failure is None, self._failure


@pytest.mark.soak
def test_brokers_are_killed_in_turns_while_an_owner_appends(kafka_cluster: KafkaCluster) -> None:
    topic = new_topic()
    log = claim(kafka_cluster, topic, new=True)
    writer = Writer(log)
    rounds = share_of(30)
    longest: list[float] = []
    for number in range(rounds):
        leader = wait_until_in_sync(kafka_cluster, topic)
        # Each in turn, and the leader in between.
        victim = kafka_cluster.brokers[leader - 1 if number % 2 else number // 2 % 3]
        writer.longest_s = 0.0
        writer.wait_for(5)
        victim.kill()
        writer.wait_for(AFTER_A_KILL)
        longest.append(writer.longest_s)
        kafka_cluster.start()
        writer.wait_for(5)
    writer.end()
    log.abandon()
    after = claim(kafka_cluster, topic)
    count = len(writer.acknowledged)
    assert writer.acknowledged == list(range(count))
    assert [frame.body for frame in after.read(0)] == [b"%d" % number for number in range(count)]
    after.close()
    longest.sort()
    sys.stdout.write(
        f"{rounds} kills, {count} appends, none lost; the longest of each round: "
        f"median {longest[rounds // 2]:.2f} s, most {longest[-1]:.2f} s\n"
    )


@pytest.mark.soak
def test_a_successor_claims_while_the_leader_is_dead(kafka_cluster: KafkaCluster) -> None:
    topic = new_topic()
    old = claim(kafka_cluster, topic, new=True)
    put(old, b"a", b"b")
    for number in range(share_of(3)):
        leader = wait_until_in_sync(kafka_cluster, topic)
        kafka_cluster.brokers[leader - 1].kill()
        new = claim(kafka_cluster, topic)
        with pytest.raises(FencedError):
            put(old, b"void")
        put(new, b"%d" % number)
        old = new
        kafka_cluster.start()
    bodies = [frame.body for frame in old.read(0)]
    old.close()
    assert bodies == [b"a", b"b", *(b"%d" % number for number in range(share_of(3)))]


@pytest.mark.soak
def test_with_two_of_three_dead_appends_end_and_the_container_opens_again_by_itself(
    kafka_cluster: KafkaCluster, kafka_plugin: None, tmp_path: Path
) -> None:
    topic = new_topic()
    options: dict[str, Any] = {
        "servers": ",".join(kafka_cluster.endpoints),
        "topic": topic,
        "create_topics": True,
        "insecure": True,
        "deadline_s": 5.0,
    }
    file = siltstone.init(tmp_path / "store", log="kafka", log_options=options)
    told: list[str] = []
    with siltstone.open(file) as store:
        segment = store.create("a")
        append_until_it_is(segment, b"a")
        expected = bytes(segment.read(0, 1000))
        for number in range(share_of(3)):
            for place in (number, number + 1):
                kafka_cluster.brokers[place % 3].kill()
            begun = time.monotonic()
            with pytest.raises((OutcomeUnknownError, ClosedError)):
                segment.append(b"?")
            told.append(f"{time.monotonic() - begun:.1f}")
            kafka_cluster.start()
            begun = time.monotonic()
            most = append_until_it_is(segment, b";")
            told[-1] += f"+{time.monotonic() - begun:.1f}"
            found = bytes(segment.read(0, 1000))
            added = found.removeprefix(expected).removeprefix(b"?")
            assert found.startswith(expected)
            assert added in {b";" * count for count in range(1, most + 1)}
            expected = found
    sys.stdout.write(f"seconds until an append failed, and until the next one was there: {told}\n")


def append_until_it_is(segment: siltstone.Segment, data: bytes) -> int:
    """Append it; return how often it may be there."""
    until, attempts = time.monotonic() + WAIT_S, 0
    while True:
        attempts += 1
        try:
            segment.append(data)
            return attempts
        except ClosedError:
            attempts -= 1
        except OutcomeUnknownError:
            pass
        assert time.monotonic() < until
        time.sleep(0.05)
