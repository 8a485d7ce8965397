"""How tests reach the log ``kafka``, and the topics of a broker from outside, by kafka-python's own
producer, consumer and admin client, of which the log uses none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition

from siltstone.tier1.kafka.settings import KafkaLogSettings

CONTAINER = 3


def new_topic() -> str:
    """The beginning of the name of a topic that was never used."""
    return f"t-{os.urandom(6).hex()}"


def options_of(endpoint: str, topic: str, **more: Any) -> dict[str, Any]:
    """Settings of the log for a broker alone, as they stand in a file."""
    options: dict[str, Any] = {
        "servers": [endpoint],
        "topic": topic,
        "single_broker": True,
        "insecure": True,
    }
    return options | more


def settings_of(endpoint: str, topic: str, **more: Any) -> KafkaLogSettings:
    """The same, checked."""
    return KafkaLogSettings.model_validate(options_of(endpoint, topic, **more))


class Outside:
    """The topic of one container as any other program sees it."""

    def __init__(self, endpoint: str, topic: str, container: int = CONTAINER) -> None:
        self.endpoint = endpoint
        self.topic = f"{topic}-{container}"
        self.part = TopicPartition(self.topic, 0)

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        client = KafkaAdminClient(bootstrap_servers=self.endpoint)
        try:
            yield client
        finally:
            client.close()

    def values(self) -> list[bytes | None]:
        """The values of all records that are kept."""
        return [value for _, value in self.records()]

    def records(self) -> list[tuple[int, bytes | None]]:
        """Offset and value of each."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.endpoint,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=16 << 20,
        )
        try:
            consumer.assign([self.part])
            consumer.seek_to_beginning(self.part)
            end = consumer.end_offsets([self.part])[self.part]
            found: list[tuple[int, bytes | None]] = []
            while consumer.position(self.part) < end:
                some = consumer.poll(1000).get(self.part, [])
                found += [(record.offset, record.value) for record in some]
            return found
        finally:
            consumer.close()

    def bounds(self) -> tuple[int, int]:
        """The offset of the first record that is kept, and one above that of the last."""
        consumer = KafkaConsumer(bootstrap_servers=self.endpoint)
        try:
            return (
                consumer.beginning_offsets([self.part])[self.part],
                consumer.end_offsets([self.part])[self.part],
            )
        finally:
            consumer.close()

    def write(self, *values: bytes | None, key: bytes | None = None) -> list[int]:
        """Append records as a program that knows nothing of the log; return their offsets."""
        producer = KafkaProducer(
            bootstrap_servers=self.endpoint, acks="all", max_request_size=16 << 20
        )
        try:
            sent = [producer.send(self.topic, value, key=key, partition=0) for value in values]
            return [each.get(30).offset for each in sent]
        finally:
            producer.close()
