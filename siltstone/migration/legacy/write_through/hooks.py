"""What a legacy layout requires of an owner that writes its segments there: the hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from siltstone.container.flush.flush_plan import FlushRange, bytes_of
from siltstone.container.flush.write_through_hooks import WriteThroughHooks, WriteThroughOwner
from siltstone.container.state.live_segments import living_states
from siltstone.container.state.open_segment import OpenSegment
from siltstone.core.errors import (
    SegmentExistsError,
    SegmentNameError,
    SegmentNotFoundError,
)
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.legacy_row import NEW_SEGMENTS, LegacyRow
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import TaskKind
from siltstone.core.records.writer_row import WriterRow
from siltstone.metadata.adoption_rows import layout_adoption
from siltstone.metadata.import_rows import is_any_named, put_import_chunk
from siltstone.metadata.legacy_rows import pending_legacy, put_legacy, remove_legacy
from siltstone.migration.legacy.names import chunk_of, header_of
from siltstone.migration.legacy.plan import MARK, ORIGIN, SOURCE
from siltstone.migration.legacy.write_through.files import SeenHeader
from siltstone.migration.legacy.write_through.flush import (
    LegacyRows,
    plan_next,
    run_flush,
    run_seal,
)
from siltstone.migration.legacy.write_through.layout import name_problem, new_origin
from siltstone.migration.legacy.write_through.removal import remove_ahead, remove_header


class LegacyWriter:
    """The hooks of a legacy layout that an owner writes in.

    Attributes:
        unsettled: segments that are sealed, and whose files may not say so yet.

    Args, besides the owner:
        new: what new segments get.
    """

    def __init__(self, owner: WriteThroughOwner, new: LegacyRow) -> None:
        context = owner.context
        self._pipeline = context.pipeline
        self._replica = context.pipeline.replica
        self._tables = context.pipeline.replica.tables
        self._storage = context.storage
        self._fence = context.fence
        self._segments = owner.segments
        self._stating = LegacyRows(_rows, self._state_row)
        self._seen: dict[int, SeenHeader] = {}
        self._new = new
        self.unsettled: dict[int, None] = {}

    @property
    def adoption(self) -> str:
        """See ``WriteThroughHooks.adoption``."""
        return layout_adoption(self._tables, self._new)

    def _row_of(self, segment_id: int) -> LegacyRow | None:
        """How a segment is written; ``None`` when that is as in any other store."""
        return pending_legacy(self._tables, segment_id)

    def writes(self, segment_id: int) -> bool:
        """See ``WriteThroughHooks.writes``."""
        return self._row_of(segment_id) is not None

    # --- new segments -----------------------------------------------------------------------------

    async def check_new(self, name: str) -> Mapping[str, str]:
        """See ``WriteThroughHooks.check_new``."""
        row = _begun(self._new, NEW_SEGMENTS, name)
        if row is None:
            return {}
        source = row.source
        problem = name_problem(source)
        if problem:
            raise SegmentNameError(problem, segment=name)
        for each in (header_of(source), chunk_of(source, 0)[:-1], source):
            key = f"{row.prefix}{each}"
            chunks = each.endswith(".")
            listed = f"{key}_" if row.suffix and not chunks else key
            found = await self._storage.list(listed, limit=1)
            if found and (row.suffix or chunks or found[0].name == key):
                raise SegmentExistsError(
                    "the legacy layout has files of this segment", segment=name, file=found[0].name
                )
        # Its rows say which files it may have left, and would say so of the new one's too; and what
        # was deleted without an answer will be deleted again by its name. Nothing is awaited after
        # this look until the new segment is assigned.
        await self._pipeline.settled()
        files = f"{row.prefix}{chunk_of(source, 0)[:-1]}"
        if self._is_going(row) or is_any_named(self._tables, files):
            raise SegmentExistsError(
                "files of a deleted segment of this name are about to go", segment=name
            )
        return {MARK: self.adoption, ORIGIN: new_origin(row), SOURCE: source}

    def new_rows(self, segment_id: int, name: str) -> Sequence[TableEntry]:
        """See ``WriteThroughHooks.new_rows``: so what the segment leaves is known to be its own."""
        row = _begun(self._new, segment_id, name)
        return () if row is None else (put_legacy(row),)

    def _is_going(self, row: LegacyRow) -> bool:
        """Whether a deleted segment still has the name in the layout."""
        for tasks in self._replica.rows.task_pages(0):
            for task in tasks:
                if task.kind is TaskKind.REMOVE_SEGMENT:
                    older = self._row_of(task.subject)
                    if older is not None and older.source == row.source:
                        return True
        return False

    # --- writing ----------------------------------------------------------------------------------

    def plan(self, segment: OpenSegment, end: int) -> int:
        """See ``WriteThroughHooks.plan``."""
        row, context = self._row(segment), self._segments.context
        return plan_next(context, row, segment.segment_id, end)[1][-1].end

    def _row(self, segment: OpenSegment) -> LegacyRow:
        row = self._row_of(segment.segment_id)
        assert row is not None, "the caller asked whether the layout takes the segment"
        return row

    async def write(
        self,
        segment: OpenSegment,
        end: int,
        writers: tuple[WriterRow, ...],
        extra: tuple[TableEntry, ...],
    ) -> None:
        """See ``WriteThroughHooks.write``.

        Raises ``LegacyChangedError``, too; nothing was written.
        """
        row, segment_id = self._row(segment), segment.segment_id
        # An owner that knows it was overtaken need not touch what the newer one may have ended.
        await self._pipeline.barrier()
        buffers = bytes_of(FlushRange(segment=segment, start=segment.flushed, end=end))
        offset, until = segment.flushed, segment.length
        context = self._segments.context
        metrics, length = context.storage.metrics, sum(map(len, buffers))
        async with self._segments.lock(segment_id):
            with metrics.timed("write", segments="user", length=length):
                await run_flush(
                    context,
                    row,
                    segment_id,
                    offset,
                    buffers,
                    until,
                    self._seen_of(segment_id),
                    self._stating,
                    writers,
                    extra,
                )

    def _seen_of(self, segment_id: int) -> SeenHeader:
        return self._seen.setdefault(segment_id, SeenHeader())

    async def _state_row(self, row: LegacyRow) -> None:
        await self._pipeline.update([put_legacy(row)])

    # --- seals and deletions ----------------------------------------------------------------------

    def on_sealed(self, state: SegmentState) -> None:
        """See ``WriteThroughHooks.on_sealed``."""
        row = self._row_of(state.segment_id)
        if row is not None and not row.sealed:
            self.unsettled[state.segment_id] = None

    async def settle(self, segment: OpenSegment) -> None:
        """See ``WriteThroughHooks.settle``."""
        if segment.segment_id not in self.unsettled:
            return
        row = self._row_of(segment.segment_id)
        sealed = segment.state.sealed_length
        if row is not None and not row.sealed and not segment.state.deleted:
            if sealed is None or segment.flushed != sealed:
                return
            await self._pipeline.barrier()
            try:
                await self._seal(row, segment.segment_id)
            except SegmentNotFoundError:
                await self._pipeline.settled()
        self.unsettled.pop(segment.segment_id, None)

    async def _seal(self, row: LegacyRow, segment_id: int) -> None:
        async with self._segments.lock(segment_id):
            seen = self._seen_of(segment_id)
            await run_seal(self._segments.context, row, segment_id, seen, self._stating)

    async def on_deleted(self, segment_id: int) -> Sequence[TableEntry]:
        """See ``WriteThroughHooks.on_deleted``.

        The header goes first: from then on the layout has no such segment. What flushes that died
        have begun is deleted here, for no chunk names it.
        """
        self.unsettled.pop(segment_id, None)
        row = self._row_of(segment_id)
        if row is None:
            return ()
        await self._fence.check()
        for remove in (remove_header, remove_ahead):
            await self._storage.run("delete", row.prefix + row.source, partial(remove, row=row))
        self._seen.pop(segment_id, None)
        return (remove_legacy(segment_id),)


def open_hooks(owner: WriteThroughOwner) -> WriteThroughHooks:
    """The hooks of the layout that the rows of an owner name, when it opens."""
    replica = owner.context.pipeline.replica
    new = pending_legacy(replica.tables, NEW_SEGMENTS)
    assert new is not None, "the caller looked whether a layout is written"
    hooks = LegacyWriter(owner, new)
    for state in living_states(replica):
        if state.sealed_length is not None:
            hooks.on_sealed(state)
    return hooks


def _begun(new: LegacyRow, segment_id: int, name: str) -> LegacyRow | None:
    """The row of a segment that has nothing in the layout yet; ``None`` if it is to have none."""
    if not name.startswith(new.source):
        return None
    return replace(new, segment_id=segment_id, source=name.removeprefix(new.source))


def _rows(row: LegacyRow, chunks: Sequence[Chunk]) -> tuple[TableEntry, ...]:
    names = (put_import_chunk(chunk.name, chunk.chunk_id) for chunk in chunks)
    return (put_legacy(row), *names)
