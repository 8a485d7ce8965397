"""A data frame is the segment at one moment, next to a writer that continues."""

from __future__ import annotations

import threading

import pytest

import siltstone
from tests.spark.conftest import Load

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROUNDS = 3
LINES = 100


def test_a_frame_keeps_the_length_that_it_was_planned_with(
    segment: siltstone.Segment, load: Load
) -> None:
    segment.append(b"a\nb\n")
    frame = load()
    assert frame.count() == 2
    segment.append(b"c\n")
    segment.flush()
    assert [row.value for row in frame.collect()] == ["a", "b"]
    assert load().count() == 3


def test_reads_during_writes_are_prefixes(segment: siltstone.Segment, load: Load) -> None:
    """At most this many lines in each round: a partition has about ten, and each is a task."""
    may_write = threading.Semaphore(0)
    stop = threading.Event()

    def write() -> None:
        for number in range(ROUNDS * LINES):
            may_write.acquire()
            if stop.is_set():
                return
            segment.append(b"%d\n" % number)
            if number % 50 == 49:
                segment.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts = []
        for _ in range(ROUNDS):
            may_write.release(LINES)
            found = [int(row.value) for row in load(range_bytes=37).collect()]
            assert found == list(range(len(found)))
            counts.append(len(found))
    finally:
        stop.set()
        may_write.release(ROUNDS * LINES)
        writer.join()
    assert counts == sorted(counts)
    assert counts[-1] > 0


def test_filters_of_one_query_do_not_narrow_the_next(
    segment: siltstone.Segment, load: Load
) -> None:
    segment.append(b"a\nb\nc\n")
    frame = load()
    assert frame.where("value > 'b'").count() == 1
    assert frame.count() == 3
    assert frame.where("value > 'b'").union(frame).count() == 4
