"""Where a frame of an owner landed: what stands between it and the one before, or is gone."""

from __future__ import annotations

from kafka import errors as kafka_errors

from siltstone.core.errors import FencedError, LogError
from siltstone.core.records.frame import Frame
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.claim_record import KIND_HOLDER, ClaimRecord
from siltstone.tier1.kafka.errors import deleted
from siltstone.tier1.kafka.partition import AppendedRecord, Partition
from siltstone.tier1.kafka.record_reads import catch_up
from siltstone.tier1.kafka.scan import Scan, decode


def check_place(
    partition: Partition,
    scan: Scan,
    last: int,
    appended: AppendedRecord,
    epoch: int,
    deadline: Deadline,
) -> None:
    """See that a frame stands after ``last``, with nothing in between that counts.

    Raises:
        FencedError: a claim is in between.
        LogError: something else does, or records were deleted that this owner needs.
    """
    if appended.offset <= last:
        raise LogError("the log begins again", topic=partition.topic, offset=appended.offset)
    if appended.offset > last + 1:
        check_neighbours(partition, last + 1, appended.offset, epoch, deadline)
    if appended.start > (scan.offsets[0] if scan.offsets else last):
        raise deleted(partition.topic, appended.start)


def check_neighbours(
    partition: Partition, start: int, end: int, epoch: int, deadline: Deadline
) -> None:
    """See that the records from ``start`` up to ``end`` are frames of fenced owners, all of them.

    Raises:
        FencedError: one is a claim.
        LogError: one is anything else, or missing.
    """
    where = start
    while where < end:
        fetched = partition.fetch(where, deadline)
        for offset, value in fetched.records:
            if offset >= end:
                break
            found = decode(value)
            if isinstance(found, ClaimRecord) and found.kind != KIND_HOLDER:
                raise FencedError(
                    "a newer epoch was claimed", epoch=epoch, newer=1 + max(found.above, epoch)
                )
            if offset != where or found is None or _epoch(found) >= epoch:
                raise LogError(
                    "another program wrote to the log", topic=partition.topic, offset=offset
                )
            where = offset + 1
        if not fetched.records:
            raise LogError("records vanished from the log", topic=partition.topic, offset=where)


def newest_epoch_behind(partition: Partition, last: int, epoch: int, deadline_s: float) -> int:
    """The highest epoch that was claimed, for the owner of ``epoch`` whose last record is ``last``.

    Raises like ``catch_up``.
    """
    where, newest = last + 1, epoch
    deadline = Deadline(deadline_s)
    end = partition.high_watermark(deadline)
    try:
        while where < end:
            fetched = partition.fetch(where, deadline)
            for _, value in fetched.records:
                found = decode(value)
                if isinstance(found, ClaimRecord) and found.kind != KIND_HOLDER:
                    newest = 1 + max(found.above, newest)
                elif found is not None:
                    newest = max(newest, _epoch(found))
            if fetched.next_offset <= where:
                break
            where = fetched.next_offset
    except kafka_errors.OffsetOutOfRangeError:
        # Another owner truncated what was there.
        scan = Scan(partition.topic)
        catch_up(partition, scan, deadline_s)
        newest = max(newest, scan.epoch)
    return newest


def _epoch(found: Frame | ClaimRecord) -> int:
    """The epoch of a frame, or of a holder."""
    return found.above if isinstance(found, ClaimRecord) else found.epoch
