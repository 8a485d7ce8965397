"""Brokers and owners that are killed: nothing that was acknowledged is lost, or there twice.

In every round a broker dies under a writer, or an owner dies while it appends. The soaks do more
rounds of the same.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from services.kafka import Kafka
from siltstone.core.errors import FencedError
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from tests.faults.kafka.log_case import LINEAGE, KafkaCase, put
from tests.support.services.kafka_services import CONTAINER, new_topic, settings_of
from tests.support.soak import share_of

ROOT = Path(__file__).parents[3]
LINES_BEFORE_THE_KILL = 20


class TestOwners(KafkaCase):
    def start(self, kind: str, name: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable, "-m", "tests.faults.kafka.owner",
                self.broker.endpoint, self.topic, kind, name,
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def _rounds(self, count: int) -> None:
        acknowledged: list[str] = []
        for number in range(count):
            owner = self.start("new" if number == 0 else "old", f"owner{number}")
            assert owner.stdout is not None
            claimed = owner.stdout.readline().split()
            assert claimed[:2] == ["claimed", str(number + 1)], claimed
            # Of each earlier owner, at most one frame is there that was not acknowledged to it.
            assert len(acknowledged) <= int(claimed[2]) <= len(acknowledged) + number
            lines = LINES_BEFORE_THE_KILL + number % 7
            acknowledged += [owner.stdout.readline().strip() for _ in range(lines)]
            owner.send_signal(signal.SIGKILL)
            acknowledged += owner.stdout.read().split()
            owner.wait(120)
            owner.stdout.close()
        found = [body.decode() for body in self.bodies()]
        assert len(found) == len(set(found)) <= len(acknowledged) + count
        told = set(acknowledged)
        assert [body for body in found if body in told] == acknowledged

    def test_ten_owners_are_killed(self) -> None:
        self._rounds(10)

    @pytest.mark.soak
    def test_a_hundred_owners_are_killed(self) -> None:
        self._rounds(share_of(100))

    def test_an_owner_that_was_stopped_meanwhile_is_told_nothing(self) -> None:
        owner = self.start("new", "old")
        assert owner.stdout is not None
        for _ in range(10):
            owner.stdout.readline()
        owner.send_signal(signal.SIGSTOP)
        log = self.claim(takeover=True)
        end = log.end()
        put(log, b"new")
        owner.send_signal(signal.SIGCONT)
        rest = owner.stdout.read().split()
        owner.stdout.close()
        assert owner.wait(120) != 0
        bodies = self.bodies()
        assert bodies[end] == b"new"
        # What it said afterwards was acknowledged before.
        assert all(body.encode() in bodies[:end] for body in rest)
        self.claim(takeover=True)
        with pytest.raises(FencedError):
            put(log, b"void")


def _rounds_of_the_broker(broker: Kafka, count: int) -> None:
    settings = settings_of(broker.endpoint, new_topic(), deadline_s=120.0)
    log = KafkaFencedLog(settings, CONTAINER)
    log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="writer")
    acknowledged: list[int] = []
    more = threading.Semaphore(0)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            acknowledged.append(log.append([b"%d" % len(acknowledged)], count=1))
            more.release()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(count):
            for _ in range(LINES_BEFORE_THE_KILL + number % 7):
                assert more.acquire(timeout=120)
            broker.kill()
            broker.start()
    finally:
        stop.set()
        writer.join(130)
    assert acknowledged == list(range(len(acknowledged)))
    assert len(acknowledged) > count * LINES_BEFORE_THE_KILL
    log.abandon()
    after = KafkaFencedLog(settings, CONTAINER)
    after.claim(lineage=LINEAGE, new=False, above=0, takeover=False, owner="next")
    assert [frame.body for frame in after.read(0)] == [b"%d" % n for n in acknowledged]
    after.close()


def test_three_brokers_are_killed_under_a_writer(new_kafka: Kafka) -> None:
    _rounds_of_the_broker(new_kafka, 3)


@pytest.mark.soak
def test_a_hundred_brokers_are_killed_under_a_writer(new_kafka: Kafka) -> None:
    _rounds_of_the_broker(new_kafka, share_of(100))
