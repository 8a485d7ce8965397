"""Blocks of bytes, and the offsets of lines: the same for any layout."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.spark.options import Mode, ReadOptions
from siltstone.spark.ranges import RecordRange, pack_ranges
from tests.support.spark.layouts import LaidOut, expected_lines, options


def read(segment: LaidOut, wanted: ReadOptions) -> list[dict[str, Any]]:
    return [row for part in segment.plan(wanted) for row in segment.rows(part, wanted)]


def cut_anywhere(data: st.DataObject, text: bytes) -> LaidOut:
    flushed = data.draw(st.integers(0, len(text)))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, flushed)))) | {flushed})
    return LaidOut(
        text, [cut for cut in cuts if 0 < cut <= flushed], foreign=data.draw(st.booleans())
    )


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=60)
def test_blocks_are_those_of_a_slice(data: st.DataObject) -> None:
    text = data.draw(st.binary(max_size=60))
    segment = cut_anywhere(data, text)
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    size = data.draw(st.integers(1, 20))
    wanted = options(
        mode=Mode.BYTES,
        columns=("offset", "value", "segment"),
        start=start,
        stop=stop,
        block_bytes=size,
        range_bytes=data.draw(st.integers(1, 30) | st.none()),
    )
    assert read(segment, wanted) == [
        {"offset": at, "value": text[at : min(stop, at + size)], "segment": "s"}
        for at in range(start, stop, size)
    ]


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=60)
def test_offsets_of_lines(data: st.DataObject) -> None:
    text = b"".join(data.draw(st.lists(st.sampled_from([b"\n", b"\r\n", b"a", "é".encode()]))))
    segment = cut_anywhere(data, text)
    wanted = options(columns=("offset",), range_bytes=data.draw(st.integers(1, 9) | st.none()))
    found, offset = [], 0
    for line in expected_lines(text):
        found.append(offset)
        offset += len(line) + 1
    assert [row["offset"] for row in read(segment, wanted)] == found


def test_blocks_larger_than_a_read() -> None:
    text = bytes(range(256)) * 40_000
    segment = LaidOut(text, [3_000_000, 3_000_001, 9_000_000])
    wanted = options(mode=Mode.BYTES, block_bytes=4 << 20)
    assert [row["value"] for row in read(segment, wanted)] == [
        text[at : at + (4 << 20)] for at in range(0, len(text), 4 << 20)
    ]


def test_an_older_length_ends_a_line_where_the_segment_ended() -> None:
    segment = LaidOut(b"abc\ndef\nghi\n", [5, 12])
    assert [row["value"] for row in read(segment, options(at_length={"s": 6}))] == ["abc", "de"]
    assert [row["value"] for row in read(segment, options(stop=6))] == ["abc", "def"]


def parts_of(*lengths: int, tails: int = 0) -> list[RecordRange]:
    found = []
    for length in lengths:
        segment = LaidOut(bytes(length), [length - tails] if length > tails else [])
        found += segment.plan(options(mode=Mode.BYTES, range_bytes=1 << 30))
    return found


def test_small_segments_share_a_task() -> None:
    tasks = pack_ranges(parts_of(*[10] * 95), 100)
    assert [len(task) for task in tasks] == [10] * 9 + [5]
    assert [len(task) for task in pack_ranges(parts_of(60, 60, 30, 10, 200, 5), 100)] == [
        1,
        3,
        1,
        1,
    ]
    assert pack_ranges([], 100) == []


def test_a_task_carries_few_unflushed_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.spark.ranges.TAIL_RANGE_BYTES", 25)
    tasks = pack_ranges(parts_of(*[10] * 6, tails=10), 1_000)
    assert [len(task) for task in tasks] == [2, 2, 2]
