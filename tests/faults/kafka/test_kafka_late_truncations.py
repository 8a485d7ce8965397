"""A truncation that a dead owner sent takes place while the next one boots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import siltstone
from services.kafka import Kafka
from siltstone.container.state.log_scan import kept_frames
from siltstone.core.errors import LogError, LogLostError
from siltstone.core.records.frame import KIND_BATCH, Frame
from siltstone.tier1.kafka import scan
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from tests.faults.kafka.log_case import KafkaCase, put
from tests.support.services.kafka_services import Outside, new_topic, options_of


class TestLateTruncations(KafkaCase):
    def claimed(self, *bodies: bytes) -> KafkaFencedLog:
        """A handle whose predecessor wrote ``bodies`` and died."""
        log = self.create()
        put(log, *bodies)
        log.abandon()
        return self.claim()

    @pytest.mark.parametrize("kept_bytes", [0, 16 << 20])
    def test_frames_that_are_left_are_read_again(
        self, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
    ) -> None:
        monkeypatch.setattr(scan, "RECENT_BYTES_MAX", kept_bytes)
        log = self.claimed(b"a", b"b", b"c")
        self.delete_records(3)
        frames = kept_frames(log, list)
        assert [frame.body for frame in frames] == [b"c"]
        assert (log.first(), log.end()) == (2, 3)
        assert put(log, b"d") == [3]
        log.truncate(4)
        assert self.bodies() == [b"d"]

    def test_frames_that_go_while_they_are_read_are_read_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scan, "RECENT_BYTES_MAX", 0)
        log = self.claimed(b"a", b"b", b"c")
        looks: list[Iterator[Frame]] = []

        def read(frames: Iterator[Frame]) -> list[Frame]:
            if not looks:
                self.delete_records(2)
            looks.append(frames)
            return list(frames)

        assert [frame.body for frame in kept_frames(log, read)] == [b"b", b"c"]
        assert len(looks) == 2
        assert put(log, b"d") == [3]

    @pytest.mark.parametrize("kept_bytes", [0, 16 << 20])
    def test_a_log_that_is_emptied_meanwhile_is_no_truncation(
        self, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
    ) -> None:
        monkeypatch.setattr(scan, "RECENT_BYTES_MAX", kept_bytes)
        log = self.claimed(b"a", b"b")
        self.delete_records(-1)
        with pytest.raises(LogError, match="deleted by another program"):
            kept_frames(log, list)
        with pytest.raises(LogError, match="deleted by another program"):
            put(log, b"c")


def test_a_store_opens_at_once_though_its_log_is_truncated_meanwhile(
    tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "RECENT_BYTES_MAX", 0)
    topic = new_topic()
    siltstone.init(tmp_path, log="kafka", log_options=options_of(kafka.endpoint, topic))
    with siltstone.open(tmp_path) as store, monkeypatch.context() as died:
        died.setattr(KafkaFencedLog, "truncate", lambda log, before_index: None)
        segment = store.create("a")
        for _ in range(5):
            segment.append(b"flushed.")
            store.flush()
        segment.append(b"not flushed")
        needed = store.stats()[0].safe_index
    outside = Outside(kafka.endpoint, topic, 0)
    late_truncation(monkeypatch, outside, needed)
    with siltstone.open(tmp_path) as store:
        assert store.segment("a").read(0, 99) == b"flushed." * 5 + b"not flushed"
        assert store.segment("a").append(b"!") == 51
        assert store.stats()[0].epoch == 3


def test_frames_that_are_needed_and_go_meanwhile_are_a_lost_log(
    tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    siltstone.init(tmp_path, log="kafka", log_options=options_of(kafka.endpoint, topic))
    with siltstone.open(tmp_path) as store:
        segment = store.create("a")
        for _ in range(5):
            segment.append(b"not flushed")
        needed = store.stats()[0].safe_index
    late_truncation(monkeypatch, Outside(kafka.endpoint, topic, 0), needed + 2)
    with pytest.raises(LogLostError, match="truncated beyond what is needed"):
        siltstone.open(tmp_path)


def late_truncation(monkeypatch: pytest.MonkeyPatch, outside: Outside, index: int) -> None:
    """Let the records before a frame go right after the next claim."""
    claim = KafkaFencedLog.claim

    def claimed(log: KafkaFencedLog, **facts: Any) -> int:
        epoch = claim(log, **facts)
        frames = [
            offset
            for offset, value in outside.records()
            if isinstance(found := scan.decode(value), Frame)
            and found.kind == KIND_BATCH
            and found.index >= index
        ]
        with outside.admin() as admin:
            admin.delete_records({outside.part: frames[0]})
        return epoch

    monkeypatch.setattr(KafkaFencedLog, "claim", claimed)
