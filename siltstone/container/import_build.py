"""Hidden segments: what an import brings becomes a segment of its own before anybody can see it.

Its state row says deleted and no name leads to it. So it may be built in as many transactions as
its chunks need; a crash leaves rows that the session's repeat goes on with, or that its end
removes like those of any deleted segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace

from siltstone.container.import_views import ImportedChunk, ImportOutput, ImportSessionError
from siltstone.container.pipeline import Pipeline
from siltstone.core.block_sums import patches
from siltstone.core.layout_store import LayoutChange
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.import_row import ImportedPart, ImportRow
from siltstone.core.records.keys import CounterKind
from siltstone.core.records.layout import Layout
from siltstone.core.records.segment_state import SegmentState
from siltstone.core.threads import finish
from siltstone.core.words import ROWS_PER_SLICE
from siltstone.metadata.changes import put_counter, put_state
from siltstone.metadata.import_rows import put_import, put_import_chunk
from siltstone.metadata.layout_store import TableLayoutStore

_ROWS_OF_CHUNK = 3
"""Extent, chunk and name, beside a row of sums for each 64 MiB."""


def plan_adopt(
    layout: Layout, chunks: Sequence[ImportedChunk], chunk_ids: Sequence[int]
) -> LayoutChange:
    """Plan to put chunks that others made behind what the hidden segment has of them."""
    extents, rows, names = [], [], []
    sums: list[BlockSumsPatch] = []
    position = layout.storage_length
    for chunk, chunk_id in zip(chunks, chunk_ids, strict=True):
        extents.append(
            Extent(
                segment_id=layout.segment_id,
                start=position,
                chunk_id=chunk_id,
                chunk_offset=0,
                length=chunk.length,
            )
        )
        rows.append(
            Chunk(
                chunk_id=chunk_id,
                name=chunk.name,
                epoch=0,
                length=chunk.length,
                closed=True,
                adopted=True,
                references=1,
            )
        )
        sums += patches(chunk_id, 0, chunk.sums)
        names.append(put_import_chunk(chunk.name, chunk_id))
        position += chunk.length
    return LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=replace(layout, storage_length=position),
        extents_put=tuple(extents),
        chunks_put=tuple(rows),
        sums=tuple(sums),
        live=False,
        extra=tuple(names),
    )


def in_slices(chunks: Sequence[ImportedChunk]) -> Iterator[Sequence[ImportedChunk]]:
    """Cut into what one transaction takes."""
    begin, room = 0, ROWS_PER_SLICE
    for index, chunk in enumerate(chunks):
        rows = _ROWS_OF_CHUNK + len(patches(0, 0, chunk.sums))
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
            planned = [(output.segment, output.length) for output in outputs]
            if planned != [(part.name, part.length) for part in row.parts]:
                raise _other_chunks(row)
        else:
            row = await self._begin(row, outputs, now_ms)
        for output, part in zip(outputs, row.parts, strict=True):
            await self._fill(row, part, output.chunks)
        return row

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
                sealed_length=part.length,
                deleted=True,
                created_ms=now_ms,
            )
            for part in parts
        ]
        entries = [put_counter(CounterKind.SEGMENT_ID, first + len(parts)), put_import(row)]
        entries += map(put_state, states)
        await self._pipeline.update(entries, relief=False)
        return row

    async def _fill(
        self, row: ImportRow, part: ImportedPart, chunks: Sequence[ImportedChunk]
    ) -> None:
        layout = self._layouts.layout(part.segment_id)
        for some in in_slices(self._missing(row, layout, chunks)):
            ids = await self._layouts.new_chunk_ids(len(some))
            change = plan_adopt(layout, some, ids)
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
        extents = self._rows.extents(layout.segment_id, 0, layout.storage_length, len(chunks) + 1)
        if len(extents) > len(chunks):
            raise _other_chunks(row)
        for extent, chunk in zip(extents, chunks, strict=False):
            known = self._rows.chunk(extent.chunk_id)
            if known is None or (known.name, known.length) != (chunk.name, chunk.length):
                raise _other_chunks(row)
        return chunks[len(extents) :]


def _other_chunks(row: ImportRow) -> ImportSessionError:
    return ImportSessionError(
        "an earlier commit of this session has begun with other chunks", session=row.name
    )
