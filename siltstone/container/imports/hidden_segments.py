"""Hidden segments: what an import brings becomes a segment of its own before it can be seen.

Its state row says deleted and no name leads to it. So it may be built in as many transactions as
its chunks need; a crash leaves rows that the session's repeat continues with, or that its end
removes like those of any deleted segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.models.imports import ImportedChunk, ImportOutput, ImportSessionError
from siltstone.core.chunk_names import is_ours
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.layout_store import LayoutChange
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.import_row import ImportedPart, ImportRow
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.storage.block_sums import patches
from siltstone.core.storage.late_work import finish
from siltstone.metadata.changes import put_counter, put_state
from siltstone.metadata.import_rows import chunk_id_of, put_import, put_import_chunk
from siltstone.metadata.layout_store import TableLayoutStore

FILLS_PARALLEL = 64
"""Hidden segments of one import that are built at a time."""

_ROWS_OF_CHUNK = 3
"""Extent, chunk and name, in addition to a row of sums for each 64 MiB."""


def plan_adopt(
    layout: Layout,
    chunks: Sequence[ImportedChunk],
    chunk_ids: Sequence[int],
    *,
    start: int = 0,
    session_id: int = 0,
) -> LayoutChange:
    """Plan to put chunks that others made after those that the hidden segment has.

    An object in place without a byte belongs to the adoption, and to no segment: it is dropped at
    once, so that what becomes of the adoption becomes of it.

    Args:
        layout: the row as it is.
        chunks: what comes next.
        chunk_ids: one for each.
        start: where the segment begins, as long as it has nothing.
        session_id: of the session that takes them where they are, if they do not lie below the
            prefix of one.
    """
    extents, rows, names, empty = [], [], [], []
    sums: list[BlockSumsPatch] = []
    begun = layout if layout.storage_length else _beginning_at(layout, start)
    position = begun.storage_length
    for chunk, chunk_id in zip(chunks, chunk_ids, strict=True):
        row = Chunk(
            chunk_id=chunk_id,
            name=chunk.name,
            epoch=0,
            length=chunk.length,
            closed=True,
            adopted=True,
            references=1 if chunk.length else 0,
            session_id=0 if is_ours(chunk.name) else session_id,
        )
        names.append(put_import_chunk(chunk.name, chunk_id))
        if not chunk.length:
            empty.append(row)
            continue
        rows.append(row)
        extents.append(
            Extent(
                segment_id=layout.segment_id,
                start=position,
                chunk_id=chunk_id,
                chunk_offset=0,
                length=chunk.length,
            )
        )
        sums += patches(chunk_id, 0, chunk.sums or ())
        position += chunk.length
    return LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=replace(begun, storage_length=position),
        extents_put=tuple(extents),
        chunks_put=tuple(rows),
        chunks_dropped=tuple(empty),
        sums=tuple(sums),
        live=False,
        extra=tuple(names),
    )


def _beginning_at(layout: Layout, start: int) -> Layout:
    return replace(layout, storage_start=start, storage_length=start)


def in_slices(chunks: Sequence[ImportedChunk]) -> Iterator[Sequence[ImportedChunk]]:
    """Cut into what one transaction takes."""
    begin, room = 0, ROWS_PER_SLICE
    for index, chunk in enumerate(chunks):
        rows = _ROWS_OF_CHUNK + len(patches(0, 0, chunk.sums or ()))
        if rows > room and index > begin:
            yield chunks[begin:index]
            begin, room = index, ROWS_PER_SLICE
        room -= rows
    if begin < len(chunks):
        yield chunks[begin:]


class HiddenSegments:
    """Builds the hidden segments of one container's imports, one session at a time."""

    def __init__(self, pipeline: Pipeline, layouts: TableLayoutStore) -> None:
        self._pipeline = pipeline
        self._rows = pipeline.replica.rows
        self._layouts = layouts

    async def build(
        self, row: ImportRow, outputs: Sequence[ImportOutput], now_ms: int
    ) -> ImportRow:
        """Let every output have a hidden segment that holds its chunks; return the session's row.

        What an earlier commit of the session built is taken over.

        Raises:
            ImportSessionError: an earlier commit had other chunks.
        """
        if row.parts:
            await self._pipeline.settled()
            planned = [(output.segment, output.length, output.start) for output in outputs]
            if planned != [self._planned(part) for part in row.parts]:
                raise _other_chunks(row)
        else:
            row = await self._begin(row, outputs, now_ms)
        pairs = list(zip(outputs, row.parts, strict=True))
        # Side by side, so that the transactions of small segments share frames of the log.
        for first in range(0, len(pairs), FILLS_PARALLEL):
            some = pairs[first : first + FILLS_PARALLEL]
            try:
                async with asyncio.TaskGroup() as group:
                    for output, part in some:
                        group.create_task(self._fill(row, part, output))
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from failed
        return row

    def _planned(self, part: ImportedPart) -> tuple[str, int, int]:
        state = self._rows.pending_state(part.segment_id)
        assert state is not None, "a hidden segment goes with its session"
        return part.name, part.length, state.start_offset

    async def _begin(
        self, row: ImportRow, outputs: Sequence[ImportOutput], now_ms: int
    ) -> ImportRow:
        await self._pipeline.admit_update()
        first = self._rows.pending_counter(CounterKind.SEGMENT_ID)
        parts = tuple(
            ImportedPart(name=output.segment, segment_id=number, offset=0, length=output.length)
            for number, output in enumerate(outputs, first)
        )
        row = replace(row, parts=parts)
        states = [
            SegmentState(
                segment_id=part.segment_id,
                name=part.name,
                start_offset=output.start,
                sealed_length=output.end,
                deleted=True,
                created_ms=now_ms,
            )
            for output, part in zip(outputs, parts, strict=True)
        ]
        entries = [put_counter(CounterKind.SEGMENT_ID, first + len(parts)), put_import(row)]
        entries += map(put_state, states)
        await self._pipeline.update(entries, relief=False)
        return row

    async def _fill(self, row: ImportRow, part: ImportedPart, output: ImportOutput) -> None:
        layout = self._layouts.layout(part.segment_id)
        slices = [*in_slices(self._missing(row, layout, output.chunks))]
        if not slices and output.start > layout.storage_length:
            slices = [()]  # a segment without bytes has a layout if it does not begin at 0
        for some in slices:
            ids = await self._layouts.new_chunk_ids(len(some))
            change = plan_adopt(layout, some, ids, start=output.start, session_id=row.session_id)
            # Carried to its end when the caller is cancelled: a repeat starts from the truth.
            await finish(asyncio.ensure_future(self._layouts.commit(change)))
            assert change.after is not None, "an adoption removes no layout"
            layout = change.after

    def _missing(
        self, row: ImportRow, layout: Layout, chunks: Sequence[ImportedChunk]
    ) -> Sequence[ImportedChunk]:
        """The chunks that the hidden segment does not have yet.

        Raises:
            ImportSessionError: those that it has are others.
        """
        filled = [chunk for chunk in chunks if chunk.length]
        tables = self._rows.tables
        empty = [c for c in chunks if not c.length and chunk_id_of(tables, c.name) is None]
        extents = self._rows.extents(layout.segment_id, 0, layout.storage_length, len(filled) + 1)
        if len(extents) > len(filled):
            raise _other_chunks(row)
        for extent, chunk in zip(extents, filled, strict=False):
            known = self._rows.chunk(extent.chunk_id)
            if known is None or (known.name, known.length) != (chunk.name, chunk.length):
                raise _other_chunks(row)
        return filled[len(extents) :] + empty


def _other_chunks(row: ImportRow) -> ImportSessionError:
    return ImportSessionError(
        "an earlier commit of this session has begun with other chunks", session=row.name
    )
