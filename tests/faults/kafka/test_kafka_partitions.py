"""Partitions that are added to the topic of a log: it continues, and every look tells of them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions
from kafka.structs import TopicPartition

import siltstone
from services.kafka import Kafka
from siltstone.cli.main import run
from siltstone.core.errors import CapabilityError
from siltstone.core.fenced_log import LogCondition
from siltstone.tier1.kafka.topic_rules import options_of_new
from tests.faults.kafka.log_case import KafkaCase, put
from tests.support.services.kafka_services import Outside, new_topic, options_of


def widen(outside: Outside, count: int = 3) -> None:
    """Give the topic this many partitions."""
    with outside.admin() as admin:
        admin.create_partitions({outside.topic: NewPartitions(total_count=count)})


def write(outside: Outside, partition: int, value: bytes) -> None:
    """Append a record to one of them."""
    producer = KafkaProducer(bootstrap_servers=outside.endpoint, acks="all")
    try:
        producer.send(outside.topic, value, partition=partition).get(30)
    finally:
        producer.close()


class TestMorePartitions(KafkaCase):
    def test_a_log_continues_in_its_partition(self, caplog: pytest.LogCaptureFixture) -> None:
        log = self.create()
        put(log, b"a")
        widen(self.outside)
        assert put(log, b"b") == [1]
        log.abandon()
        with caplog.at_level(logging.WARNING):
            after = self.claim()
        assert "has 3 partitions: the log is in partition 0 alone" in caplog.text
        assert put(after, b"c", b"d") == [2, 3]
        after.truncate(2)
        assert self.bodies() == [b"c", b"d"]
        after.close()
        assert self.claim().end() == 5

    def test_records_in_other_partitions_are_refused_until_they_are_gone(self) -> None:
        log = self.create()
        put(log, b"a")
        widen(self.outside)
        write(self.outside, 2, self.outside.values()[-1] or b"")
        log.abandon()
        assert "partition 2, which no owner wrote" in self.handle().condition().refusals[0]
        with pytest.raises(CapabilityError, match=r"3 partitions .* kafka-delete-records\.sh"):
            self.claim()
        with self.outside.admin() as admin:
            admin.delete_records({TopicPartition(self.outside.topic, 2): -1})
        assert put(self.claim(), b"b") == [1]

    def test_a_log_that_was_set_aside_is_begun_again_in_its_topic(self) -> None:
        put(self.create(), b"a")
        widen(self.outside)
        log = self.handle()
        log.fence_all()
        assert log.set_aside() == f"{self.outside.topic}-aside-1"
        assert log.claim(lineage=bytes(16), new=True, above=7, takeover=False, owner="a") == 8
        assert put(log, b"new") == [0]

    def test_no_log_is_begun_in_several_partitions(self) -> None:
        self.make(partitions=2)
        with pytest.raises(CapabilityError, match="make it again with one, or set another topic"):
            self.create()

    def test_the_condition_of_a_topic_is_told_without_a_claim(self) -> None:
        assert self.handle().condition() == LogCondition()
        self.create().abandon()
        log = self.handle()
        assert log.condition() == LogCondition()
        with self.outside.admin() as admin:
            resource = config_of(self.outside.topic, {"retention.ms": "1000"})
            admin.alter_configs([resource])
        (refusal,) = self.handle().condition().refusals
        assert refusal.startswith(
            f"topic {self.outside.topic}: retention.ms is 1000 and must be -1"
        )


def config_of(topic: str, options: dict[str, str]) -> object:
    """What the admin client takes."""
    return ConfigResource(
        ConfigResourceType.TOPIC, topic, configs=options_of_new(single_broker=True) | options
    )


def test_every_verb_that_looks_tells_of_more_partitions(
    tmp_path: Path, kafka: Kafka, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic()
    siltstone.init(tmp_path / "store", log="kafka", log_options=options_of(kafka.endpoint, topic))

    def said(*verb: str) -> tuple[int, str]:
        capfd.readouterr()
        code = run(["--store", str(tmp_path / "store"), *verb])
        return code, capfd.readouterr().out

    with siltstone.open(tmp_path / "store") as store:
        store.create("a").append(b"acknowledged")
    outside = Outside(kafka.endpoint, topic, 0)
    widen(outside)
    for verb, code in (("doctor", 0), ("containers", 0), ("recover", 0)):
        found, text = said(verb)
        assert (found, "has 3 partitions: the log is in partition 0" in text) == (code, True), text
    with siltstone.open(tmp_path / "store") as store:
        assert store.segment("a").append(b"!") == 12
    write(outside, 1, b"stray")
    for verb, code in (("doctor", 1), ("containers", 0), ("recover", 0)):
        found, text = said(verb)
        refused = "the next claim would be refused" in text and "in partition 1, which" in text
        assert (found, refused) == (code, True), text
    with siltstone.open(tmp_path / "store", read_only=True) as store:
        assert store.segment("a").read(0, 99) == b"acknowledged!"
    with pytest.raises(CapabilityError, match="partition 1"):
        siltstone.open(tmp_path / "store")
