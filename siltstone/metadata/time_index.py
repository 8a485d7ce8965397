"""The time index: which bytes of a segment were appended before a time.

A row says of an append border until when the bytes since the row before were appended. There is one
at least every MiB or 10 seconds, where appends end that often, and always one at the flushed
length; what is only in tier 1 has its times in memory. Rows of dead bytes go after a truncation.

Rows keep the times as the clocks told them. Where a clock went back, a row names the last one
before that, so rows are a list of runs in which times never fall. What a time in the future means
is judged when a caller asks: by then it is known whether it is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from siltstone.core.constants import MIB, ROWS_PER_SLICE
from siltstone.core.records.keys import METADATA_TABLE, time_key, time_of
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.time_row import TimeRow, decode_time_row
from siltstone.metadata.changes import put_time, remove_time
from siltstone.metadata.index_rows import Entry
from siltstone.metadata.tables import Tables

STEP_BYTES = MIB
STEP_MS = 10_000
OFFSET_END = 2**64 - 1
"""Above every offset."""
FALLS_MAX = 64
"""A clock may go back by a step or more this often among readable bytes; what comes later counts
as no older than what was there. A search looks at each run."""


@dataclass(frozen=True, slots=True)
class TimedBytes:
    """Bytes of a segment that were appended at one time.

    Attributes:
        offset: where they begin, an append border.
        end: where they end, another one.
        time_ms: milliseconds since 1970.
    """

    offset: int
    end: int
    time_ms: int


def plan_times(
    segment_id: int,
    known: Sequence[TimeRow],
    begin: int,
    appended: Iterable[TimedBytes],
    end: int,
    start: int = 0,
) -> list[TableEntry]:
    """Plan the rows that come with a move of the flushed length from ``begin`` to ``end``.

    The row at ``begin`` goes unless the steps need it, so flushes of any size leave no more rows
    than the steps ask for, and one at the end.

    Args:
        segment_id: the segment.
        known: its newest two rows, the newest first; fewer when there are not that many.
        begin: the flushed length before.
        appended: what lies in ``[begin, end)``, in order and without gap; it may reach beyond, and
            then ``begin`` or ``end`` is no append border.
        end: the flushed length afterwards.
        start: the first readable offset: what is below counts for nothing.
    """
    parts = [part for part in appended if part.end > begin and part.offset < end]
    plan = _Plan(segment_id, known, begin, parts[0].time_ms, start)
    plan.pass_over(parts, begin, end)
    return plan.entries(end)


class _Plan:
    """The rows of one move of the flushed length, while its appends are passed over in order.

    Rows make runs, in which times never fall. A clock that goes back by a step or more ends a run;
    by less, what comes counts as no older than what was there.
    """

    def __init__(
        self, segment_id: int, known: Sequence[TimeRow], begin: int, first_ms: int, start: int
    ) -> None:
        self._segment_id = segment_id
        self._newest = known[0] if known and known[0].offset == begin else None
        self._rows: list[TimeRow] = []
        self._fall, self._falls = 0, 0
        self._last_offset, self._last_ms = begin, first_ms
        if begin <= start:
            self._latest_ms = first_ms
        elif self._newest is None:
            # Nothing is known of bytes that were flushed before there was an index, but that they
            # came before these.
            self._latest_ms = max(first_ms, known[0].time_ms) if known else first_ms
            self._go_on(known[0] if known else None, start)
        else:
            newest, self._latest_ms = self._newest, self._newest.time_ms
            self._go_on(newest, start)
            before = known[1] if len(known) > 1 else None
            if newest.fall and newest.fall == self._fall and _begins_run(newest, before):
                # The row before is of another clock: nothing else bounds the step.
                self._rows.append(newest)
                self._last_offset, self._last_ms = begin, newest.time_ms
            else:
                self._last_offset = before.offset if before else 0
                self._last_ms = before.time_ms if before else 0

    def _go_on(self, row: TimeRow | None, start: int) -> None:
        if row is not None and row.fall > start:
            self._fall, self._falls = row.fall, row.falls

    def pass_over(self, parts: Sequence[TimedBytes], begin: int, end: int) -> None:
        """Take the appends in order; what is not below ``end`` does not count."""
        latest_ms, last_ms, last_offset = self._latest_ms, self._last_ms, self._last_offset
        for part in parts:
            time_ms = part.time_ms
            falls = latest_ms - time_ms >= STEP_MS
            long = (part.end if part.end < end else end) - last_offset >= STEP_BYTES
            # What begins below was cut by a move before: no append begins at ``begin`` then.
            if (falls or long or time_ms - last_ms >= STEP_MS) and part.offset >= begin:
                self._latest_ms = latest_ms
                self._end_step(part, falls=falls)
                latest_ms, last_ms = self._latest_ms, self._last_ms
                last_offset = self._last_offset
            if time_ms > latest_ms:
                latest_ms = time_ms
        self._latest_ms = latest_ms

    def _end_step(self, part: TimedBytes, *, falls: bool) -> None:
        """Let a row say what lies below an append that is too far away, or of another clock."""
        if part.offset > self._last_offset:
            self._put(part.offset)
        # A run ends at a row; without one, what was there counts on.
        if falls and self._falls < FALLS_MAX and self._ends_at(part.offset):
            self._fall, self._falls = part.offset, self._falls + 1
            self._latest_ms = self._last_ms = part.time_ms

    def _ends_at(self, offset: int) -> bool:
        return bool(self._rows) and self._rows[-1].offset == offset

    def _put(self, offset: int) -> None:
        row = self._row(offset)
        self._rows.append(row)
        self._last_offset, self._last_ms = offset, row.time_ms

    def _row(self, offset: int) -> TimeRow:
        return TimeRow(
            segment_id=self._segment_id,
            offset=offset,
            time_ms=self._latest_ms,
            fall=self._fall,
            falls=self._falls,
        )

    def entries(self, end: int) -> list[TableEntry]:
        """The rows to write, with the one at ``end``, and the one to remove."""
        rows = [*self._rows, self._row(end)]
        newest = self._newest
        kept = newest is None or newest.offset in {row.offset for row in rows}
        gone = [] if kept or newest is None else [remove_time(newest)]
        return [*gone, *(put_time(row) for row in rows if row != newest)]


def _begins_run(row: TimeRow, before: TimeRow | None) -> bool:
    """Whether no row of the same run lies between the end of the run before and ``row``."""
    return before is None or before.offset <= row.fall


def newest_times(tables: Tables, segment_id: int, offset: int, limit: int = 2) -> list[TimeRow]:
    """The last rows that are not above ``offset``, the newest first."""
    if not offset:
        return []
    low, high = time_key(segment_id, 0), time_key(segment_id, offset) + b"\0"
    return _rows(tables.scan(METADATA_TABLE, low, high, reverse=True, limit=limit))


def joined_times(
    tables: Tables, segment_id: int, begin: int, length: int, time_ms: int, start: int
) -> list[TableEntry]:
    """Plan the rows of bytes that are joined to the end of a flushed segment at ``begin``.

    Args:
        tables: rows of the segment.
        segment_id: the segment.
        begin: its flushed length before.
        length: bytes that are joined; none need no row.
        time_ms: milliseconds since 1970: they count as appended now, whenever they came.
        start: its first readable offset.
    """
    if not length:
        return []
    joined = TimedBytes(begin, begin + length, time_ms)
    known = newest_times(tables, segment_id, begin)
    return plan_times(segment_id, known, begin, [joined], joined.end, start)


def append_borders(tables: Tables, segment_id: int, start: int, end: int) -> Iterator[int]:
    """Yield the append borders in ``(start, end)`` that rows know, ascending."""
    low, high = time_key(segment_id, start) + b"\0", time_key(segment_id, end)
    while page := _rows(tables.scan(METADATA_TABLE, low, high, limit=ROWS_PER_SLICE)):
        yield from (row.offset for row in page)
        low = time_key(segment_id, page[-1].offset) + b"\0"


def times_below(tables: Tables, segment_id: int, offset: int) -> list[TimeRow]:
    """The first rows below ``offset``, at most a slice."""
    low, high = time_key(segment_id, 0), time_key(segment_id, offset)
    return _rows(tables.scan(METADATA_TABLE, low, high, limit=ROWS_PER_SLICE))


def flushed_before(tables: Tables, segment_id: int, start: int, end: int, time_ms: int) -> int:
    """The last border in ``[start, end]`` with only bytes below that are older than ``time_ms``.

    ``start`` itself when there is none. In between lies one run, or its end: times do not fall. A
    seek for each bit of the distance, whatever the number of rows.
    """
    first = _first_above(tables, segment_id, start)
    if first is None or first.time_ms >= time_ms:
        return start
    found, low, high = first.offset, first.offset, end
    while low < high:
        middle = (low + high + 1) // 2
        row = next(iter(newest_times(tables, segment_id, middle, 1)), None)
        if row is None or row.offset <= low:
            low = middle
        elif row.time_ms < time_ms:
            found, low = row.offset, middle
        else:
            high = row.offset - 1
    return found


def times_fault(tables: Tables, segment_id: int, start: int, flushed: int) -> str | None:
    """What contradicts itself among the rows of a segment; ``None`` when nothing does.

    Rows of what lies below ``start`` go some time after the truncation, and bound nothing.
    """
    low, end = time_key(segment_id, 0), time_key(segment_id + 1, 0)
    last: TimeRow | None = None
    while page := _rows(tables.scan(METADATA_TABLE, low, end)):
        for row in page:
            if row.offset > flushed:
                return f"an append time at {row.offset}, beyond the flushed length {flushed}"
            falls = last is not None and last.offset > start and row.time_ms < last.time_ms
            if last is not None and falls and row.fall != last.offset:
                return f"the append time at {row.offset} falls from {last.time_ms} to {row.time_ms}"
            last = row
        low = time_key(segment_id, page[-1].offset) + b"\0"
    return None


def offset_before(
    tables: Tables,
    segment_id: int,
    start: int,
    flushed: int,
    tail: Iterable[TimedBytes],
    time_ms: int,
    now_ms: int,
) -> int:
    """The last known append border with only bytes below that are older than ``time_ms``.

    Bytes with a time later than now, by more than a step, had a clock that was ahead. They were
    appended before those that follow, and so count as these; at the end of the segment they count
    as appended now.

    Args:
        tables: rows of what is flushed.
        segment_id: the segment.
        start: its first readable offset; what is below counts for nothing.
        flushed: its flushed length.
        tail: what lies beyond, in order; its first part may begin below.
        time_ms: milliseconds since 1970.
        now_ms: likewise, by the clock of the caller.

    Returns:
        ``start`` when no border is that old; the end when every byte is older.
    """
    # A caller that asks for a time that is yet to come by this clock has it from another one.
    search = _Search(max(now_ms, time_ms))
    found = start
    for low, high in _runs(tables, segment_id, start, flushed):
        found = flushed_before(tables, segment_id, low, high, time_ms)
        young = _first_above(tables, segment_id, found)
        if found > low:
            search.older()
        if young is not None and young.offset <= high:
            border = search.younger(young.time_ms, found)
            if border is not None:
                return border
    if found < flushed and search.ahead is None:
        return found  # nothing is known of what was flushed before there was an index
    found = flushed
    for part in tail:
        if part.end > start:
            if part.time_ms < time_ms:
                search.older()
            else:
                border = search.younger(part.time_ms, max(start, found))
                if border is not None:
                    return border
        found = part.end
    return max(start, found) if search.ahead is None else search.ahead


class _Search:
    """Looks for the first bytes that are young enough, while borders are passed over in order.

    Attributes:
        ahead: the border at which bytes begin whose times lie in the future, when such come last.
    """

    def __init__(self, now_ms: int) -> None:
        # A row may say up to a step more than some of its bytes.
        self._believed_ms = now_ms + STEP_MS
        self.ahead: int | None = None

    def older(self) -> None:
        """Pass over bytes that are older: those before, with times in the future, are too."""
        self.ahead = None

    def younger(self, time_ms: int, border: int) -> int | None:
        """Where the search ends with bytes of this time after ``border``; ``None``: not here."""
        if self.ahead is not None:
            border = self.ahead
        if time_ms <= self._believed_ms:
            return border
        self.ahead = border
        return None


def _runs(tables: Tables, segment_id: int, start: int, flushed: int) -> list[tuple[int, int]]:
    """The parts of ``(start, flushed]`` in which times do not fall, in order."""
    ends = [flushed]
    row = next(iter(newest_times(tables, segment_id, flushed, 1)), None)
    while row is not None and row.fall > start and len(ends) <= FALLS_MAX:
        ends.append(row.fall)
        row = next(iter(newest_times(tables, segment_id, row.fall, 1)), None)
    ends.reverse()
    return list(zip([start, *ends], ends, strict=False)) if flushed > start else []


def _first_above(tables: Tables, segment_id: int, offset: int) -> TimeRow | None:
    low, end = time_key(segment_id, offset) + b"\0", time_key(segment_id + 1, 0)
    return next(iter(_rows(tables.scan(METADATA_TABLE, low, end, limit=1))), None)


def _rows(found: Iterable[tuple[bytes, Entry]]) -> list[TimeRow]:
    return [decode_time_row(*time_of(key), entry.value) for key, entry in found]
