"""A broker that syncs every record before it answers, and kafka-python's own producer on it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

import siltstone
from services.catalogue import SERVICES
from services.kafka import Kafka
from siltstone.tier1.kafka.topic_rules import options_of_new

NAME = "kafka"
BATCH_BYTES = 900_000
"""Below what a topic takes by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPlace:
    """The broker."""

    server: Kafka

    def store(self, folder: Path, settings: str = "") -> Path:
        """Make a store with a log of its own, and ``settings``, lines of YAML; return its file."""
        options = {
            "servers": [self.server.endpoint],
            "topic": f"bench-{os.urandom(6).hex()}",
            "create_topics": True,
            "replication": 1,
            "single_broker": True,
            "insecure": True,
        }
        file = siltstone.init(folder / "store", log=NAME, log_options=options)
        with file.open("a", encoding="utf-8") as text:
            text.write(settings)
        return file

    @contextmanager
    def producer(self, linger_ms: int) -> Iterator[PlainProducer]:
        """What a careful user of the client would write, on a topic made as those of the log."""
        topic = f"peer-{os.urandom(6).hex()}"
        admin = KafkaAdminClient(bootstrap_servers=self.server.endpoint)
        options = options_of_new(single_broker=True)
        admin.create_topics([NewTopic(topic, 1, 1, topic_configs=options)])
        admin.close()
        producer = KafkaProducer(
            bootstrap_servers=self.server.endpoint,
            acks="all",
            enable_idempotence=True,
            linger_ms=linger_ms,
            batch_size=BATCH_BYTES,
        )
        try:
            yield PlainProducer(producer, topic)
        finally:
            producer.close()


class PlainProducer:
    """A record for each append.

    Args:
        producer: of the client.
        topic: with one partition.
    """

    def __init__(self, producer: Any, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    def send_all(self, record: bytes, total: int) -> None:
        """Send without waiting, and wait for the last."""
        send, topic = self._producer.send, self._topic
        sent = [send(topic, record, partition=0) for _ in range(total)]
        self._producer.flush()
        assert all(one.succeeded() for one in sent)

    def send_one(self, record: bytes) -> None:
        """Send and wait."""
        self._producer.send(self._topic, record, partition=0).get(60)


@contextmanager
def kafka_place(folder: Path) -> Iterator[KafkaPlace]:
    """Run a broker whose data is in ``folder``.

    Raises:
        UnavailableError: its program is not here.
    """
    program = SERVICES[NAME].installed()
    kept, tempfile.tempdir = tempfile.tempdir, str(folder.absolute())
    try:
        server = Kafka(program)
    finally:
        tempfile.tempdir = kept
    with server:
        server.start()
        yield KafkaPlace(server=server)
