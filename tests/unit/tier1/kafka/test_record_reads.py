"""Reading continues where the broker keeps an offset without a record."""

from __future__ import annotations

from typing import Any, cast

import pytest

from siltstone.core.errors import LogLostError
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.neighbours import newest_epoch_behind
from siltstone.tier1.kafka.partition import Fetched, Partition, _records
from siltstone.tier1.kafka.record_batch import encode_batch
from siltstone.tier1.kafka.record_reads import catch_up
from siltstone.tier1.kafka.scan import Scan
from tests.support.kafka_writer import Writer, claim

DEADLINE_S = 30.0


class Holed:
    """A partition that returns one record at a time, and none at some offsets."""

    topic = "topic"
    topic_id = None

    def __init__(self, *values: bytes | None) -> None:
        self.values = values

    def bounds(self, deadline: Deadline) -> tuple[int, int]:
        return 0, len(self.values)

    def high_watermark(self, deadline: Deadline) -> int:
        return len(self.values)

    def fetch(self, offset: int, deadline: Deadline) -> Fetched:
        left = offset < len(self.values)
        value = self.values[offset] if left else None
        return Fetched(
            records=[] if value is None else [(offset, value)],
            next_offset=offset + left,
            high_watermark=len(self.values),
            start=0,
        )


def partition_of(*values: bytes | None) -> Partition:
    return cast("Partition", Holed(*values))


@pytest.mark.parametrize("until", [None, 5])
def test_a_scan_reads_on_after_places_without_a_record(until: int | None) -> None:
    writer = Writer(3, 9, 77)
    scan = Scan("topic")
    values = (None, None, writer.frame(), writer.frame(), None, claim(), None)
    catch_up(partition_of(*values), scan, DEADLINE_S, until=until)
    assert (scan.first, scan.end, scan.epoch) == (9, 11, 4)


def test_frames_that_are_gone_in_the_middle_are_missing() -> None:
    writer = Writer(1)
    first, _, third = (writer.frame() for _ in range(3))
    with pytest.raises(LogLostError, match="missing"):
        catch_up(partition_of(claim(), first, None, third), Scan("topic"), DEADLINE_S)


def test_a_newer_claim_is_found_after_them() -> None:
    partition = partition_of(claim(), None, None, claim())
    assert newest_epoch_behind(partition, 0, 1, DEADLINE_S) == 2


def test_a_batch_without_records_has_a_place() -> None:
    batch = encode_batch([b"x"], producer=1, producer_epoch=0, sequence=0)
    assert _records(_joined(batch), 0) == ([(0, b"x")], 1)
    assert _records(_joined(batch), 1) == ([], 1)
    assert _records(b"", 7) == ([], 7)


def _joined(batch: Any) -> bytes:
    return bytes(batch) if isinstance(batch, bytes) else b"".join(batch)
