"""Handles on the log of a test, closed at its end, and its content as another client reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.admin import NewTopic

from services.kafka import Kafka
from siltstone.core.records.frame import KIND_BATCH
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from siltstone.tier1.kafka.topic_rules import options_of_new
from tests.support.kafka_relay import KafkaRelay
from tests.support.services.kafka_services import CONTAINER, Outside, new_topic, settings_of

LINEAGE = bytes(range(16))


class KafkaCase:
    """One topic, and short ways to say what happens to it."""

    @pytest.fixture(autouse=True)
    def _topic(self, kafka: Kafka, kafka_relay: KafkaRelay) -> Iterator[None]:
        self.broker = kafka
        self.relay = kafka_relay
        kafka_relay.reset_harms()
        self.topic = new_topic()
        self.outside = Outside(kafka.endpoint, self.topic)
        self._opened: list[KafkaFencedLog] = []
        yield
        kafka_relay.release_held()
        for log in self._opened:
            log.abandon()

    def handle(self, *, relayed: bool = False, **more: Any) -> KafkaFencedLog:
        endpoint = self.relay.address if relayed else self.broker.endpoint
        log = KafkaFencedLog(settings_of(endpoint, self.topic, **more), CONTAINER)
        self._opened.append(log)
        return log

    def create(self, **more: Any) -> KafkaFencedLog:
        log = self.handle(**more)
        log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="first")
        return log

    def claim(self, *, takeover: bool = False, **more: Any) -> KafkaFencedLog:
        log = self.handle(**more)
        log.claim(lineage=LINEAGE, new=False, above=0, takeover=takeover, owner="next")
        return log

    def make(self, changed: dict[str, str] | None = None, *, partitions: int = 1) -> None:
        options = options_of_new(single_broker=True) | (changed or {})
        with self.outside.admin() as admin:
            admin.create_topics(
                [NewTopic(self.outside.topic, partitions, 1, topic_configs=options)]
            )

    def delete_records(self, before: int) -> None:
        with self.outside.admin() as admin:
            admin.delete_records({self.outside.part: before})

    def make_again(self) -> None:
        with self.outside.admin() as admin:
            admin.delete_topics([self.outside.topic])
            for _ in range(100):
                try:
                    self.make()
                    return
                except Exception:  # noqa: BLE001 - until the deletion is through
                    self.broker.is_ready()

    def bodies(self) -> list[bytes]:
        reader = self.handle().open_read()
        try:
            found = reader.read(reader.first())
            return [frame.body for frame in found if frame.kind == KIND_BATCH]
        finally:
            reader.close()


def put(log: KafkaFencedLog, *bodies: bytes) -> list[int]:
    """Append one frame for each body."""
    return [log.append([body], count=1) for body in bodies]
