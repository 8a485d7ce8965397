"""The segments of a container that are written in a legacy layout, and what is refused for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from siltstone.container.commit.fence import Fence
from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.flush.flush_plan import FlushRange, bytes_of
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
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.metadata.adoption_rows import adoption_pages, layout_adoption, put_adoption
from siltstone.metadata.changes import put_counter
from siltstone.metadata.import_rows import is_any_named, put_import_chunk
from siltstone.metadata.legacy_rows import (
    legacy_pages,
    pending_legacy,
    put_legacy,
    remove_legacy,
)
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
from siltstone.segments.shared_chunk_storage import PackingSegmentStorage
from siltstone.segments.write_legacy import LegacyRows

KEY_PART_BYTES_MAX = 255 - 40
"""Of a part of a segment's name: the offset of a file, and what tells its epoch, come after it."""


class LegacyWriter:
    """What the storage writer, and the verbs of segments, have to know about a legacy layout.

    Attributes:
        unsettled: segments that are sealed, and whose files may not say so yet.
    """

    def __init__(self, pipeline: Pipeline, segments: PackingSegmentStorage) -> None:
        self._pipeline = pipeline
        self._replica = pipeline.replica
        self._tables = pipeline.replica.tables
        self._segments = segments
        self._stating = LegacyRows(_rows, self._state_row)
        self._seen: dict[int, SeenHeader] = {}
        self.unsettled: dict[int, None] = {}
        self._new = pending_legacy(self._tables, NEW_SEGMENTS)
        if self._new is not None:
            for state in living_states(self._replica):
                if state.sealed_length is not None:
                    self.note_sealed(state)

    # --- which segments ---------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether a layout is written."""
        return self._new is not None

    @property
    def adoption(self) -> str | None:
        """The adoption that the files belong to; ``None`` when no layout is written."""
        return None if self._new is None else layout_adoption(self._tables, self._new)

    def row_of(self, segment_id: int) -> LegacyRow | None:
        """How a segment is written; ``None`` when that is as in any other store."""
        return None if self._new is None else pending_legacy(self._tables, segment_id)

    def writes(self, segment: OpenSegment) -> bool:
        """Whether the bytes of a segment go to a legacy layout."""
        return self.row_of(segment.segment_id) is not None

    def takes_append(self, segment_id: int) -> bool:
        """Whether a segment needs no chunk that it would share with others."""
        if self._new is not None:
            segment = self._replica.by_id.get(segment_id)
            if segment is not None and self.writes(segment):
                return True
        return self._segments.takes_append(segment_id)

    # --- what is refused --------------------------------------------------------------------------

    def refuse(self, verb: str, *segments: OpenSegment) -> None:
        """Raise ``CapabilityError`` if one of the segments goes to a legacy layout."""
        for segment in segments:
            if self.writes(segment):
                raise CapabilityError(
                    f"a store that writes a legacy layout cannot {verb}: finalise its migration "
                    f"first",
                    segment=segment.name,
                )

    def check_import(self, adoption: str) -> None:
        """Raise ``CapabilityError`` for an import that would bypass the layout."""
        if self._new is not None and adoption != self.adoption:
            raise CapabilityError(
                "a store that writes a legacy layout takes no imports: finalise its migration first"
            )

    async def check_new(self, name: str, storage: AsyncChunkStorage) -> dict[str, str]:
        """Look whether the layout can take a new segment of this name; return its attributes.

        Raises:
            SegmentNameError: no file, or no header, can have the name.
            SegmentExistsError: the layout has a segment of this name.
            ChunkError: long-term storage failed.
        """
        row = None if self._new is None else _begun(self._new, NEW_SEGMENTS, name)
        if row is None:
            return {}
        source = row.source
        problem = name_problem(source)
        if problem:
            raise SegmentNameError(problem, segment=name)
        for each in (header_of(source), chunk_of(source, 0)[:-1], source):
            key = f"{row.prefix}{each}"
            chunks = each.endswith(".")
            found = await storage.list(f"{key}_" if row.suffix and not chunks else key, limit=1)
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
        assert self.adoption is not None, "there is a layout"
        return {MARK: self.adoption, ORIGIN: new_origin(row), SOURCE: source}

    def new_rows(self, segment_id: int, name: str) -> list[TableEntry]:
        """The entries that go with a new segment, so that what it leaves is known to be its own."""
        row = None if self._new is None else _begun(self._new, segment_id, name)
        return [] if row is None else [put_legacy(row)]

    def _is_going(self, row: LegacyRow) -> bool:
        """Whether a deleted segment still has the name in the layout."""
        for tasks in self._replica.rows.task_pages(0):
            for task in tasks:
                if task.kind is TaskKind.REMOVE_SEGMENT:
                    older = self.row_of(task.subject)
                    if older is not None and older.source == row.source:
                        return True
        return False

    # --- writing ----------------------------------------------------------------------------------

    def plan(self, row: LegacyRow, segment: OpenSegment, end: int) -> int:
        """Up to where one ``write`` takes the tail of a segment, at most to ``end``."""
        return self._segments.legacy_end(row, segment.segment_id, end)

    async def write(
        self,
        row: LegacyRow,
        segment: OpenSegment,
        end: int,
        writers: tuple[WriterRow, ...],
        extra: tuple[TableEntry, ...],
    ) -> None:
        """Bring the tail of a segment up to ``end`` into the layout. Raises as ``write_legacy``."""
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

    def note_sealed(self, state: SegmentState) -> None:
        """A segment was sealed: its files have to say so when all of it is flushed."""
        row = self.row_of(state.segment_id)
        if row is not None and not row.sealed:
            self.unsettled[state.segment_id] = None

    async def settle(self, segment: OpenSegment) -> None:
        """Let files say that a segment is sealed, if it is and all of it is flushed.

        Raises as ``write_legacy``.
        """
        if segment.segment_id not in self.unsettled:
            return
        row = self.row_of(segment.segment_id)
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

    async def forget(
        self, segment_id: int, storage: AsyncChunkStorage, fence: Fence
    ) -> list[TableEntry]:
        """Delete the header of a segment that is deleted; return the entries that end its row.

        From then on the layout has no such segment; the collector deletes its other files. What
        flushes that died have begun is deleted here, for no chunk names it.

        Raises:
            FencedError: there is a newer owner; the pipeline has failed with it.
            ChunkError: long-term storage failed; a repeat continues.
        """
        row = self.row_of(segment_id)
        if row is None:
            return []
        await fence.check()
        for remove in (remove_header, remove_ahead):
            await storage.run("delete", row.prefix + row.source, partial(remove, row=row))
        self._seen.pop(segment_id, None)
        return [remove_legacy(segment_id)]

    def lets_go(self, adoption: AdoptionRow | None) -> bool:
        """Whether files of an adoption are deleted when no segment names them."""
        if adoption is None:
            return False
        return adoption.finalised or adoption.adoption == self.adoption

    def ready(self) -> Iterable[OpenSegment]:
        """Segments whose files have to say that they are sealed, and can."""
        for segment_id in list(self.unsettled):
            segment = self._replica.open(segment_id)
            if segment is None:
                del self.unsettled[segment_id]
            elif segment.flushed == segment.state.sealed_length:
                yield segment

    # --- beginning and ending ---------------------------------------------------------------------

    async def begin(
        self, layout: LegacyLayout, segments: Sequence[LegacySegment], storage: AsyncChunkStorage
    ) -> None:
        """Write in a legacy layout from now on. Repeatable.

        Raises:
            CapabilityError: the service cannot do what that takes.
            StoreError: another layout is written already.
            SegmentNotFoundError: a segment is not there.
        """
        self._pipeline.check_alive()
        if not can_be_written(storage.capabilities):
            raise CapabilityError(
                "this service cannot write a legacy layout: files of it grow, and are sealed"
            )
        if self._new is not None:
            if self.adoption != layout.adoption:
                raise StoreError("the store writes another legacy layout", adoption=self.adoption)
            await self._pipeline.barrier()
            return
        session_id = await self._session(layout.adoption)
        entries: list[TableEntry] = []
        for one in segments:
            segment_id = self._replica.rows.pending_find(one.name)
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
            await self._pipeline.update(entries[begin : begin + ROWS_PER_SLICE])
        self._new = new

    async def end(self) -> bool:
        """Write as any other store from now on; return whether a layout was written."""
        self._pipeline.check_alive()
        was = self._new is not None
        self._new = None
        self.unsettled.clear()
        ids = [segment_id for page in legacy_pages(self._tables) for segment_id in page]
        for begin in range(0, len(ids), ROWS_PER_SLICE):
            await self._pipeline.update([remove_legacy(i) for i in ids[begin:][:ROWS_PER_SLICE]])
            await asyncio.sleep(0)
        if not ids:
            await self._pipeline.barrier()
        return was

    async def _session(self, adoption: str) -> int:
        """A session whose objects belong to the adoption; made if there is none."""
        for page in adoption_pages(self._tables):
            for row in page:
                if row.adoption == adoption:
                    return row.session_id
        session_id = self._replica.rows.pending_counter(CounterKind.SEGMENT_ID)
        await self._pipeline.update(
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
