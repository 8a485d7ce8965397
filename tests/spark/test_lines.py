"""Rows are the lines of the segment, whatever lies where."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import siltstone
from tests.spark.conftest import CHUNK_BYTES, Load
from tests.support.spark.layouts import expected_lines

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

LINE = b"x" * (CHUNK_BYTES - 1) + b"\n"

LAYOUTS = {
    "borders of lines at borders of chunks": (LINE * 4, b""),
    "borders of lines a byte before": (LINE[1:] * 5, b""),
    "borders of lines a byte after": ((b"x" + LINE) * 5, b""),
    "carriage returns": (b"a\r\nbc\r\n\r\n" * 20, b"d\r\n"),
    "empty lines": (b"\n" * 150, b"\n\n"),
    "no newline at the end": (b"abc\n" * 40 + b"de", b""),
    "no newline at all": (b"abc" * 50, b"def"),
    "many bytes a character": ("žluťoučký kůň 🐎\n".encode() * 20, "příliš\n".encode()),
    "a line over many chunks": (b"a\n" + b"x" * 1000 + b"\nb\n", b"c\n"),
    "a line from a chunk into the tail": (b"a\nbbb", b"bbb\nc\n"),
    "the tail only": (b"", b"a\nb\n\nc"),
    "chunks only": (b"a\nb\n\nc" * 30, b""),
    "nothing": (b"", b""),
}


@pytest.mark.parametrize(("flushed", "tail"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_rows_are_the_lines_of_python(
    segment: siltstone.Segment, load: Load, flushed: bytes, tail: bytes
) -> None:
    if flushed:
        segment.append(flushed)
        segment.flush()
    if tail:
        segment.append(tail)
    wanted = expected_lines(flushed + tail)
    for options in ({}, {"range_bytes": 50}):
        rows = load(**options).collect()
        assert [row.value.encode() for row in rows] == wanted, options


def test_ranges_of_few_bytes(segment: siltstone.Segment, load: Load) -> None:
    text = b"ab\n\ncdefg\r\nh"
    segment.append(text[:7])
    segment.flush()
    segment.append(text[7:])
    frame = load(range_bytes=3)
    assert frame.rdd.getNumPartitions() == -(-7 // 3) + -(-5 // 3)
    assert [row.value.encode() for row in frame.collect()] == expected_lines(text)


def test_a_truncated_segment_begins_inside_its_first_line(
    segment: siltstone.Segment, load: Load
) -> None:
    segment.append(b"first\nsecond\n" * 20)
    segment.flush()
    segment.truncate(CHUNK_BYTES + 3)
    wanted = expected_lines((b"first\nsecond\n" * 20)[CHUNK_BYTES + 3 :])
    assert [row.value.encode() for row in load(range_bytes=20).collect()] == wanted


def test_parts_of_a_segment_join_without_gap(segment: siltstone.Segment, load: Load) -> None:
    text = b"".join(b"line %d\n" % number for number in range(50))
    segment.append(text)
    segment.flush()
    found = []
    for start, stop in ((0, 33), (33, 200), (200, len(text))):
        found += load(from_=start, to=stop).collect()
    assert [row.value.encode() for row in found] == expected_lines(text)


def test_concatenated_segments_are_read_where_their_bytes_lie(
    store: siltstone.Store, segment: siltstone.Segment, load: Load
) -> None:
    target = store.create(f"{{{segment.name}}}target")
    source = store.create(f"{{{segment.name}}}source")
    target.append(b"abc\nde")
    source.append(b"f\nghi\n" * 20)
    for part in (target, source):
        part.flush()
    source.seal()
    target.concat(source)
    found = load(segment=target.name, range_bytes=7).collect()
    assert [row.value.encode() for row in found] == expected_lines(b"abc\nde" + b"f\nghi\n" * 20)


def test_each_range_is_a_task(spark: SparkSession, segment: siltstone.Segment, load: Load) -> None:
    segment.append(LINE * 10)
    segment.flush()
    spark.sparkContext.setJobGroup("one task a range", "")
    assert load(range_bytes=100).count() == 10
    tracker = spark.sparkContext.statusTracker()
    (job,) = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("one task a range")][:1]
    assert job is not None
    stages = [tracker.getStageInfo(stage) for stage in job.stageIds]
    assert 7 in [stage.numTasks for stage in stages if stage is not None]


def test_bytes_are_read_as_they_are(segment: siltstone.Segment, load: Load) -> None:
    segment.append(b"\xff\xfe\0\n\x80")
    assert [bytes(row.value) for row in load(schema="value BINARY").collect()] == [
        b"\xff\xfe\0",
        b"\x80",
    ]


def test_a_stricter_schema_is_obeyed(segment: siltstone.Segment, load: Load) -> None:
    segment.append(b"a\n")
    frame = load(schema="value STRING NOT NULL")
    assert [row.value for row in frame.collect()] == ["a"]


def test_a_segment_whose_bytes_lie_in_a_shared_chunk(
    store: siltstone.Store, segment: siltstone.Segment, load: Load
) -> None:
    for number in range(60):
        store.create(f"beside {segment.name}/{number}").append(b"x\ny\n")
    segment.append(b"ab\ncd\n")
    store.flush()
    (chunk,) = segment.chunks()
    assert "/_shared/" in chunk.chunk
    assert chunk.chunk_length > chunk.length
    segment.append(b"tail\n")
    for options in ({}, {"range_bytes": 4}):
        assert [row.value for row in load(**options).collect()] == ["ab", "cd", "tail"]
