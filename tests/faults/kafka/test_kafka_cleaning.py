"""A broker that compacts a topic, or cuts it by age or size: a lost log, and never silence."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

import siltstone
from services.kafka import Kafka
from siltstone.core.errors import LogLostError, OutcomeUnknownError, SiltstoneError, StoreInUseError
from siltstone.tier1.kafka.topic_rules import options_of_new
from tests.support.services.kafka_services import Outside, new_topic, options_of

WAIT_S = 40.0
WAYS = {
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0001"},
    "cut by age": {"retention.ms": "1"},
    "cut by size": {"retention.bytes": "1"},
}


class Cleaned:
    """A store with unflushed bytes, whose topic is in many small pieces."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        topic = new_topic()
        options = options_of(kafka.endpoint, topic, servers=kafka.endpoint)
        self.file = siltstone.init(folder / "store", log="kafka", log_options=options)
        self.outside = Outside(kafka.endpoint, topic, 0)
        with siltstone.open(self.file):
            pass
        self.change({"segment.ms": "1", "file.delete.delay.ms": "0"})

    def change(self, options: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, self.outside.topic, configs=options)
        with self.outside.admin() as admin:
            admin.alter_configs([resource])

    def append(self, store: siltstone.Store) -> None:
        segment = store.create("a")
        for number in range(6):
            segment.append(b"%d" % number)
            time.sleep(0.005)  # Each in a file of its own.

    def clean(self, options: Mapping[str, str]) -> None:
        before = self.outside.records()
        self.change(options)
        until = time.monotonic() + WAIT_S
        while len(self.outside.records()) > len(before) // 2:
            assert time.monotonic() < until, "the broker deleted nothing"
            time.sleep(0.1)

    def mend(self) -> None:
        good = options_of_new(single_broker=True)
        self.change(
            {name: good[name] for name in ("cleanup.policy", "retention.ms", "retention.bytes")}
        )

    def is_lost(self) -> None:
        """It can no longer be opened, and every attempt is told why."""
        for read_only in (False, True):
            with pytest.raises(LogLostError):
                self.open(read_only=read_only)

    def open(self, *, read_only: bool = False) -> siltstone.Store:
        """Open it; the last attempt of its last owner may hold the index a moment longer."""
        until = time.monotonic() + WAIT_S
        while True:
            try:
                return siltstone.open(self.file, read_only=read_only)
            except StoreInUseError:
                assert time.monotonic() < until
                time.sleep(0.05)


@pytest.fixture
def cleaned(kafka: Kafka, kafka_plugin: None, tmp_path: Path) -> Cleaned:
    return Cleaned(kafka, tmp_path)


@pytest.mark.parametrize("way", WAYS)
def test_a_topic_that_is_cleaned_ends_its_owner_and_is_a_lost_log(
    cleaned: Cleaned, way: str
) -> None:
    store = siltstone.open(cleaned.file)
    try:
        cleaned.append(store)
        cleaned.clean(WAYS[way])
        with pytest.raises(OutcomeUnknownError):
            store.segment("a").append(b"lost")
    finally:
        with suppress(SiltstoneError):
            store.close()
    cleaned.is_lost()
    cleaned.mend()
    cleaned.is_lost()
    siltstone.recover(cleaned.file, accept_loss=True)
    with cleaned.open() as store:
        store.create("b").append(b"more")
