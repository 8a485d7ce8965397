"""A handle that has read its log continues from there, and still sees what others did since."""

from __future__ import annotations

import pytest

from siltstone.core.errors import CorruptDataError, LogLostError
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
from siltstone.tier1.kafka.partition import Fetched, Partition
from tests.faults.kafka.log_case import LINEAGE, KafkaCase, put


class TestLooks(KafkaCase):
    def looked(self) -> KafkaFencedLog:
        """A handle whose reader saw all that there is."""
        log = self.handle()
        reader = log.open_read()
        reader.end()
        reader.close()
        return log

    def claim_by(self, log: KafkaFencedLog) -> None:
        log.claim(lineage=LINEAGE, new=False, above=0, takeover=True, owner="next")

    def test_what_was_seen_is_not_fetched_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        old = self.create()
        put(old, b"a", b"b")
        old.abandon()
        places: list[int] = []
        fetch = Partition.fetch

        def noted(partition: Partition, offset: int, deadline: Deadline) -> Fetched:
            places.append(offset)
            return fetch(partition, offset, deadline)

        log = self.looked()
        monkeypatch.setattr(Partition, "fetch", noted)
        reader = log.open_read()
        assert (reader.epoch(), reader.first(), reader.end()) == (1, 0, 2)
        reader.close()
        self.claim_by(log)
        assert min(places) == 3
        assert [frame.body for frame in log.read(0)] == [b"a", b"b"]

    def test_what_was_written_meanwhile_counts(self) -> None:
        old = self.create()
        put(old, b"a", b"b")
        log = self.looked()
        put(old, b"c")
        old.abandon()
        other = self.claim()
        put(other, b"d")
        self.claim_by(log)
        assert (log.epoch, log.end()) == (3, 4)
        assert [frame.body for frame in log.read(0)] == [b"a", b"b", b"c", b"d"]
        assert put(log, b"e") == [4]
        assert self.bodies() == [b"a", b"b", b"c", b"d", b"e"]

    def test_what_was_truncated_meanwhile_is_gone(self) -> None:
        old = self.create()
        put(old, b"a", b"b", b"c")
        log = self.looked()
        old.truncate(2)
        self.claim_by(log)
        assert (log.first(), log.end()) == (2, 3)
        assert [frame.body for frame in log.read(2)] == [b"c"]

    @pytest.mark.parametrize("before", [2, -1])
    def test_what_was_deleted_meanwhile_is_a_lost_log(self, before: int) -> None:
        old = self.create()
        put(old, b"a")
        old.abandon()
        old = self.claim()
        put(old, b"b")
        old.abandon()
        log = self.looked()
        self.delete_records(before)
        with pytest.raises((LogLostError, CorruptDataError)):
            self.claim_by(log)

    def test_a_topic_that_was_made_again_meanwhile_is_another_one(self) -> None:
        old = self.create()
        put(old, b"a", b"b", b"c")
        old.abandon()
        log = self.looked()
        values = self.outside.values()
        self.make_again()
        # All of it is there, and more that only a reader that begins at the start can see.
        self.outside.write(values[0], b"a stranger's", *values[1:])
        self.claim_by(log)
        assert [frame.body for frame in log.read(0)] == [b"a", b"b", b"c"]
        assert put(log, b"d") == [3]
        assert self.bodies() == [b"a", b"b", b"c", b"d"]

    def test_an_empty_topic_that_was_made_again_meanwhile_is_a_lost_log(self) -> None:
        old = self.create()
        put(old, b"a")
        old.abandon()
        log = self.looked()
        self.make_again()
        with pytest.raises(LogLostError, match="empty"):
            self.claim_by(log)
