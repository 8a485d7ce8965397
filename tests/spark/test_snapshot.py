"""A data frame is the segment at one moment, beside a writer that goes on."""

from __future__ import annotations

import threading

import pytest

import siltstone
from tests.spark.conftest import Load

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


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


def test_reads_beside_a_running_writer_are_prefixes(segment: siltstone.Segment, load: Load) -> None:
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            segment.append(b"%d\n" % number)
            number += 1
            if number % 50 == 0:
                segment.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts = []
        for _ in range(3):
            found = [int(row.value) for row in load(range_bytes=37).collect()]
            assert found == list(range(len(found)))
            counts.append(len(found))
    finally:
        stop.set()
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
