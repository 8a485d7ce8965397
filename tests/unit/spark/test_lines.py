"""Every line of a segment comes once, from the range in which it begins, for any layout."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.core.constants import BLOCK_BYTES, MIB
from siltstone.core.errors import CapabilityError, CorruptDataError, LostDataError
from siltstone.core.storage.block_sums import block_count
from siltstone.pipelines import byte_source, lines
from siltstone.pipelines.window import cut_window
from siltstone.spark import ranges
from siltstone.spark.ranges import RecordRange
from tests.support.spark.layouts import LaidOut, expected_lines, options

TEXTS = {
    "nothing": b"",
    "one line": b"abc\n",
    "no newline at all": b"abc",
    "no newline at the end": b"ab\ncd",
    "only newlines": b"\n\n\n\n",
    "one newline": b"\n",
    "empty lines between": b"\na\n\n\nbc\n\n",
    "carriage returns": b"a\r\nb\r\n\r\n\r",
    "many bytes a character": "žluťoučký\nkůň 🐎\n日本\n語".encode(),
    "not UTF-8": b"\xff\xfe\n\x80\n",
    "a long line between short ones": b"a\n" + b"x" * 50 + b"\nb\n",
    "NUL": b"\0\n\0\0\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 100])
def test_lines_are_those_of_python(text: bytes, chunk_bytes: int) -> None:
    for tail in (0, 1, 4, 100):
        flushed = max(0, len(text) - tail)
        cuts = [*range(chunk_bytes, flushed, chunk_bytes), flushed] if flushed else []
        segment = LaidOut(text, cuts)
        for range_bytes in (1, 2, 3, 7, None):
            found = _all(segment, segment.plan(options(range_bytes=range_bytes)))
            assert found == expected_lines(text), (tail, range_bytes)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=150)
def test_any_layout_any_ranges_any_start(data: st.DataObject) -> None:
    text = b"".join(data.draw(st.lists(st.sampled_from([b"\n", b"\r\n", b"a", "é".encode()]))))
    flushed = data.draw(st.integers(0, len(text)))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, flushed - 1)))) | {flushed})
    cuts = [cut for cut in cuts if 0 < cut <= flushed]
    start = data.draw(st.integers(0, len(text)))
    segment = LaidOut(text, cuts, start=start, foreign=data.draw(st.booleans()))
    begin = data.draw(st.integers(start, len(text)))
    stop = data.draw(st.integers(begin, len(text)))
    wanted = options(
        range_bytes=data.draw(st.integers(1, 9) | st.none()),
        start=data.draw(st.just(begin) | st.none()) if begin == start else begin,
        stop=stop,
    )
    found = _all(segment, segment.plan(wanted))
    assert found == [line for at, line in _with_offsets(text, start) if begin <= at < stop]


def test_a_range_gives_the_lines_that_begin_in_it() -> None:
    text = b"aa\nbb\ncccccccc\nd\n"
    segment = LaidOut(text, [4, 9, len(text)])
    for part in segment.plan(options(range_bytes=3)):
        wanted = [line for at, line in _with_offsets(text, 0) if part.start <= at < part.stop]
        assert list(segment.lines(part)) == wanted


def test_a_truncated_segment_begins_with_what_is_left_of_its_first_line() -> None:
    segment = LaidOut(b"first\nsecond\n", [13], start=3)
    assert _all(segment, segment.plan(options())) == [b"st", b"second"]


def test_a_from_inside_a_line_leaves_that_line_to_the_read_before() -> None:
    segment = LaidOut(b"first\nsecond\nthird\n", [19])
    before = _all(segment, segment.plan(options(stop=8)))
    following = _all(segment, segment.plan(options(start=8)))
    assert (before, following) == ([b"first", b"second"], [b"third"])


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("foreign", [False, True])
def test_lines_across_blocks_and_reads(
    monkeypatch: pytest.MonkeyPatch, extra: int, *, foreign: bool
) -> None:
    monkeypatch.setattr(byte_source, "READ_BYTES", BLOCK_BYTES)
    pieces = [b"x" * (BLOCK_BYTES - 1 + extra), b"", b"y" * (3 * BLOCK_BYTES), b"z\r", b"w" * 10]
    text = b"\n".join([*pieces, *pieces])
    cuts = [BLOCK_BYTES, 2 * BLOCK_BYTES + 5, len(text) - 7]
    segment = LaidOut(text, cuts, foreign=foreign)
    for range_bytes in (None, BLOCK_BYTES, 3 * BLOCK_BYTES + 1):
        found = _all(segment, segment.plan(options(range_bytes=range_bytes)))
        assert found == expected_lines(text)


def test_a_line_beyond_the_window_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "LOOKAHEAD_BYTES", 0)
    text = b"a\n" + b"x" * 20 + b"\nb\n"
    segment = LaidOut(text, [6, 12, 15])
    parts = segment.plan(options(range_bytes=4))
    assert _all(segment, parts) == expected_lines(text)
    assert segment.look_ups


def test_a_line_longer_than_the_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 5)
    segment = LaidOut(b"abc\nabcdefgh", [12])
    with pytest.raises(CapabilityError, match="too long begins_at=4"):
        _all(segment, segment.plan(options()))


def test_reads_grow_with_a_long_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_source, "READ_BYTES", BLOCK_BYTES)
    text = b"x" * (16 * MIB)
    segment = LaidOut(text, [len(text)])
    calls: list[int] = []
    plain = segment.storage.read_into

    def counted(name: str, offset: int, buffer: memoryview | bytearray) -> int:
        calls.append(len(buffer))
        return plain(name, offset, buffer)

    monkeypatch.setattr(segment.storage, "read_into", counted)
    (part,) = segment.plan(options(range_bytes=len(text)))
    assert list(segment.lines(part)) == [text]
    assert len(calls) < block_count(len(text)) / 4


def test_a_damaged_block_is_an_error_that_names_the_chunk() -> None:
    segment = LaidOut(b"abc\n" * 10, [8, 40])
    segment.storage.delete("chunks/2")
    segment.storage.create("chunks/2", [b"abc\n" * 7 + b"abX\n"])
    with pytest.raises(CorruptDataError, match="where=chunks/2"):
        _all(segment, segment.plan(options()))


def test_a_chunk_that_moved_is_found_again() -> None:
    segment = LaidOut(b"abc\nde\nf\n", [5, 9])
    moved = LaidOut(b"abc\nde\nf\n", [3, 9])
    parts = segment.plan(options())
    segment.storage.delete("chunks/2")
    content = b"\nde\nf\n"
    segment.storage.create("merged", [content])
    row = moved.extents[1]
    merged = _renamed(moved, row.chunk.name, "merged")
    found = [
        line
        for part in parts
        for line in segment.lines(part, lambda offset: cut_window(merged.map(offset, 9), offset, 9))
    ]
    assert found == [b"abc", b"de", b"f"]


def test_a_chunk_that_is_still_named_and_gone_is_lost() -> None:
    segment = LaidOut(b"abc\nde\n", [7])
    parts = segment.plan(options())
    segment.storage.delete("chunks/1")
    with pytest.raises(LostDataError, match="chunk does not exist any more where=chunks/1"):
        _all(segment, parts)


def _all(segment: LaidOut, parts: list[RecordRange]) -> list[bytes]:
    return [line for part in parts for line in segment.lines(part)]


def _with_offsets(text: bytes, start: int) -> list[tuple[int, bytes]]:
    found, offset = [], start
    for line in expected_lines(text[start:]):
        found.append((offset, line))
        offset += len(line) + 1
    return found


def _renamed(segment: LaidOut, old: str, new: str) -> LaidOut:
    segment.extents = [
        replace(row, chunk=replace(row.chunk, name=new)) if row.chunk.name == old else row
        for row in segment.extents
    ]
    return segment
