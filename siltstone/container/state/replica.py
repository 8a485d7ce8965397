"""The acknowledged state of a container, as its frames make it. Owner and read-only opens share it.

What lives here is a pure function of the frames and of the index it started from; there is no I/O
but the local index.

What keeps the tier-1 log from being truncated, for people who look at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from siltstone.container.state.batch import SealedPiece
from siltstone.container.state.exposed_bytes import Exposure
from siltstone.container.state.kept_tail import KeptTail
from siltstone.container.state.open_segment import OpenSegment, WriterMemory
from siltstone.container.state.replayed import ReplicaReplay
from siltstone.container.state.tail import TableTail, TailPiece
from siltstone.core.chunk_storage import UNLIMITED
from siltstone.core.environment import Environment
from siltstone.core.records.keys import METADATA_TABLE, RowKind
from siltstone.core.records.layout_change import LayoutChange
from siltstone.core.records.piece import (
    WriterMark,
)
from siltstone.core.records.writer_row import WriterRow
from siltstone.metadata.assigned_update import AssignedUpdate
from siltstone.metadata.index_rows import index_key
from siltstone.metadata.retention_rules import RetentionRules, load_rules
from siltstone.metadata.rows import Rows
from siltstone.metadata.tables import Tables

_STATE = index_key(METADATA_TABLE, bytes((RowKind.STATE,)))
_LAYOUT = index_key(METADATA_TABLE, bytes((RowKind.LAYOUT,)))
_RETENTION = index_key(METADATA_TABLE, bytes((RowKind.RETENTION,)))
_ROW_KEY_BYTES = len(_STATE)
_METADATA = index_key(METADATA_TABLE, b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushThresholds:
    """When a tail is large, and which callback is notified. By default none is.

    Attributes:
        segment_bytes: a segment's tail of this many bytes is large.
        on_segment: called when one is.
        table_bytes: a table tail of this many bytes is large.
        on_table: called when it is.
    """

    segment_bytes: int = UNLIMITED
    on_segment: Callable[[], None] = lambda: None
    table_bytes: int = UNLIMITED
    on_table: Callable[[], None] = lambda: None


NO_THRESHOLDS: Final = FlushThresholds()


class Replica(ReplicaReplay):
    """Tables, open segments and tails of one container.

    Times are those of this process's monotonic clock; those of replayed frames are derived from
    the wall-clock times in them, and are never in the future.

    Attributes:
        tables: all tables, acknowledged and pending.
        rows: typed reads of the metadata table.
        by_name: open segments that new operations may use.
        by_id: all open segments.
        dirty: those with a tail.
        table_tail: table-log records beyond what the journal covers.
        table_flushed: table version that durable journal batches cover.
        newest_joint: table version after the frame of the newest joint commit, -1 before the first.
        newest_index: index of the newest frame that was applied, -1 before the first.
        replayed_ms: the latest time of all frames that were read from the log, milliseconds since
            1970; 0 before the first.
        kept: where a reader leaves the bytes of tails; ``None`` keeps them in memory.
        exposure: what would be lost with tier 1.
        checkpoint_index: index of the newest checkpoint record, ``None`` if the log keeps none.
        checkpoint_name: the journal file that the newest one read from the log names.
    """

    def __init__(
        self,
        tables: Tables,
        environment: Environment,
        *,
        idle_max: int,
        kept: KeptTail | None = None,
        flush_thresholds: FlushThresholds = NO_THRESHOLDS,
    ) -> None:
        self.tables = tables
        self.rows = Rows(tables)
        self.by_name: dict[str, OpenSegment] = {}
        self.by_id: dict[int, OpenSegment] = {}
        self.dirty: dict[int, OpenSegment] = {}
        self.table_tail = TableTail()
        self.table_flushed = 0
        self.newest_joint = -1
        self.newest_index = -1
        self.replayed_ms = 0
        self.checkpoint_index: int | None = None
        self.checkpoint_name: str | None = None
        self.exposure = Exposure()
        self._flush_thresholds = flush_thresholds
        self.kept = kept
        self._rules: RetentionRules | None = None
        self._environment = environment
        self._idle_max = idle_max

    # --- opening ----------------------------------------------------------------------------------

    def find(self, name: str) -> OpenSegment | None:
        """The acknowledged segment of this name, or ``None``."""
        segment = self.by_name.get(name)
        if segment is not None:
            return segment
        segment_id = self.rows.find(name)
        return None if segment_id is None else self.open(segment_id)

    def open(self, segment_id: int) -> OpenSegment | None:
        """The segment of this id, its state in memory; ``None`` when it is gone or deleted."""
        segment = self.by_id.get(segment_id)
        if segment is not None:
            return segment
        state = self.rows.state(segment_id)
        if state is None or state.deleted:
            return None
        # One with a tail is not idle: however many these are, they are not looked at in vain.
        if len(self.by_id) - len(self.dirty) >= self._idle_max:
            self._evict()
        segment = OpenSegment(state, self.flushed_length(segment_id))
        self.by_id[segment_id] = segment
        self.by_name[segment.name] = segment
        return segment

    @property
    def unflushed_bytes(self) -> int:
        """How many bytes of segments are acknowledged and in no chunk yet."""
        return sum(segment.tail.size for segment in self.dirty.values())

    def torn(self) -> list[OpenSegment]:
        """Segments with unflushed bytes of joint commits: long-term storage lacks a part of them.

        While there are none, every joint commit is whole in a table log that ends here.
        """
        if self.newest_joint < self.table_flushed:
            return []
        return [s for s in self.dirty.values() if s.joint_end > s.flushed]

    @property
    def rules(self) -> RetentionRules:
        """The acknowledged rules of retention."""
        if self._rules is None:
            self._rules = load_rules(self.tables)
        return self._rules

    def flushed_length(self, segment_id: int) -> int:
        """How much of a segment lies in chunks, as its acknowledged layout says."""
        return self.rows.layout(segment_id).storage_length

    def flushed_if_alive(self, segment_id: int) -> int | None:
        """How much of a segment lies in chunks; ``None`` if it is gone or deleted."""
        state = self.rows.state(segment_id)
        return None if state is None or state.deleted else self.flushed_length(segment_id)

    def _evict(self) -> None:
        idle = [segment for segment in self.by_id.values() if segment.idle]
        for segment in idle[: max(1, len(idle) // 2)]:
            self._close(segment)

    def _close(self, segment: OpenSegment) -> None:
        segment.stop_appends()
        self.by_id.pop(segment.segment_id, None)
        self.dirty.pop(segment.segment_id, None)
        if self.by_name.get(segment.name) is segment:
            del self.by_name[segment.name]

    def writers(self, segment: OpenSegment) -> dict[int, WriterMemory]:
        """The segment's exactly-once writers by number: their rows, continued by the tail."""
        if segment.writers is None:
            rows = self.acknowledged_writers(segment)
            segment.writers = {number: WriterMemory(row) for number, row in rows.items()}
        return segment.writers

    def acknowledged_writers(self, segment: OpenSegment) -> dict[int, WriterRow]:
        """The rows of exactly-once writers, without what is in flight."""
        rows = {row.number: row for row in self.rows.writers(segment.segment_id)}
        for piece in segment.tail.pieces:
            for mark in piece.marks:
                if mark.number in rows:
                    rows[mark.number] = advanced(rows[mark.number], mark)
        return rows

    # --- the owner's frames -----------------------------------------------------------------------

    def acknowledge(
        self,
        updates: Sequence[AssignedUpdate],
        pieces: Sequence[SealedPiece],
        index: int,
        made_ms: int,
    ) -> int:
        """Apply a frame of this owner; return how many bytes of tails it made unnecessary.

        ``made_ms`` is the time in the frame, milliseconds since 1970.
        """
        now = self._environment.monotonic()
        dropped = 0
        self.newest_index = index
        if updates or pieces:
            self.exposure.add(index, sum(len(piece.data) for piece in pieces), now)
        if updates:
            changed = self.tables.acknowledge(updates, index)
            self.table_tail.add_frame(updates, index, now)
            dropped += self._refresh([key for key in changed if key.startswith(_METADATA)])
            if self.table_tail.size >= self._flush_thresholds.table_bytes:
                self._flush_thresholds.on_table()
        for piece in pieces:
            segment = piece.segment
            if self.by_id.get(segment.segment_id) is not segment:
                dropped += len(piece.data)
                continue
            segment.tail.add(
                TailPiece(piece.offset, piece.data, index, now, made_ms, piece.marks, piece.borders)
            )
            segment.length = piece.offset + len(piece.data)
            if piece.joint_end:
                segment.joint_end = piece.joint_end
                self.newest_joint = self.tables.applied_version
            self.dirty[segment.segment_id] = segment
            if segment.tail.size >= self._flush_thresholds.segment_bytes:
                self._flush_thresholds.on_segment()
            segment.notify()
        return dropped

    def forget_assigned(self, segment: OpenSegment) -> None:
        """Drop what was assigned to a segment and never acknowledged."""
        segment.assigned = segment.length
        segment.piece = None
        segment.writers = None

    def refresh_all(self) -> None:
        """Make every open segment as its acknowledged rows say."""
        self.table_tail.notify()
        for segment in list(self.by_id.values()):
            self._refresh_state(segment)
            if segment.segment_id in self.by_id:
                self.by_name.setdefault(segment.name, segment)
                segment.assigned = segment.length
                segment.writers = None

    def note_table_flush(self, version: int) -> int:
        """Drop from the tail what is durable in chunks, up to ``version``; return its bytes."""
        self.table_flushed = version
        return self.table_tail.drop_to(version)

    def note_checkpoint(self, index: int) -> None:
        """Remember where the log names the newest checkpoint."""
        self.checkpoint_index = index

    # --- what the journal states ------------------------------------------------------------------

    def safe_index(self, covered: int) -> int:
        """Index below which no frame is needed once table versions up to ``covered`` are durable.

        The lowest of the first unflushed append of each segment and the first table update beyond
        ``covered``. The newest checkpoint record is a bound of its own, applied when truncating.
        """
        lowest = self.newest_index + 1
        behind = self.table_tail.index_behind(covered)
        if behind is not None:
            lowest = min(lowest, behind)
        for segment in self.dirty.values():
            lowest = min(lowest, segment.tail.first.index)
        return lowest

    def statement(self, change: LayoutChange) -> tuple[int, int]:
        """What the batch of ``change`` states: the safe index once it is durable, the newest index.

        Covered is what the table log holds after this very change: a flush that has begun and is
        not in this batch may still fail.
        """
        assert change.after is not None, "the table log is never removed"
        return self.safe_index(change.after.storage_length), self.newest_index

    # --- rows that changed ------------------------------------------------------------------------

    def _refresh(self, index_keys: Iterable[bytes]) -> int:
        """Bring open segments up to date with changed rows; return the bytes that left tails."""
        dropped = 0
        for key in index_keys:
            head = key[:_ROW_KEY_BYTES]
            if head == _STATE:
                segment = self.by_id.get(int.from_bytes(key[_ROW_KEY_BYTES:]))
                if segment is not None:
                    dropped += self._refresh_state(segment)
            elif head == _LAYOUT:
                segment = self.by_id.get(int.from_bytes(key[_ROW_KEY_BYTES:]))
                if segment is not None:
                    dropped += self._refresh_layout(segment)
            elif head == _RETENTION:
                self._rules = None
        return dropped

    def _refresh_state(self, segment: OpenSegment) -> int:
        state = self.rows.state(segment.segment_id)
        dropped = 0
        if state is None or state.deleted:
            dropped = segment.tail.size
            segment.tail = type(segment.tail)()
            self._close(segment)
            if state is not None:
                segment.state = state
        else:
            segment.state = state
            if state.name != segment.name:
                self._rename(segment, state.name)
            self.recompute(segment)
        segment.notify()
        return dropped

    def _rename(self, segment: OpenSegment, name: str) -> None:
        if self.by_name.get(segment.name) is segment:
            del self.by_name[segment.name]
        segment.name = name
        self.by_name[name] = segment

    def recompute(self, segment: OpenSegment) -> None:
        """Decide again whether an open segment takes bytes; not while its name is to change."""
        pending = self.rows.pending_state(segment.segment_id)
        segment.writable = (
            self.by_id.get(segment.segment_id) is segment
            and segment.held is None
            and pending is not None
            and pending.sealed_length is None
            and not pending.deleted
            and pending.name == segment.name
        )

    def _refresh_layout(self, segment: OpenSegment) -> int:
        flushed = self.flushed_length(segment.segment_id)
        segment.flushed = flushed
        if flushed > segment.length:
            segment.length = flushed
            segment.assigned = max(segment.assigned, flushed)
            segment.notify()
        dropped = segment.tail.drop_below(flushed)
        if not segment.tail:
            self.dirty.pop(segment.segment_id, None)
        return dropped


def advanced(row: WriterRow, mark: WriterMark) -> WriterRow:
    """The writer's row after ``mark``, unless it knows a later one."""
    if mark.sequence <= row.sequence:
        return row
    return WriterRow(
        segment_id=row.segment_id,
        number=row.number,
        name=row.name,
        sequence=mark.sequence,
        offset=mark.offset,
        length=mark.length,
        used_ms=row.used_ms,
        sum=mark.sum,
    )


def log_held_by(replica: Replica) -> str:
    """Name what needs the lowest frame: a segment by its name, or ``tables``; empty without any.

    After it the newest checkpoint holds what is left, which is a frame or two.
    """
    lowest: list[tuple[int, str]] = []
    behind = replica.table_tail.index_behind(replica.table_flushed)
    if behind is not None:
        lowest.append((behind, "tables"))
    lowest += [
        (segment.tail.first.index, f"segment {segment.name}") for segment in replica.dirty.values()
    ]
    return min(lowest, default=(0, ""))[1]
