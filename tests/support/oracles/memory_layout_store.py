"""A layout store in memory, for tests of the segment layer and for authors of plugins.

It checks every change: one that does not fit its rows, or that breaks an invariant, is an error
there and then. A hook decides how each commit ends.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from siltstone.core.chunk_names import data_chunk, shared_chunk
from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS
from siltstone.core.errors import LogError
from siltstone.core.layout_store import NewChunk
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.layout_change import LayoutChange
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow
from siltstone.segments.invariants import (
    check_epoch,
    check_growth,
    check_last_chunk,
    check_layout,
    check_names,
    check_placed,
    check_references,
    check_sums,
)


class CommitOutcome(Enum):
    """How a commit ends: applied or not, and reported or not."""

    APPLIED = auto()
    REFUSED = auto()
    """Not applied and reported: ``False``, as for a deleted segment."""
    LOST = auto()
    """Not applied, and an error."""
    APPLIED_UNREPORTED = auto()
    """Applied, and the same error."""


def applied(_: LayoutChange) -> CommitOutcome:
    """Let every commit succeed."""
    return CommitOutcome.APPLIED


@dataclass(slots=True, kw_only=True)
class Rows:
    """All rows. Extents of a segment are in order."""

    layouts: dict[int, Layout] = field(default_factory=dict)
    extents: dict[int, list[Extent]] = field(default_factory=dict)
    chunks: dict[int, Chunk] = field(default_factory=dict)
    sums: dict[int, list[int]] = field(default_factory=dict)
    writers: dict[tuple[int, int], WriterRow] = field(default_factory=dict)

    def copy(self) -> Rows:
        """A copy that can be changed on its own."""
        return Rows(
            layouts=dict(self.layouts),
            extents={key: list(rows) for key, rows in self.extents.items()},
            chunks=dict(self.chunks),
            sums={key: list(row) for key, row in self.sums.items()},
            writers=dict(self.writers),
        )


class MemoryLayoutStore:
    """A ``PackingLayoutStore`` in memory.

    Args:
        epoch: the epoch of new chunks.
        ends: decides how each commit ends.

    Attributes:
        states: state rows by segment; tests change them at will.
        rows: the rows.
        commits: every change that was applied, in order.
        garbage: every chunk that was dropped, in order.
        extra: every extra entry, in order.
    """

    def __init__(
        self, *, epoch: int = 1, ends: Callable[[LayoutChange], CommitOutcome] = applied
    ) -> None:
        self.epoch = epoch
        self.ends = ends
        self.states: dict[int, SegmentState] = {}
        self.rows = Rows()
        self.commits: list[LayoutChange] = []
        self.garbage: list[Chunk] = []
        self.extra: list[TableEntry] = []
        self._next_chunk_id = 1

    def add(self, segment_id: int, name: str = "") -> SegmentState:
        """Make a segment."""
        state = SegmentState(segment_id=segment_id, name=name or f"segment-{segment_id}")
        self.states[segment_id] = state
        return state

    def change(
        self,
        segment_id: int,
        *,
        start_offset: int | None = None,
        sealed_length: int | None = None,
        deleted: bool = False,
    ) -> None:
        """Truncate, seal or delete a segment; what is not given stays."""
        state = self.states[segment_id]
        self.states[segment_id] = replace(
            state,
            start_offset=state.start_offset if start_offset is None else start_offset,
            sealed_length=state.sealed_length if sealed_length is None else sealed_length,
            deleted=state.deleted or deleted,
        )

    def state(self, segment_id: int) -> SegmentState | None:
        """See ``LayoutStore.state``."""
        return self.states.get(segment_id)

    def layout(self, segment_id: int) -> Layout:
        """See ``LayoutStore.layout``."""
        return self.rows.layouts.get(segment_id) or Layout(segment_id=segment_id)

    def floor(self, segment_id: int, offset: int) -> Extent | None:
        """See ``LayoutStore.floor``."""
        if offset < 0:
            raise ValueError(f"no segment has an offset {offset}")
        rows = self.rows.extents.get(segment_id, [])
        index = bisect_right(rows, offset, key=_start)
        return rows[index - 1] if index else None

    def extents(self, segment_id: int, start: int, end: int, limit: int) -> list[Extent]:
        """See ``LayoutStore.extents``."""
        rows = self.rows.extents.get(segment_id, [])
        index = max(0, bisect_right(rows, start, key=_start) - 1)
        found: list[Extent] = []
        for extent in rows[index:]:
            if extent.start >= end or len(found) == limit:
                break
            if extent.end > start:
                found.append(extent)
        return found

    def chunk(self, chunk_id: int) -> Chunk | None:
        """See ``LayoutStore.chunk``."""
        return self.rows.chunks.get(chunk_id)

    def sums(self, chunk_id: int, group: int) -> tuple[int, ...]:
        """See ``LayoutStore.sums``."""
        row = self.rows.sums.get(chunk_id, [])
        return tuple(row[group * GROUP_BLOCKS : (group + 1) * GROUP_BLOCKS])

    async def new_chunk(self, segment_id: int, start: int) -> NewChunk:
        """See ``LayoutStore.new_chunk``."""
        chunk_id = self._next_chunk_id
        self._next_chunk_id += 1
        segment = self.states[segment_id].name
        return NewChunk(chunk_id=chunk_id, name=data_chunk(0, self.epoch, segment, start, chunk_id))

    async def new_shared_chunk(self, count: int) -> NewChunk:
        """See ``PackingLayoutStore.new_shared_chunk``."""
        chunk_id = self._next_chunk_id
        self._next_chunk_id += 1
        return NewChunk(chunk_id=chunk_id, name=shared_chunk(0, self.epoch, count, chunk_id))

    async def commit(self, change: LayoutChange) -> bool:
        """See ``LayoutStore.commit``.

        Raises:
            ValueError: the change does not fit the rows.
            CorruptDataError: it would break an invariant.
            LogError: the hook wants so.
        """
        if change.live and not self._is_live(change.segment_id):
            return False
        if any(self.states.get(state.segment_id) != state for state in change.states):
            return False
        return bool(await self.commit_all(lambda: (change,)))

    async def commit_all(
        self, plan: Callable[[], tuple[LayoutChange, ...]]
    ) -> tuple[LayoutChange, ...]:
        """See ``PackingLayoutStore.commit_all``. The hook is asked for the first change.

        Raises:
            ValueError: a change does not fit the rows.
            CorruptDataError: they would break an invariant.
            LogError: the hook wants so.
        """
        changes = plan()
        if not changes:
            return ()
        rows = self.rows.copy()
        for change in changes:
            _apply(rows, change)
        check_rows(rows)
        outcome = self.ends(changes[0])
        if outcome is CommitOutcome.REFUSED:
            return ()
        if outcome is CommitOutcome.LOST:
            raise LogError("the log failed")
        self.rows = rows
        self.commits += changes
        self.garbage += [chunk for change in changes for chunk in change.chunks_dropped]
        self.extra += [entry for change in changes for entry in change.extra]
        if outcome is CommitOutcome.APPLIED_UNREPORTED:
            raise LogError("the log failed")
        return changes

    def _is_live(self, segment_id: int) -> bool:
        state = self.states.get(segment_id)
        return state is not None and not state.deleted


def check_rows(rows: Rows) -> None:
    """Check every invariant that rows alone can break. Raises ``CorruptDataError``."""
    for segment_id in rows.layouts.keys() | rows.extents.keys():
        layout = rows.layouts.get(segment_id) or Layout(segment_id=segment_id)
        found = rows.extents.get(segment_id, [])
        extents = [extent for extent in found if extent.start < layout.storage_length]
        check_layout(layout, extents)
        check_placed(layout, found[len(extents) :])
        check_last_chunk(layout, extents, rows.chunks.get(layout.last_chunk_id))
    for chunk in rows.chunks.values():
        check_epoch(chunk)
        check_sums(chunk, rows.sums.get(chunk.chunk_id, []))
    check_names(rows.chunks.values())
    check_references(rows.chunks, (row for each in rows.extents.values() for row in each))


def _apply(rows: Rows, change: LayoutChange) -> None:
    before = rows.layouts.get(change.segment_id) or Layout(segment_id=change.segment_id)
    _require(before == change.before, f"planned on {change.before}, not on {before}")
    for segment_id in (change.segment_id, *change.layouts_removed):
        rows.layouts.pop(segment_id, None)
    if change.after is not None:
        rows.layouts[change.segment_id] = change.after
    for extent in change.extents_removed:
        found = rows.extents.get(extent.segment_id, [])
        _require(extent in found, f"no such row: {extent}")
        found.remove(extent)
    for extent in change.extents_put:
        found = rows.extents.setdefault(extent.segment_id, [])
        found[:] = [row for row in found if row.start != extent.start]
        insort(found, extent, key=_start)
    for chunk in change.chunks_dropped:
        old = rows.chunks.pop(chunk.chunk_id, None)
        _require(old == chunk, f"drops another row than {chunk}: {old}")
        del rows.sums[chunk.chunk_id]
    _put_chunks(rows, change.chunks_put, change.sums)
    for row in change.writers:
        rows.writers[row.segment_id, row.number] = row


def _put_chunks(rows: Rows, chunks: Iterable[Chunk], sums: Iterable[BlockSumsPatch]) -> None:
    for chunk in chunks:
        old = rows.chunks.get(chunk.chunk_id)
        if old is not None:
            check_growth(old, chunk)
        rows.chunks[chunk.chunk_id] = chunk
    for patch in sums:
        row = rows.sums.setdefault(patch.chunk_id, [])
        position = patch.group * GROUP_BLOCKS + patch.first_block
        _require(position <= len(row), f"sums leave a gap: {patch}")
        _require(patch.first_block + len(patch.sums) <= GROUP_BLOCKS, f"too many: {patch}")
        length = rows.chunks[patch.chunk_id].length
        _require((position + len(patch.sums) - 1) * BLOCK_BYTES < length, f"too many: {patch}")
        row[position:] = patch.sums


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _start(extent: Extent) -> int:
    return extent.start
