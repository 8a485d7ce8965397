"""Owners on several machines, which know of one another only what the broker shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import siltstone
from services.kafka import Kafka
from siltstone.core.constants import container_of
from siltstone.core.errors import FencedError, StoreInUseError
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from siltstone.tier1.kafka.presence import this_process
from tests.faults.kafka.log_case import LINEAGE, KafkaCase, put
from tests.support.services.kafka_services import CONTAINER, new_topic, options_of, settings_of

SILENCE_S = 1.0
BEAT_S = 0.05
ENDS_S = 120.0

# A process that thinks that it is on another machine, and has container 1.
CHILD = """
import dataclasses, sys
import siltstone.tier1.kafka.fenced_log as fenced_log
here = fenced_log.this_process()
fenced_log.this_process = lambda: dataclasses.replace(here, host=b"another machine!")
import siltstone
store = siltstone.open(sys.argv[1], containers=[1])
store.create(sys.argv[2]).append(b"unflushed")
print("done", flush=True)
sys.stdin.read()
"""


class TestHosts(KafkaCase):
    def on(self, host: bytes) -> KafkaFencedLog:
        log = KafkaFencedLog(
            settings_of(self.broker.endpoint, self.topic),
            CONTAINER,
            here=replace(this_process(), host=host * 16),
            beat_s=BEAT_S,
            silence_s=SILENCE_S,
        )
        self._opened.append(log)
        return log

    def claim_on(self, host: bytes, *, new: bool = False, takeover: bool = False) -> KafkaFencedLog:
        log = self.on(host)
        owner = f"host={host.decode()}"
        log.claim(lineage=LINEAGE, new=new, above=0, takeover=takeover, owner=owner)
        return log

    def test_a_living_holder_of_another_machine_is_left_alone(self) -> None:
        log = self.claim_on(b"a", new=True)
        with pytest.raises(StoreInUseError) as caught:
            self.claim_on(b"b")
        assert caught.value.owner == "host=a"
        assert put(log, b"still mine") == [0]
        held = self.on(b"c").holder()
        assert (held.epoch, held.alive, held.description) == (1, True, "host=a")

    def test_a_silent_holder_of_another_machine_is_dead(self) -> None:
        log = self.claim_on(b"a", new=True)
        put(log, b"a")
        log.abandon()
        assert not self.on(b"c").holder().alive
        after = self.claim_on(b"b")
        assert put(after, b"b") == [1]

    def test_a_holder_that_closed_needs_no_listening(self) -> None:
        self.claim_on(b"a", new=True).close()
        log = self.on(b"b")
        log._claimant = replace(log._claimant, silence_s=1e9)
        log.claim(lineage=LINEAGE, new=False, above=0, takeover=False, owner="b")

    def test_a_holder_that_was_fenced_is_not_heard_for_its_successor(self) -> None:
        old = self.claim_on(b"a", new=True)
        heart = old._heart
        assert heart is not None
        new = self.claim_on(b"b", takeover=True)
        heart._thread.join(ENDS_S)
        assert not heart._thread.is_alive(), "it has seen the claim, and writes nothing more"
        new.abandon()
        assert not self.on(b"c").holder().alive, "the old one lives, and is not the owner"
        put(self.claim_on(b"c"), b"c")
        with pytest.raises(FencedError):
            put(old, b"void")


def test_two_processes_share_a_store_and_one_takes_over_from_the_other(
    kafka: Kafka, kafka_plugin: None, tmp_path: Path
) -> None:
    options = options_of(kafka.endpoint, new_topic(), servers=kafka.endpoint)
    file = siltstone.init(tmp_path / "store", containers=2, log="kafka", log_options=options)
    mine, theirs = (
        next(f"s{n}" for n in range(100) if container_of(f"s{n}", 2) == index) for index in (0, 1)
    )
    with siltstone.open(file, containers=[0]) as store:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(file), theirs],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == "done\n"
            store.create(mine).append(b"mine")
            with pytest.raises(StoreInUseError, match=f"pid={child.pid}"):
                siltstone.open(file, containers=[1])
            child.send_signal(signal.SIGKILL)
        # It is dead, and on another machine: after some seconds without a sign of life it goes.
        with siltstone.open(file, containers=[1]) as taken:
            assert taken.segment(theirs).read(0, 100) == b"unflushed"
            taken.segment(theirs).append(b" and more")
        assert store.segment(mine).read(0, 100) == b"mine"
