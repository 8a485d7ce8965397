"""Kafka: acknowledged records survive a kill, and topics exist only if they were created."""

from __future__ import annotations

import os

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from services.kafka import Kafka


@pytest.mark.slow
def test_acknowledged_records_survive_a_kill(new_kafka: Kafka) -> None:
    part = TopicPartition("records", 0)
    admin = KafkaAdminClient(bootstrap_servers=new_kafka.endpoint)
    admin.create_topics([NewTopic("records", 1, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=new_kafka.endpoint, acks="all")
    assert producer.send("records", b"first").get(30).offset == 0
    producer.close()
    new_kafka.kill()
    new_kafka.start()
    consumer = KafkaConsumer(
        bootstrap_servers=new_kafka.endpoint, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.assign([part])
    assert consumer.end_offsets([part]) == {part: 1}
    assert [record.value for record in consumer.poll(30_000)[part]] == [b"first"]
    consumer.close()


def test_a_topic_that_was_never_made_is_an_error(kafka: Kafka) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.endpoint, max_block_ms=500)
    with pytest.raises(KafkaError):
        producer.send(f"none-{os.urandom(4).hex()}", b"lost").get(5)
    producer.close()
