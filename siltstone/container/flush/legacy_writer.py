"""The segments of a container that are written in a legacy layout, and what is refused for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.flush.flush_plan import FlushRange, bytes_of
from siltstone.container.flush.layout_hooks import LayoutHooks, LayoutOwner
from siltstone.container.flush.legacy_removal import remove_ahead, remove_header
from siltstone.container.models.legacy import LegacyLayout, LegacySegment
from siltstone.container.state.live_segments import living_states
from siltstone.container.state.open_segment import OpenSegment
from siltstone.core.checksums import crc32c
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import (
    CapabilityError,
    SegmentExistsError,
    SegmentNameError,
    SegmentNotFoundError,
    StoreError,
)
from siltstone.core.records.adoption_row import AdoptionRow
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.legacy_row import NEW_SEGMENTS, LegacyRow
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import TaskKind
from siltstone.core.records.writer_row import WriterRow
from siltstone.metadata.adoption_rows import adoption_pages, layout_adoption, put_adoption
from siltstone.metadata.changes import put_counter
from siltstone.metadata.import_rows import is_any_named, put_import_chunk
from siltstone.metadata.legacy_rows import pending_legacy, put_legacy, remove_legacy
from siltstone.segments.legacy_files import SeenHeader
from siltstone.segments.legacy_layout import (
    MARK,
    ORIGIN,
    SOURCE,
    can_be_written,
    chunk_of,
    header_of,
    new_origin,
)
from siltstone.segments.write_legacy import LegacyRows

KEY_PART_BYTES_MAX = 255 - 40
"""Of a part of a segment's name: the offset of a file, and what tells its epoch, come after it."""


class LegacyWriter:
    """The hooks of a legacy layout that an owner writes in.

    Attributes:
        adoption: that the files belong to.
        unsettled: segments that are sealed, and whose files may not say so yet.

    Args, besides the owner:
        new: what new segments get.
    """

    def __init__(self, owner: LayoutOwner, new: LegacyRow) -> None:
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
        self.adoption = layout_adoption(self._tables, new)
        self.unsettled: dict[int, None] = {}

    def _row_of(self, segment_id: int) -> LegacyRow | None:
        """How a segment is written; ``None`` when that is as in any other store."""
        return pending_legacy(self._tables, segment_id)

    def writes(self, segment_id: int) -> bool:
        """See ``LayoutHooks.writes``."""
        return self._row_of(segment_id) is not None

    # --- new segments -----------------------------------------------------------------------------

    async def check_new(self, name: str) -> Mapping[str, str]:
        """See ``LayoutHooks.check_new``."""
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
        """See ``LayoutHooks.new_rows``: so what the segment leaves is known to be its own."""
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
        """See ``LayoutHooks.plan``."""
        return self._segments.legacy_end(self._row(segment), segment.segment_id, end)

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
        """See ``LayoutHooks.write``. Raises ``LegacyChangedError``, too; nothing was written."""
        row = self._row(segment)
        # An owner that knows it was overtaken need not touch what the newer one may have ended.
        await self._pipeline.barrier()
        await self._segments.write_legacy(
            row,
            segment.segment_id,
            segment.flushed,
            bytes_of(FlushRange(segment=segment, start=segment.flushed, end=end)),
            until=segment.length,
            seen=self._seen.setdefault(segment.segment_id, SeenHeader()),
            rows=self._stating,
            writers=writers,
            extra=extra,
        )

    async def _state_row(self, row: LegacyRow) -> None:
        await self._pipeline.update([put_legacy(row)])

    # --- seals and deletions ----------------------------------------------------------------------

    def on_sealed(self, state: SegmentState) -> None:
        """See ``LayoutHooks.on_sealed``."""
        row = self._row_of(state.segment_id)
        if row is not None and not row.sealed:
            self.unsettled[state.segment_id] = None

    async def settle(self, segment: OpenSegment) -> None:
        """See ``LayoutHooks.settle``."""
        if segment.segment_id not in self.unsettled:
            return
        row = self._row_of(segment.segment_id)
        sealed = segment.state.sealed_length
        if row is not None and not row.sealed and not segment.state.deleted:
            if sealed is None or segment.flushed != sealed:
                return
            await self._pipeline.barrier()
            seen = self._seen.setdefault(segment.segment_id, SeenHeader())
            try:
                await self._segments.seal_legacy(row, segment.segment_id, seen, self._stating)
            except SegmentNotFoundError:
                await self._pipeline.settled()
        self.unsettled.pop(segment.segment_id, None)

    async def on_deleted(self, segment_id: int) -> Sequence[TableEntry]:
        """See ``LayoutHooks.on_deleted``.

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


def open_hooks(owner: LayoutOwner) -> LayoutHooks:
    """The hooks of the layout that the rows of an owner name, when it opens."""
    replica = owner.context.pipeline.replica
    new = pending_legacy(replica.tables, NEW_SEGMENTS)
    assert new is not None, "the caller looked whether a layout is written"
    hooks = LegacyWriter(owner, new)
    for state in living_states(replica):
        if state.sealed_length is not None:
            hooks.on_sealed(state)
    return hooks


async def begin_hooks(
    owner: LayoutOwner,
    hooks: LayoutHooks,
    layout: LegacyLayout,
    segments: Sequence[LegacySegment],
) -> LayoutHooks:
    """Write in a legacy layout from now on; return its hooks. Repeatable.

    Args:
        owner: of the segments.
        hooks: those that it has.
        layout: where, and how names begin that belong to it.
        segments: of this owner, all of them in place.

    Raises:
        CapabilityError: the service cannot do what that takes.
        StoreError: another layout is written already.
        SegmentNotFoundError: a segment is not there.
    """
    pipeline = owner.context.pipeline
    if not can_be_written(owner.context.storage.capabilities):
        raise CapabilityError(
            "this service cannot write a legacy layout: files of it grow, and are sealed"
        )
    if hooks.adoption is not None:
        if hooks.adoption != layout.adoption:
            raise StoreError("the store writes another legacy layout", adoption=hooks.adoption)
        await pipeline.barrier()
        return hooks
    session_id = await _session(pipeline, layout.adoption)
    entries: list[TableEntry] = []
    for one in segments:
        segment_id = pipeline.replica.rows.pending_find(one.name)
        if segment_id is None:
            raise SegmentNotFoundError("no such segment", segment=one.name)
        entries.append(put_legacy(_row(layout, one, segment_id, session_id)))
    new = LegacyRow(
        segment_id=NEW_SEGMENTS,
        session_id=session_id,
        rolling_bytes=layout.rolling_bytes,
        prefix=layout.prefix,
        source=layout.under,
        suffix=layout.suffix,
    )
    # Last, for this one lets the others count.
    entries.append(put_legacy(new))
    for begin in range(0, len(entries), ROWS_PER_SLICE):
        await pipeline.update(entries[begin : begin + ROWS_PER_SLICE])
    return LegacyWriter(owner, new)


async def _session(pipeline: Pipeline, adoption: str) -> int:
    """A session whose objects belong to the adoption; made if there is none."""
    for page in adoption_pages(pipeline.replica.tables):
        for row in page:
            if row.adoption == adoption:
                return row.session_id
    session_id = pipeline.replica.rows.pending_counter(CounterKind.SEGMENT_ID)
    await pipeline.update(
        [
            put_counter(CounterKind.SEGMENT_ID, session_id + 1),
            put_adoption(AdoptionRow(session_id=session_id, adoption=adoption)),
        ]
    )
    return session_id


def _begun(new: LegacyRow, segment_id: int, name: str) -> LegacyRow | None:
    """The row of a segment that has nothing in the layout yet; ``None`` if it is to have none."""
    if not name.startswith(new.source):
        return None
    return replace(new, segment_id=segment_id, source=name.removeprefix(new.source))


def name_problem(source: str) -> str:
    """Why a segment of this name cannot be written in a legacy layout; empty when it can."""
    if "&" in source:
        return "the name holds &, which no header can hold"
    if any(part in ("", ".", "..") for part in source.split("/")):
        return "the name is no path below a folder"
    if max(len(part.encode("utf-8")) for part in source.split("/")) > KEY_PART_BYTES_MAX:
        return "the name is too long for a file"
    return ""


def _rows(row: LegacyRow, chunks: Sequence[Chunk]) -> tuple[TableEntry, ...]:
    names = (put_import_chunk(chunk.name, chunk.chunk_id) for chunk in chunks)
    return (put_legacy(row), *names)


def _row(
    layout: LegacyLayout, segment: LegacySegment, segment_id: int, session_id: int
) -> LegacyRow:
    header = segment.header or b""
    return LegacyRow(
        segment_id=segment_id,
        session_id=session_id,
        rolling_bytes=segment.rolling_bytes,
        prefix=layout.prefix,
        source=segment.source,
        suffix=segment.suffix,
        header_length=len(header),
        header_crc=crc32c(header),
        listed=segment.listed,
        bare=segment.bare,
        sealed=segment.sealed,
    )
