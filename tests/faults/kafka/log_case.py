"""Handles on the log of a test, which end with it, and what it holds by another client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from services.kafka import Kafka
from siltstone.core.records.frame import KIND_BATCH
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from tests.contract.kafka_services import CONTAINER, Outside, new_topic, settings_of
from tests.kafka_relay import KafkaRelay

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
