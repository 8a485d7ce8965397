"""How a read is cut into tasks, and what travels with each."""

from __future__ import annotations

import pickle

import pytest

from siltstone.core.constants import BLOCK_BYTES, GIB, MIB
from siltstone.core.errors import CapabilityError, SegmentTruncatedError, SettingsError
from siltstone.spark import ranges
from siltstone.spark.ranges import RANGE_BYTES, TAIL_RANGE_BYTES, range_borders, range_size
from tests.support.spark.layouts import LaidOut, options


@pytest.mark.parametrize(
    ("length", "cores", "count"),
    [
        (0, 2, 0),
        (1, 2, 1),
        (16 * MIB, 2, 1),
        (16 * MIB + 1, 2, 2),
        (120 * MIB, 2, 6),
        (120 * MIB, 1, 3),
        (384 * MIB, 2, 6),
        (GIB, 2, 8),
        (GIB, 16, 48),
    ],
)
def test_there_is_work_for_every_core_and_no_task_is_tiny(
    length: int, cores: int, count: int
) -> None:
    borders = range_borders(0, length, length, range_size(length, None, cores))
    assert len(borders) == count
    assert all(stop - start <= RANGE_BYTES for start, stop in borders)
    assert all(start % BLOCK_BYTES == 0 for start, _ in borders)


@pytest.mark.parametrize("start", [0, 3, 70])
@pytest.mark.parametrize("stop", [70, 71, 100])
@pytest.mark.parametrize("flushed", [0, 50, 70, 71, 200])
@pytest.mark.parametrize("range_bytes", [1, 7, 1000, None])
def test_ranges_are_contiguous(
    start: int, stop: int, flushed: int, range_bytes: int | None
) -> None:
    borders = range_borders(start, stop, flushed, range_size(stop - start, range_bytes, 2))
    joined = [offset for begin, end in borders for offset in range(begin, end)]
    assert joined == list(range(start, stop))
    assert all(begin < end for begin, end in borders)


def test_the_tail_is_cut_finer() -> None:
    borders = range_borders(0, 256 * MIB, 128 * MIB, 128 * MIB)
    assert borders[0] == (0, 128 * MIB)
    assert [end - start for start, end in borders[1:]] == [TAIL_RANGE_BYTES] * 8


def test_a_task_carries_its_part_of_the_tail_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "LOOKAHEAD_BYTES", 2)
    parts = LaidOut(b"0123456789", [3]).plan(options(range_bytes=4))
    assert [(part.start, part.stop) for part in parts] == [(0, 3), (3, 7), (7, 10)]
    assert [part.window.tail for part in parts] == [b"34", b"345678", b"6789"]


def test_a_task_carries_the_sums_of_its_blocks_only() -> None:
    text = bytes(4 * BLOCK_BYTES)
    parts = LaidOut(text, [len(text)]).plan(options(range_bytes=BLOCK_BYTES))
    window = parts[1].window
    # From the byte before the range to the end of the look-ahead.
    assert (window.start, window.end) == (BLOCK_BYTES - 1, len(text))
    assert [len(run.sums) for run in window.runs] == [16]
    assert [len(run.sums) for run in parts[3].window.runs] == [8]


def test_a_task_is_picklable_and_small() -> None:
    (part,) = LaidOut(b"a\n" * 1000, [1000, 2000]).plan(options())
    packed = pickle.dumps(part)
    assert pickle.loads(packed) == part
    assert len(packed) < 2000


def test_only_the_first_range_begins_a_line_wherever_it_is() -> None:
    segment = LaidOut(b"0123456789", [10], start=2)
    assert [part.at_record_start for part in segment.plan(options(range_bytes=4))] == [True, False]
    assert [part.at_record_start for part in segment.plan(options(start=3))] == [False]


def test_nothing_to_read_is_no_task() -> None:
    assert LaidOut(b"").plan(options()) == []
    assert LaidOut(b"abc", [3], start=3).plan(options()) == []
    assert LaidOut(b"abc", [3]).plan(options(start=1, stop=1)) == []


def test_more_tail_than_a_driver_can_carry_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "TAIL_BYTES_MAX", 5)
    with pytest.raises(CapabilityError, match=r"flush the segment first .*unflushed_bytes=6"):
        LaidOut(b"abcdef").plan(options())


@pytest.mark.parametrize(("start", "stop"), [(11, None), (None, 11), (11, 12)])
def test_an_offset_beyond_the_end_is_refused(start: int | None, stop: int | None) -> None:
    with pytest.raises(SettingsError, match=r"is 11, beyond the length 10 of 's'"):
        LaidOut(b"0123456789", [5]).plan(options(start=start, stop=stop))


@pytest.mark.parametrize(("start", "stop"), [(1, None), (None, 1)])
def test_an_offset_below_the_start_is_refused(start: int | None, stop: int | None) -> None:
    with pytest.raises(SegmentTruncatedError, match="offset=1 start_offset=2"):
        LaidOut(b"0123456789", [5], start=2).plan(options(start=start, stop=stop))
