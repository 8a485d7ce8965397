"""A kept scan has one user at a time, and never hides the current state of the topic."""

from __future__ import annotations

from uuid import UUID

import pytest
from kafka import errors as kafka_errors

from siltstone.core.errors import LogLostError
from siltstone.core.records.frame import KIND_BATCH, encode_frame
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.partition import Fetched
from siltstone.tier1.kafka.record_reads import look
from siltstone.tier1.kafka.scan import Scan
from siltstone.tier1.kafka.shelf import SetAsideTopic

ID = UUID(int=7)


def frames(count: int) -> list[bytes]:
    """Values of ``count`` frames of epoch 1."""
    made, crc = [], 0
    for index in range(count):
        frame = encode_frame(
            [b"x"], kind=KIND_BATCH, lineage=bytes(16), epoch=1, index=index, previous_crc=crc,
            count=1,
        )  # fmt: skip
        crc = frame.crc
        made.append(b"".join(bytes(part) for part in frame.buffers))
    return made


class StubPartition:
    """A topic with these values from offset ``start`` on."""

    topic = "t"
    topic_id: UUID | None = ID

    def __init__(self, values: list[bytes], start: int = 0) -> None:
        self.values = values
        self.start = start
        self.asked: list[int] = []

    @property
    def end(self) -> int:
        return self.start + len(self.values)

    def bounds(self, deadline: Deadline) -> tuple[int, int]:
        return self.start, self.end

    def fetch(self, offset: int, deadline: Deadline) -> Fetched:
        self.asked.append(offset)
        if not self.start <= offset <= self.end:
            raise kafka_errors.OffsetOutOfRangeError
        rest: list[tuple[int, bytes | None]] = list(enumerate(self.values, self.start))
        return Fetched(
            records=rest[offset - self.start :],
            next_offset=self.end,
            high_watermark=self.end,
            start=self.start,
        )


def seen(partition: StubPartition, shelf: SetAsideTopic) -> Scan:
    return look(partition, shelf, 10)  # type: ignore[arg-type]


def shelf_after(partition: StubPartition) -> SetAsideTopic:
    shelf = SetAsideTopic("t")
    shelf.give(seen(partition, shelf))
    return shelf


def test_one_at_a_time_has_it() -> None:
    shelf = SetAsideTopic("t")
    scan = seen(StubPartition(frames(1)), shelf)
    shelf.give(scan)
    assert shelf.take(ID) is scan
    assert shelf.take(ID) is not scan
    shelf.give(scan)
    shelf.clear()
    assert shelf.take(ID) is not scan


@pytest.mark.parametrize(("before", "after"), [(None, None), (ID, None), (ID, UUID(int=8))])
def test_it_is_of_one_topic(before: UUID | None, after: UUID | None) -> None:
    partition = StubPartition(frames(2))
    partition.topic_id = before
    shelf = shelf_after(partition)
    partition.topic_id = after
    assert seen(partition, shelf).end == 2
    assert partition.asked == [0, 0]


def test_a_look_continues_where_the_last_one_ended() -> None:
    partition = StubPartition(frames(3))
    shelf = shelf_after(partition)
    partition.values = frames(5)
    assert list(seen(partition, shelf).offsets) == [0, 1, 2, 3, 4]
    assert partition.asked == [0, 3]


def test_a_look_begins_again_when_records_were_deleted() -> None:
    partition = StubPartition(frames(3))
    shelf = shelf_after(partition)
    partition.start, partition.values = 2, frames(3)[2:]
    scan = seen(partition, shelf)
    assert (scan.first, scan.end, list(scan.offsets)) == (2, 3, [2])
    assert partition.asked == [0, 3, 2]


def test_a_look_begins_again_when_the_log_became_shorter() -> None:
    partition = StubPartition(frames(3))
    shelf = shelf_after(partition)
    partition.values = frames(2)
    scan = seen(partition, shelf)
    assert (scan.end, list(scan.offsets)) == (2, [0, 1])


def test_a_log_that_lacks_frames_is_lost_however_one_looks() -> None:
    partition = StubPartition(frames(3))
    shelf = shelf_after(partition)
    partition.values = [*frames(3), frames(5)[4]]
    with pytest.raises(LogLostError):
        seen(partition, shelf)
    assert partition.asked == [0, 3, 0]
