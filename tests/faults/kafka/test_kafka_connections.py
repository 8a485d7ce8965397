"""Connections that end before and after the effect of a request, and brokers that are silent."""

from __future__ import annotations

import ssl
import threading

import pytest

from services.certificates import Authority
from siltstone.core.errors import FencedError, LogError, Outcome, StoreInUseError
from siltstone.core.records.frame import MAGIC
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.client import Client
from siltstone.tier1.kafka.line import LineError
from siltstone.tier1.kafka.partition import Partition
from siltstone.tier1.kafka.record_batch import encode_batch
from tests.faults.kafka.log_case import KafkaCase, put
from tests.support.kafka_relay import DELETE_RECORDS, PRODUCE, Harm
from tests.support.services.kafka_services import settings_of


class TestConnections(KafkaCase):
    def frames_outside(self) -> list[bytes]:
        return [value for value in self.outside.values() if value and value.startswith(MAGIC)]

    @pytest.mark.parametrize("harm", [Harm.CUT_BEFORE, Harm.CUT_AFTER])
    def test_a_cut_append_is_there_once(self, harm: Harm) -> None:
        log = self.create(relayed=True)
        put(log, b"a")
        self.relay.harm(PRODUCE, harm, harm)
        assert put(log, b"b", b"c", b"d") == [1, 2, 3]
        assert self.relay.done == [harm, harm]
        assert len(self.frames_outside()) == 4
        assert self.bodies() == [b"a", b"b", b"c", b"d"]

    def test_a_line_carries_batches_to_the_leader(self) -> None:
        self.create()
        client = Client(settings_of(self.broker.endpoint, self.topic).client_options())
        try:
            partition = Partition(client, self.outside.topic)
            assert partition.exists(Deadline(30))
            producer, epoch = partition.new_producer(Deadline(30))
            line = partition.line(Deadline(30))
            assert line is not None
            for sequence, value in enumerate((b"a", b"b")):
                batch = encode_batch(
                    [value], producer=producer, producer_epoch=epoch, sequence=sequence
                )
                assert line.produce(batch, Deadline(30)) == (1 + sequence, 0)
            assert self.outside.records()[1:] == [(1, b"a"), (2, b"b")]
        finally:
            client.close()
        with pytest.raises(LineError):
            line.produce([b"c"], Deadline(30))

    def test_a_line_is_as_secret_as_the_client(self, authority: Authority) -> None:
        certificate = authority.certificate()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.chain, certificate.key)
        self.relay.tls = context
        try:
            log = self.create(relayed=True, insecure=False, ca_bundle=str(authority.bundle))
            bodies = [bytes(length) for length in (1, 100_000, 8_000_000, 2)]
            put(log, *bodies)
            self.relay.harm(PRODUCE, Harm.CUT_AFTER)
            put(log, b"cut", b"and after")
            assert self.relay.done == [Harm.CUT_AFTER]
            log.abandon()
        finally:
            self.relay.tls = None
        assert self.bodies() == [*bodies, b"cut", b"and after"]

    @pytest.mark.parametrize("harm", [Harm.CUT_BEFORE, Harm.CUT_AFTER])
    def test_a_cut_claim_is_there_once(self, harm: Harm) -> None:
        put(self.create(), b"a")
        self.relay.harm(PRODUCE, harm)
        log = self.claim(relayed=True, takeover=True)
        assert (log.epoch, put(log, b"b")) == (2, [1])
        assert len(self.outside.values()) == 4

    @pytest.mark.parametrize("harm", [Harm.CUT_BEFORE, Harm.CUT_AFTER])
    def test_a_cut_truncation_is_made_again(self, harm: Harm) -> None:
        log = self.create(relayed=True)
        put(log, b"a", b"b", b"c")
        self.relay.harm(DELETE_RECORDS, harm)
        log.truncate(2)
        assert log.first() == 2
        assert self.outside.bounds()[0] == 3
        assert put(log, b"d") == [3]

    def test_an_append_without_an_answer_is_unknown_and_ends_the_handle(self) -> None:
        log = self.create(relayed=True, deadline_s=2.0)
        put(log, b"a")
        self.relay.harm(PRODUCE, Harm.SWALLOW, Harm.SWALLOW)
        with pytest.raises(LogError) as caught:
            put(log, b"b")
        assert caught.value.outcome is Outcome.UNKNOWN
        with pytest.raises(LogError, match="poisoned"):
            put(log, b"c")
        # It took effect, so the next owner has it: a polite one, for the handle holds nothing more.
        assert [frame.body for frame in self.claim().read(0)] == [b"a", b"b"]

    def test_a_frame_that_comes_after_a_claim_is_void_and_the_new_owner_continues(self) -> None:
        old = self.create(relayed=True)
        put(old, b"a")
        self.relay.harm(PRODUCE, Harm.HOLD)
        failures: list[Exception] = []

        def zombie() -> None:
            try:
                put(old, b"void")
            except LogError as error:
                failures.append(error)

        thread = threading.Thread(target=zombie)
        thread.start()
        assert self.relay.is_holding.wait(120)
        new = self.claim(takeover=True)
        assert new.end() == 1
        self.relay.release_held()
        thread.join(120)
        assert [type(error) for error in failures] == [FencedError]
        assert len(self.frames_outside()) == 2, "the void frame is in the topic"
        assert put(new, b"b", b"c") == [1, 2]
        assert self.bodies() == [b"a", b"b", b"c"]
        assert old.newest_epoch() == new.epoch

    def test_of_two_claims_at_a_time_the_later_one_holds(self) -> None:
        put(self.create(), b"a")
        self.relay.harm(PRODUCE, Harm.HOLD)
        slow = self.handle(relayed=True)
        claimed = threading.Thread(
            target=slow.claim,
            kwargs={
                "lineage": bytes(range(16)),
                "new": False,
                "above": 0,
                "takeover": True,
                "owner": "slow",
            },
        )
        claimed.start()
        assert self.relay.is_holding.wait(120)
        fast = self.claim(takeover=True)
        put(fast, b"b")
        self.relay.release_held()
        claimed.join(120)
        assert (slow.epoch, slow.end()) == (fast.epoch + 1, 2)
        with pytest.raises(FencedError):
            put(fast, b"void")
        assert put(slow, b"c") == [2]
        assert self.bodies() == [b"a", b"b", b"c"]

    def test_a_truncation_after_a_claim_deletes_nothing(self) -> None:
        old = self.create()
        put(old, b"a", b"b", b"c")
        self.claim(takeover=True)
        before = self.outside.bounds()[0]
        with pytest.raises(FencedError):
            old.truncate(2)
        assert self.outside.bounds()[0] == before == 0

    def test_a_truncated_log_still_tells_who_holds_it(self) -> None:
        log = self.create()
        put(log, b"a", b"b", b"c")
        log.truncate(3)
        put(log, b"d")
        assert self.handle().holder().alive
        with pytest.raises(StoreInUseError) as caught:
            self.claim()
        assert caught.value.owner == "first"
        assert put(log, b"e") == [4]
        assert self.outside.bounds()[0] == 3
