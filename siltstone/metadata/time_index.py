"""The time index: which bytes of a segment were appended before a time.

A row says of an append border until when the bytes below it were appended. There is one at least
every MiB or 10 seconds, where appends end so often, and always one at the flushed length; what is
only in tier 1 has its times in memory. Rows of dead bytes are removed after a truncation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from siltstone.core.records.keys import METADATA_TABLE, time_key, time_of
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.time_row import TimeRow, decode_time_row
from siltstone.core.words import MIB, ROWS_PER_SLICE
from siltstone.metadata.changes import put_time, remove_time
from siltstone.metadata.index_rows import Entry
from siltstone.metadata.tables import Tables

STEP_BYTES = MIB
STEP_MS = 10_000
OFFSET_END = 2**64 - 1
"""Above every offset."""


@dataclass(frozen=True, slots=True)
class Appended:
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
    segment_id: int, known: Sequence[TimeRow], begin: int, appended: Iterable[Appended], end: int
) -> list[TableEntry]:
    """Plan the rows that come with a move of the flushed length from ``begin`` to ``end``.

    The row at ``begin`` goes unless the steps need it, so flushes of any size leave no more rows
    than the steps ask for, and one at the end.

    Args:
        segment_id: the segment.
        known: its newest two rows, the newest first; fewer when there are not so many.
        begin: the flushed length before.
        appended: what lies in ``[begin, end)``, in order and without gap; it may reach beyond, and
            then ``begin`` or ``end`` is no append border.
        end: the flushed length afterwards.
    """
    parts = [part for part in appended if part.end > begin and part.offset < end]
    first_ms = parts[0].time_ms
    newest = known[0] if known and known[0].offset == begin else None
    if newest is not None:
        latest_ms = newest.time_ms
        last = known[1] if len(known) > 1 else _row(segment_id, 0, 0)
    else:
        # Nothing is known of bytes that were flushed before there was an index, but that they came
        # before these.
        latest_ms = max(first_ms, known[0].time_ms) if known else first_ms if begin else 0
        last = _row(segment_id, begin, first_ms)
    rows: list[TimeRow] = []
    for part in parts:
        long = min(part.end, end) - last.offset >= STEP_BYTES
        due = long or part.time_ms - last.time_ms >= STEP_MS
        # What begins below was cut by a move before: no append begins at ``begin`` then.
        if due and part.offset >= begin and part.offset > last.offset:
            last = _row(segment_id, part.offset, latest_ms)
            rows.append(last)
        latest_ms = max(latest_ms, part.time_ms)
    rows.append(_row(segment_id, end, latest_ms))
    gone = [newest] if newest is not None and newest.offset not in {r.offset for r in rows} else []
    return [*(remove_time(row) for row in gone), *(put_time(row) for row in rows)]


def _row(segment_id: int, offset: int, time_ms: int) -> TimeRow:
    return TimeRow(segment_id=segment_id, offset=offset, time_ms=time_ms)


def newest_times(tables: Tables, segment_id: int, offset: int, limit: int = 2) -> list[TimeRow]:
    """The last rows that are not above ``offset``, the newest first."""
    if not offset:
        return []
    low, high = time_key(segment_id, 0), time_key(segment_id, offset) + b"\0"
    return _rows(tables.scan(METADATA_TABLE, low, high, reverse=True, limit=limit))


def joined_times(
    tables: Tables, segment_id: int, begin: int, length: int, time_ms: int
) -> list[TableEntry]:
    """Plan the rows of bytes that are joined to the end of a flushed segment at ``begin``.

    Args:
        tables: rows of the segment.
        segment_id: the segment.
        begin: its flushed length before.
        length: bytes that are joined; none need no row.
        time_ms: milliseconds since 1970: they count as appended now, whenever they came.
    """
    if not length:
        return []
    joined = Appended(begin, begin + length, time_ms)
    known = newest_times(tables, segment_id, begin)
    return plan_times(segment_id, known, begin, [joined], joined.end)


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

    ``start`` itself when there is none. A seek for each bit of the distance, whatever the number of
    rows.
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


def times_fault(tables: Tables, segment_id: int, flushed: int) -> str | None:
    """What contradicts itself among the rows of a segment; ``None`` when nothing does."""
    low, end = time_key(segment_id, 0), time_key(segment_id + 1, 0)
    latest_ms = 0
    while page := _rows(tables.scan(METADATA_TABLE, low, end)):
        for row in page:
            if row.offset > flushed:
                return f"an append time at {row.offset}, beyond the flushed length {flushed}"
            if row.time_ms < latest_ms:
                return f"the append time at {row.offset} falls from {latest_ms} to {row.time_ms}"
            latest_ms = row.time_ms
        low = time_key(segment_id, page[-1].offset) + b"\0"
    return None


def offset_before(
    tables: Tables,
    segment_id: int,
    start: int,
    flushed: int,
    tail: Iterable[Appended],
    time_ms: int,
) -> int:
    """The last known append border with only bytes below that are older than ``time_ms``.

    Args:
        tables: rows of what is flushed.
        segment_id: the segment.
        start: its first readable offset; what is below counts for nothing.
        flushed: its flushed length.
        tail: what lies beyond, in order; its first part may begin below.
        time_ms: milliseconds since 1970.

    Returns:
        ``start`` when no border is so old; the end when every byte is older.
    """
    latest_ms = _latest_ms(tables, segment_id, start, flushed)
    if latest_ms is None or latest_ms >= time_ms:
        return flushed_before(tables, segment_id, start, flushed, time_ms)
    found = flushed
    for part in tail:
        if part.end > start and part.time_ms >= time_ms:
            return max(start, found)
        found = part.end
    return max(start, found)


def _first_above(tables: Tables, segment_id: int, offset: int) -> TimeRow | None:
    low, end = time_key(segment_id, offset) + b"\0", time_key(segment_id + 1, 0)
    return next(iter(_rows(tables.scan(METADATA_TABLE, low, end, limit=1))), None)


def _latest_ms(tables: Tables, segment_id: int, start: int, flushed: int) -> int | None:
    """The latest append time of flushed bytes that count; ``None`` when that is not known."""
    if flushed <= start:
        return -1
    newest = newest_times(tables, segment_id, flushed, 1)
    return newest[0].time_ms if newest and newest[0].offset == flushed else None


def _rows(found: Iterable[tuple[bytes, Entry]]) -> list[TimeRow]:
    return [decode_time_row(*time_of(key), entry.value) for key, entry in found]
