"""What others do to the topic of a log: poison or a lost log, and never silence."""

from __future__ import annotations

import pytest

from siltstone.core.constants import FRAME_BYTES_MAX
from siltstone.core.errors import (
    CapabilityError,
    CorruptDataError,
    LogError,
    LogLostError,
    Outcome,
    SiltstoneError,
)
from siltstone.core.records.frame import KIND_BATCH, encode_frame
from siltstone.tier1.kafka.topic_rules import options_of_new
from tests.faults.kafka.log_case import LINEAGE, KafkaCase, put
from tests.support.services.kafka_services import CONTAINER

GOOD = options_of_new(single_broker=True)


class TestStrangers(KafkaCase):
    @pytest.mark.parametrize("value", [b"hello", b"", b"SLTC but no claim"])
    def test_a_record_of_a_stranger_ends_the_handle_and_is_passed_over(self, value: bytes) -> None:
        log = self.create()
        put(log, b"a")
        self.outside.write(value)
        with pytest.raises(LogError, match="another program") as caught:
            put(log, b"b")
        assert caught.value.outcome is Outcome.UNKNOWN
        after = self.claim()
        # The frame is in the log, and stands before the claim.
        assert put(after, b"c") == [2]
        assert self.bodies() == [b"a", b"b", b"c"]

    def test_a_record_with_a_key_is_a_stranger_s_even_if_it_looks_like_a_frame(self) -> None:
        log = self.create()
        put(log, b"a")
        self.outside.write(self.outside.values()[1], key=b"copied")
        with pytest.raises(LogError, match="another program"):
            put(log, b"b")

    def test_a_frame_that_no_owner_of_this_log_wrote_is_no_frame_of_it(self) -> None:
        log = self.create()
        put(log, b"a")
        forged = encode_frame(
            [b"x"], kind=KIND_BATCH, lineage=LINEAGE, epoch=9, index=1, previous_crc=0, count=1
        )
        self.outside.write(b"".join(forged.buffers))
        with pytest.raises(LogError):
            put(log, b"b")
        with pytest.raises(CorruptDataError, match="without a claim"):
            self.claim()

    def test_a_copy_of_the_newest_frame_counts_once(self) -> None:
        log = self.create()
        put(log, b"a")
        self.outside.write(self.outside.values()[-1])
        log.abandon()
        assert put(self.claim(), b"b") == [1]
        assert self.bodies() == [b"a", b"b"]

    def test_an_emptied_topic_is_a_lost_log(self) -> None:
        log = self.create()
        put(log, b"a", b"b")
        self.delete_records(-1)
        with pytest.raises(LogError, match="deleted by another program"):
            put(log, b"c")
        # That very frame is left, which tells what is missing: the container compares.
        assert self.claim().first() == 2

    def test_an_emptied_topic_without_an_owner_is_a_lost_log(self) -> None:
        log = self.create()
        put(log, b"a", b"b")
        log.abandon()
        self.delete_records(-1)
        with pytest.raises(LogLostError, match="empty"):
            self.claim()

    def test_a_topic_that_was_trimmed_ends_the_handle(self) -> None:
        log = self.create()
        put(log, b"a", b"b", b"c")
        self.delete_records(2)
        with pytest.raises(LogError, match="deleted by another program"):
            put(log, b"d")
        assert self.claim().first() == 1

    def test_a_topic_trimmed_into_its_claims_is_a_lost_log(self) -> None:
        log = self.create()
        put(log, b"a")
        log.abandon()
        log = self.claim()
        put(log, b"b")
        log.abandon()
        self.delete_records(2)
        with pytest.raises((LogLostError, CorruptDataError)):
            self.claim()

    def test_a_topic_that_was_made_again_is_a_lost_log(self) -> None:
        log = self.create(deadline_s=5.0)
        put(log, b"a", b"b")
        self.make_again()
        with pytest.raises(LogError) as caught:
            put(log, b"c")
        assert caught.value.outcome is Outcome.UNKNOWN
        assert self.outside.values() == [], "nothing went to the other topic"
        with pytest.raises(LogLostError):
            self.claim()

    def test_a_topic_that_was_deleted_is_a_lost_log(self) -> None:
        self.create().abandon()
        with self.outside.admin() as admin:
            admin.delete_topics([self.outside.topic])
        for _ in range(100):
            if self.outside.topic not in self.topics():
                break
        with pytest.raises(LogLostError, match="does not exist"):
            self.claim()

    def topics(self) -> list[str]:
        with self.outside.admin() as admin:
            return [topic["name"] for topic in admin.describe_topics()]

    def test_frames_that_are_missing_in_the_middle_are_a_lost_log(self) -> None:
        log = self.create()
        put(log, b"a", b"b", b"c")
        log.abandon()
        kept = [value for place, value in enumerate(self.outside.values()) if place != 2]
        self.make_again()
        self.outside.write(*kept)
        with pytest.raises(LogLostError, match="missing"):
            self.claim()

    def test_a_log_of_another_lineage_is_left_alone(self) -> None:
        self.create().abandon()
        before = self.outside.records()
        with pytest.raises(LogLostError, match="another lineage"):
            self.handle().claim(lineage=bytes(16), new=False, above=0, takeover=True, owner="other")
        assert self.outside.records() == before

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"),
            ("retention.ms", "604800000"),
            ("retention.bytes", "1000000000"),
            ("unclean.leader.election.enable", "true"),
            ("max.message.bytes", "1048588"),
            ("flush.messages", "2"),
        ],
    )
    def test_a_topic_that_could_lose_frames_is_refused_with_what_to_change(
        self, option: str, value: str
    ) -> None:
        self.make({option: value})
        with pytest.raises(CapabilityError, match=f"{option} is {value} and must be "):
            self.create()
        assert self.outside.values() == []

    def test_a_topic_for_many_brokers_must_have_replicas(self) -> None:
        self.make()
        with pytest.raises(CapabilityError, match="1 replicas and must have 3") as caught:
            self.create(single_broker=False, create_topics=False, replication=3)
        assert "min.insync.replicas is 1 and must be 2 or more" in str(caught.value)

    def test_more_than_one_partition_is_refused(self) -> None:
        self.make(partitions=2)
        with pytest.raises(CapabilityError, match="2 partitions and must have 1"):
            self.create()

    def test_a_topic_is_made_only_on_request(self) -> None:
        with pytest.raises(CapabilityError, match="set create_topics"):
            self.create(create_topics=False)
        assert self.outside.topic not in self.topics()
        self.make()
        assert put(self.create(create_topics=False), b"a") == [0]

    def test_a_topic_that_was_made_has_the_settings_that_are_asked_for(self) -> None:
        self.create()
        with self.outside.admin() as admin:
            (found,) = admin.describe_topics([self.outside.topic])
        assert len(found["partitions"]) == 1
        assert self.outside.topic.endswith(f"-{CONTAINER}")
        assert int(GOOD["max.message.bytes"]) == FRAME_BYTES_MAX

    def test_a_log_is_set_aside_with_all_it_holds(self) -> None:
        log = self.create()
        put(log, b"a", b"b")
        before = self.outside.values()
        other = self.handle()
        other.fence_all()
        with pytest.raises(LogError):
            put(log, b"void")
        name = other.set_aside()
        assert name == f"{self.outside.topic}-aside-1"
        assert self.outside.values() == []
        self.outside.part = self.outside.part._replace(topic=name)
        assert self.outside.values()[: len(before)] == before
        assert other.claim(lineage=bytes(16), new=True, above=7, takeover=False, owner="a") == 8
        assert put(other, b"new") == [0]

    def test_a_log_that_is_not_there_is_neither_fenced_nor_set_aside(self) -> None:
        log = self.handle()
        log.fence_all()
        assert log.set_aside() is None
        assert self.outside.topic not in self.topics()

    def test_nothing_that_is_said_holds_a_password(self) -> None:
        secret = "canary-7c1f"
        log = self.handle(username="user", password=secret, deadline_s=1.0)
        with pytest.raises(SiltstoneError) as caught:
            log.holder()
        assert secret not in repr(caught.value) + str(caught.value) + repr(log.__dict__)
