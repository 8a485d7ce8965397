"""Where a rule of retention cuts a segment. No I/O but the local index; nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.container.models.segments import RetentionCut, rule_of_row
from siltstone.container.state.replica import Replica
from siltstone.container.state.tail import Tail
from siltstone.core.records.retention_row import RetentionRow
from siltstone.metadata.tables import Tables
from siltstone.metadata.time_index import newest_times, offset_before


@dataclass(frozen=True, slots=True)
class _Extent:
    """What counts of a segment.

    Attributes:
        segment_id: its id.
        start: first readable byte.
        flushed: how much lies in chunks.
        length: its end.
        tail: what lies beyond.
    """

    segment_id: int
    start: int
    flushed: int
    length: int
    tail: Tail


def plan_cut(replica: Replica, segment_id: int, now_ms: int) -> RetentionCut | None:
    """Where the rule in force cuts a segment now; ``None`` when it leaves the segment as it is.

    What is not flushed is never cut: it will be in a moment, and acknowledged bytes go nowhere
    before. A cut is a border that the time index knows, so up to 1 MiB more than asked for stays,
    and never less.
    """
    open_segment = replica.by_id.get(segment_id)
    state = replica.rows.pending_state(segment_id)
    row = None if state is None or state.deleted else replica.rules.rule_of(state.name)
    if state is None or row is None:
        return None
    flushed = replica.flushed_length(segment_id)
    if flushed <= state.start_offset:
        return None
    extent = _Extent(
        segment_id=segment_id,
        start=state.start_offset,
        flushed=flushed,
        length=flushed if open_segment is None else open_segment.length,
        tail=Tail() if open_segment is None else open_segment.tail,
    )
    cut = max(_by_bytes(replica.tables, extent, row), _by_age(replica.tables, extent, row, now_ms))
    if cut <= extent.start:
        return None
    return RetentionCut(
        segment=state.name,
        start_offset=extent.start,
        cut_offset=cut,
        length=extent.length,
        rule=rule_of_row(row),
    )


def _by_bytes(tables: Tables, extent: _Extent, row: RetentionRow) -> int:
    if row.bytes_max is None or extent.length - extent.start <= row.bytes_max:
        return extent.start
    return _border(tables, extent, extent.length - row.bytes_max)


def _by_age(tables: Tables, extent: _Extent, row: RetentionRow, now_ms: int) -> int:
    if row.age_max_ms is None or now_ms < row.age_max_ms:
        return extent.start
    found = offset_before(
        tables,
        extent.segment_id,
        extent.start,
        extent.flushed,
        (piece.appended for piece in extent.tail.pieces),
        now_ms - row.age_max_ms,
        now_ms,
    )
    return _border(tables, extent, found)


def _border(tables: Tables, extent: _Extent, offset: int) -> int:
    """The last append border that is flushed and not above ``offset``."""
    tail = extent.tail
    # A full chunk may end inside an append; then the flushed length is no border.
    whole = not tail or tail.first.offset >= extent.flushed
    limit = min(offset, extent.flushed if whole else extent.flushed - 1)
    rows = newest_times(tables, extent.segment_id, limit, 1)
    return max(extent.start, rows[0].offset) if rows else extent.start
