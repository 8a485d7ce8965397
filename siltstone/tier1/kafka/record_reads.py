"""Fetching records, for callers that want to know what they mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from kafka import errors as kafka_errors

from siltstone.core.errors import CorruptDataError, LogLostError, LogTruncatedError
from siltstone.core.records.frame import Frame
from siltstone.core.remote.deadline import Deadline
from siltstone.tier1.kafka.errors import deleted, translated
from siltstone.tier1.kafka.partition import Fetched, Partition
from siltstone.tier1.kafka.scan import Scan, decode
from siltstone.tier1.kafka.shelf import SetAsideTopic

TRIES: Final = 5
"""Looks for the first record of a log that an owner truncates meanwhile."""


def catch_up(
    partition: Partition, scan: Scan, deadline_s: float, *, until: int | None = None
) -> None:
    """Let ``scan`` take all records up to the end as it is now, or up to the offset ``until``.

    Each request has ``deadline_s`` seconds, so a long log may take longer.

    Raises:
        CorruptDataError: the log is damaged, or became shorter.
        LogLostError: records are missing in it.
    """
    for left in reversed(range(TRIES)):
        try:
            _catch_up(partition, scan, deadline_s, until)
            return
        except kafka_errors.OffsetOutOfRangeError:
            start, end = partition.bounds(Deadline(deadline_s))
            if scan.next_offset is not None and scan.next_offset > end:
                raise CorruptDataError(
                    "the log became shorter", where=f"topic {partition.topic}", end=end
                ) from None
            if not left:
                raise
            scan.start_at(start)


def look(partition: Partition, shelf: SetAsideTopic, deadline_s: float) -> Scan:
    """Return the log as it is now, from where the one on the shelf ended, or from its first record.

    Raises like ``catch_up``.
    """
    scan = shelf.take(partition.topic_id)
    start = scan.start
    if start is not None:
        # A read of the whole log decides, where this contradicts it or anything was deleted.
        with suppress(CorruptDataError, LogLostError):
            catch_up(partition, scan, deadline_s)
            if scan.start == start:
                return scan
    scan = Scan(partition.topic)
    catch_up(partition, scan, deadline_s)
    return scan


def _catch_up(partition: Partition, scan: Scan, deadline_s: float, until: int | None) -> None:
    deadline = Deadline(deadline_s)
    if scan.next_offset is None:
        scan.start_at(partition.bounds(deadline)[0])
        scan.topic_id = partition.topic_id
    end: int | None = None
    while until is None or scan.next_offset is None or scan.next_offset <= until:
        offset = scan.next_offset
        assert offset is not None, "a scan has begun"
        fetched = partition.fetch(offset, deadline)
        scan.start_at(fetched.start)
        if fetched.next_offset > offset:
            deadline = Deadline(deadline_s)
        for place, value in fetched.records:
            if until is not None and place > until:
                return
            if place >= (scan.next_offset or 0):
                scan.add(place, value)
        scan.pass_over(fetched.next_offset)
        if until is not None and (scan.next_offset or 0) <= until:
            deadline.check()
            continue
        end = fetched.high_watermark if end is None else end
        if fetched.next_offset <= offset or fetched.next_offset >= end:
            return


def note_start(partition: Partition, scan: Scan, deadline: Deadline) -> None:
    """Note what a dead owner truncated whose request came after the claim of this one.

    The reader of what is left compares it with what it needs.

    Raises:
        LogError: not even the newest frame is left, as no truncation does it.
    """
    if not scan.offsets:
        return
    start, _ = partition.bounds(deadline)
    if start > scan.offsets[-1]:
        raise deleted(partition.topic, start)
    scan.start_at(start)


def frames_at(
    partition: Partition, first: int, offsets: Sequence[int], deadline_s: float, servers: str
) -> Iterator[Frame]:
    """Yield the frames at ``offsets``, of which the first has the index ``first``.

    ``servers`` are those of the settings, for people.

    Raises:
        LogTruncatedError: they were truncated meanwhile.
        CorruptDataError: another record is there, or none.
        LogError: a call failed.
    """
    done = 0
    while done < len(offsets):
        with translated("read", partition.topic, servers):
            fetched = _fetch(partition, offsets[done], first + done, deadline_s)
        before = done
        for place, value in fetched.records:
            if done == len(offsets):
                return
            if place < offsets[done]:
                continue
            frame = decode(value)
            if (
                place != offsets[done]
                or not isinstance(frame, Frame)
                or frame.index != first + done
            ):
                break
            done += 1
            yield frame
        if done == before:
            raise CorruptDataError(
                "a frame vanished", where=f"topic {partition.topic}", index=first + done
            )


def _fetch(partition: Partition, offset: int, index: int, deadline_s: float) -> Fetched:
    try:
        return partition.fetch(offset, Deadline(deadline_s))
    except kafka_errors.OffsetOutOfRangeError as error:
        raise LogTruncatedError(index=index, first=index + 1) from error
