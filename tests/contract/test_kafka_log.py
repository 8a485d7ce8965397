"""The Kafka log keeps the contract of tier-1 logs, on a real broker."""

from __future__ import annotations

import pytest

from services.kafka import Kafka
from siltstone.core.fenced_log import FencedLog
from siltstone.testing.fenced_log_contract import FencedLogContract
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from tests.support.services.kafka_services import CONTAINER, new_topic, settings_of


class TestKafkaLog(FencedLogContract):
    @pytest.fixture(autouse=True)
    def _topic(self, kafka: Kafka) -> None:
        self.settings = settings_of(kafka.endpoint, new_topic())

    def open_log(self) -> FencedLog:
        return KafkaFencedLog(self.settings, CONTAINER)

    def crash(self, log: FencedLog) -> None:
        assert isinstance(log, KafkaFencedLog)
        log.abandon()
