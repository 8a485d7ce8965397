"""The time index against a list of all bytes, with any sizes, clocks, flushes, truncations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.constants import KIB, MIB
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.time_row import TimeRow
from siltstone.metadata.changes import put_time
from siltstone.metadata.index_rows import Entry
from siltstone.metadata.tables import Tables
from siltstone.metadata.time_index import (
    FALLS_MAX,
    OFFSET_END,
    STEP_BYTES,
    STEP_MS,
    TimedBytes,
    flushed_before,
    newest_times,
    offset_before,
    plan_times,
    times_below,
    times_fault,
)

SEGMENT = 7
NOW_MS = 1 << 50
"""After every time of a test in which no clock is ahead."""
SIZES = st.sampled_from([1, 100, 200 * KIB, 700 * KIB, MIB, 3 * MIB])


@dataclass
class Rows:
    """The scan of ``Tables`` over a dict."""

    rows: dict[bytes, bytes] = field(default_factory=dict)

    def scan(
        self, table_id: int, low: bytes, high: bytes, *, reverse: bool = False, limit: int = 1_000
    ) -> list[tuple[bytes, Entry]]:
        found = sorted((key for key in self.rows if low <= key < high), reverse=reverse)
        return [(key, Entry(1, self.rows[key])) for key in found[:limit]]

    def put(self, entries: list[TableEntry]) -> None:
        for entry in entries:
            if entry.value is None:
                self.rows.pop(entry.key, None)
            else:
                self.rows[entry.key] = entry.value

    @property
    def tables(self) -> Tables:
        return cast("Tables", self)


@dataclass
class Segment:
    """What was appended, and how much of it is flushed."""

    rows: Rows = field(default_factory=Rows)
    parts: list[TimedBytes] = field(default_factory=list)
    flushed: int = 0
    start: int = 0

    @property
    def length(self) -> int:
        return self.parts[-1].end if self.parts else 0

    def append(self, size: int, time_ms: int) -> None:
        self.parts.append(TimedBytes(self.length, self.length + size, time_ms))

    def flush(self, count: int) -> None:
        waiting = [part for part in self.parts if part.end > self.flushed][:count]
        if waiting:
            self.move(waiting[-1].end)

    def move(self, end: int) -> None:
        known = newest_times(self.rows.tables, SEGMENT, self.flushed)
        waiting = [part for part in self.parts if part.end > self.flushed]
        self.rows.put(plan_times(SEGMENT, known, self.flushed, waiting, end, self.start))
        self.flushed = end

    def truncate(self, to: int) -> None:
        """To any byte; if it is not flushed, the flushed length passes it."""
        self.start = max(self.start, to)
        if self.start > self.flushed:
            self.move(self.start)
        dead = times_below(self.rows.tables, SEGMENT, self.start)
        for row in dead:
            self.rows.rows = {
                key: value
                for key, value in self.rows.rows.items()
                if int.from_bytes(key[9:]) != row.offset
            }

    def offset_at(self, time_ms: int, now_ms: int = NOW_MS) -> int:
        tail = [part for part in self.parts if part.end > self.flushed]
        return offset_before(
            self.rows.tables, SEGMENT, self.start, self.flushed, tail, time_ms, now_ms
        )

    def first_since(self, time_ms: int, now_ms: int) -> TimedBytes | None:
        """The first readable append that counts as made at ``time_ms`` or later."""
        found, counts_ms = None, now_ms
        for part in reversed([part for part in self.parts if part.end > self.start]):
            # A time in the future does not count: the append is no younger than the next one.
            if part.time_ms <= now_ms + STEP_MS:
                counts_ms = part.time_ms
            if counts_ms >= time_ms:
                found = part
        return found


STEPS_OF_ONE = st.one_of(
    st.tuples(st.just("append"), SIZES, st.integers(-40_000, 40_000)),
    st.tuples(st.just("flush"), st.integers(1, 5), st.just(0)),
    st.tuples(st.just("cut"), st.integers(0, 100), st.just(0)),
    st.tuples(st.just("truncate"), st.integers(0, 100), st.just(0)),
)
STEPS = st.lists(STEPS_OF_ONE, max_size=40)


def _play(steps: list[tuple[str, int, int]], *, forward: bool) -> Segment:
    segment = Segment()
    now_ms = 1_000_000
    for step, value, by_ms in steps:
        if step == "append":
            now_ms = max(0, now_ms + (abs(by_ms) if forward else by_ms))
            segment.append(value, now_ms)
        elif step == "flush":
            segment.flush(value)
        elif step == "cut":
            # A full shared chunk ends inside an append.
            end = segment.flushed + (segment.length - segment.flushed) * value // 100
            if end > segment.flushed:
                segment.move(end)
        else:
            segment.truncate(segment.start + (segment.length - segment.start) * value // 100)
    return segment


def _times(segment: Segment) -> list[int]:
    known = {part.time_ms for part in segment.parts} | {0}
    return sorted(known | {time + 1 for time in known})


@pytest.mark.slow
@given(STEPS)
def test_nothing_that_was_appended_since_is_missed(steps: list[tuple[str, int, int]]) -> None:
    segment = _play(steps, forward=False)
    borders = {part.offset for part in segment.parts} | {segment.start, segment.length}
    for time_ms in _times(segment):
        found = segment.offset_at(time_ms)
        assert found in borders
        assert segment.start <= found <= segment.length
        for part in segment.parts:
            if part.time_ms >= time_ms and part.end > segment.start:
                assert found <= max(part.offset, segment.start)


@pytest.mark.slow
@given(STEPS)
def test_little_that_is_older_comes_with_it(steps: list[tuple[str, int, int]]) -> None:
    segment = _play(steps, forward=True)
    for time_ms in _times(segment):
        found = segment.offset_at(time_ms)
        wanted = [p for p in segment.parts if p.time_ms >= time_ms and p.end > segment.start]
        if not wanted:
            assert found == segment.length
            continue
        first = max(wanted[0].offset, segment.start)
        assert first - found < STEP_BYTES
        for part in segment.parts:
            if part.end > found and part.offset < first:
                assert wanted[0].time_ms - part.time_ms < STEP_MS


JUMPS = st.lists(
    st.one_of(
        STEPS_OF_ONE,
        # One clock goes back and forth by any amount while others are right.
        st.tuples(st.just("append"), SIZES, st.sampled_from([-(10**9), -60_000, 60_000, 10**9])),
    ),
    max_size=40,
)


@pytest.mark.slow
@given(JUMPS, st.data())
def test_a_clock_that_was_ahead_spoils_nothing_but_its_own_bytes(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    segment = _play(steps, forward=False)
    assert times_fault(segment.rows.tables, SEGMENT, segment.start, segment.flushed) is None
    times = _times(segment)
    now_ms = data.draw(st.sampled_from(times))
    for time_ms in times:
        if time_ms > now_ms:
            continue
        found = segment.offset_at(time_ms, now_ms)
        readable = [part for part in segment.parts if part.end > segment.start]
        for part in readable:
            if time_ms <= part.time_ms <= now_ms:
                assert found <= max(part.offset, segment.start)
        # A row covers up to one step more than its bytes, and so does its beginning.
        first = segment.first_since(time_ms - 2 * STEP_MS, now_ms)
        if first is None:
            assert found == segment.length
            continue
        long_before = [part for part in readable if part.end <= first.offset - STEP_BYTES]
        assert all(found >= part.end for part in long_before)


@pytest.mark.slow
@given(JUMPS)
def test_a_flush_changes_an_answer_by_a_step_at_most(steps: list[tuple[str, int, int]]) -> None:
    segment = _play(steps, forward=False)
    times = [time_ms for time_ms in _times(segment) if time_ms > 2 * STEP_MS]
    now_ms = max(_times(segment))
    before = {time_ms: segment.offset_at(time_ms, now_ms) for time_ms in times}
    if segment.length > segment.flushed:
        segment.move(segment.length)
    for time_ms, was in before.items():
        found = segment.offset_at(time_ms, now_ms)
        first = segment.first_since(time_ms - 2 * STEP_MS, now_ms)
        border = segment.length if first is None else max(first.offset, segment.start)
        assert min(border - STEP_BYTES, was) <= found <= was


def test_what_was_truncated_has_no_time() -> None:
    """The clock is three years ahead for one append, which is flushed, and truncated much later."""
    segment = Segment()
    for time_ms in (10**9, 10**9 + 10**11, *range(10**9, 10**9 + 30 * 10**7, 10**7)):
        segment.append(100, time_ms)
        segment.flush(1)
    segment.truncate(200)
    for now_ms in (10**9 + 30 * 10**7, 10**12):
        for number in range(30):
            assert segment.offset_at(10**9 + number * 10**7, now_ms) == 200 + number * 100


def test_a_time_in_the_future_is_that_of_what_follows() -> None:
    segment = Segment()
    for time_ms in (10**9, 10**9 + 10**11, 10**9 + 10**7, 10**9 + 2 * 10**7):
        segment.append(100, time_ms)
    now_ms = 10**9 + 3 * 10**7
    expected = {10**9: 0, 10**9 + 1: 100, 10**9 + 10**7 + 1: 300, now_ms: 400}
    for _ in range(2):
        assert {time_ms: segment.offset_at(time_ms, now_ms) for time_ms in expected} == expected
        segment.flush(4)


def test_a_time_in_the_future_at_the_end_is_now() -> None:
    segment = Segment()
    for time_ms in (10**9, 10**9 + 10**11):
        segment.append(100, time_ms)
    for _ in range(2):
        assert segment.offset_at(10**9 + 1, 10**9 + 500_000) == 100
        assert segment.offset_at(10**9 + 500_000, 10**9 + 500_000) == 100
        segment.flush(2)


def test_a_clock_that_goes_to_and_fro_leaves_few_runs() -> None:
    """After ``FALLS_MAX`` falls, new bytes count as no older than earlier ones: none are missed."""
    segment = Segment()
    for count in range(3 * FALLS_MAX):
        segment.append(100, 10**9 + count * 1_000 + (count % 2) * 10**6)
        segment.flush(1)
    (newest,) = newest_times(segment.rows.tables, SEGMENT, segment.flushed, 1)
    assert newest.falls == FALLS_MAX
    assert times_fault(segment.rows.tables, SEGMENT, segment.start, segment.flushed) is None
    for part in segment.parts[::16]:
        assert segment.offset_at(part.time_ms) <= part.offset


@pytest.mark.slow
@given(STEPS)
def test_rows_are_few_and_dead_ones_go(steps: list[tuple[str, int, int]]) -> None:
    segment = _play(steps, forward=True)
    rows = times_below(segment.rows.tables, SEGMENT, OFFSET_END)
    assert all(row.offset >= segment.start for row in rows)
    assert [row.time_ms for row in rows] == sorted(row.time_ms for row in rows)
    if segment.flushed:
        assert rows[-1].offset == segment.flushed
    # At most two in a step where pieces are small: one after a long pause, one after a MiB.
    for one, two, three in zip(rows, rows[1:], rows[2:-1], strict=False):
        long = three.offset - one.offset >= STEP_BYTES
        assert long or three.time_ms - one.time_ms >= STEP_MS or two.offset == 0


@pytest.mark.slow
@given(STEPS)
def test_rows_never_contradict_themselves(steps: list[tuple[str, int, int]]) -> None:
    segment = _play(steps, forward=False)
    assert times_fault(segment.rows.tables, SEGMENT, segment.start, segment.flushed) is None


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([(10, 5), (20, 4)], "the append time at 20 falls from 5 to 4"),
        ([(10, 5), (101, 6)], "an append time at 101, beyond the flushed length 100"),
        ([(10, 5), (100, 5)], None),
    ],
)
def test_faults_of_the_index_are_told(rows: list[tuple[int, int]], fault: str | None) -> None:
    kept = Rows()
    kept.put([put_time(TimeRow(segment_id=SEGMENT, offset=o, time_ms=t)) for o, t in rows])
    assert times_fault(kept.tables, SEGMENT, 0, 100) == fault


def test_dead_rows_that_are_still_there_contradict_nothing() -> None:
    kept = Rows()
    kept.put([put_time(TimeRow(segment_id=SEGMENT, offset=o, time_ms=9 - o)) for o in (1, 2, 3)])
    assert times_fault(kept.tables, SEGMENT, 2, 3) is None
    assert times_fault(kept.tables, SEGMENT, 1, 3) is not None


@pytest.mark.slow
def test_many_small_flushes_leave_few_rows() -> None:
    segment = Segment()
    for count in range(2_000):
        segment.append(100, 1_000_000 + count * 100)
        segment.flush(1)
    rows = times_below(segment.rows.tables, SEGMENT, OFFSET_END)
    assert len(rows) <= 2_000 * 100 // STEP_MS + 3


def test_bytes_that_were_flushed_without_an_index_count_as_appended_before_the_next() -> None:
    segment = Segment()
    segment.append(MIB, 5_000)
    segment.flushed = MIB
    segment.append(10, 700_000)
    assert segment.offset_at(6_000) == 0
    segment.flush(1)
    segment.append(10, 800_000)
    segment.flush(1)
    assert segment.offset_at(800_000) == MIB + 10
    assert segment.offset_at(700_001) == MIB + 10
    assert segment.offset_at(6_000) == 0


@pytest.mark.slow
def test_a_search_looks_at_few_rows() -> None:
    rows = Rows()
    looks = 0
    scan = rows.scan

    def counting(*arguments: object, **options: object) -> list[tuple[bytes, Entry]]:
        nonlocal looks
        looks += 1
        return scan(*arguments, **options)  # type: ignore[arg-type]

    for count in range(1, 5_001):
        part = TimedBytes((count - 1) * MIB, count * MIB, count * 1_000)
        known = newest_times(rows.tables, SEGMENT, part.offset)
        rows.put(plan_times(SEGMENT, known, part.offset, [part], part.end))
    rows.scan = counting  # type: ignore[method-assign]
    assert flushed_before(rows.tables, SEGMENT, 0, 5_000 * MIB, 2_500_000) == 2_499 * MIB
    assert looks <= 40
