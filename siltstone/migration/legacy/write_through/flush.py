"""Flushing into a legacy layout: files, then the header that lists them, then one transaction.

The files become chunks in place of the segment. What a crash leaves of them lies beyond what the
rows say, is made of acknowledged bytes, and is written again by the next flush.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.layout_store import LayoutChange
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.legacy_row import LegacyRow
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow
from siltstone.core.storage.block_sums import block_count, extend_sums, patches
from siltstone.migration.legacy.write_through.files import (
    SeenHeader,
    check_before,
    check_epochs,
    check_free,
    put_header,
    seal_files,
    write_part,
)
from siltstone.migration.legacy.write_through.layout import (
    FilePart,
    LegacyChangedError,
    file_bytes,
    header_ahead,
    header_begin,
    plan_parts,
    reached,
    reaching,
    with_header,
    withdrawn,
)
from siltstone.segments.chunk_cuts import BufferCutter
from siltstone.segments.chunk_writes import read_back
from siltstone.segments.context import Context
from siltstone.segments.read import sums_between
from siltstone.segments.seal import seal_all

PARTS_MAX = 100
"""Files that one transaction takes: each costs the rows of a chunk."""


@dataclass(frozen=True, slots=True)
class LegacyRows:
    """How rows of a legacy layout are stated.

    Attributes:
        entries: gives the entries that state a row and the names of new files.
        state: states a row alone, and returns when that is acknowledged.
    """

    entries: Callable[[LegacyRow, Sequence[Chunk]], tuple[TableEntry, ...]]
    state: Callable[[LegacyRow], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFile:
    """The file that the flushed bytes of a segment end in.

    Attributes:
        chunk: its row.
        extent: the segment's last one.
        takes_more: whether the store writes it, and it is not full.
    """

    chunk: Chunk
    extent: Extent
    takes_more: bool

    @property
    def opened(self) -> tuple[int, str] | None:
        """Start and key if the next bytes go there as well."""
        return (self.extent.start, self.chunk.name) if self.takes_more else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """A part whose bytes are durable and not committed yet."""

    part: FilePart
    chunk_id: int
    sums: tuple[BlockSumsPatch, ...]


def last_file(context: Context, segment_id: int) -> LastFile | None:
    """Where the flushed bytes of a segment end; ``None`` when none are there."""
    layout = context.layouts.layout(segment_id)
    if layout.storage_start == layout.storage_length:
        return None
    extent = context.layouts.floor(segment_id, layout.storage_length - 1)
    assert extent is not None, "I6: the flushed bytes have an extent"
    chunk = context.chunk(extent.chunk_id)
    takes_more = layout.last_chunk_id == chunk.chunk_id and chunk.in_place
    return LastFile(chunk=chunk, extent=extent, takes_more=takes_more)


def plan_next(
    context: Context, row: LegacyRow, segment_id: int, end: int
) -> tuple[LastFile | None, list[FilePart]]:
    """Say where the bytes from the flushed length to ``end`` go, or as many as one call takes."""
    begin = context.layouts.layout(segment_id).storage_length
    last = last_file(context, segment_id)
    opened = None if last is None else last.opened
    return last, plan_parts(row, opened, begin, end, parts_max=PARTS_MAX)


def plan_commit(
    layout: Layout, row: LegacyRow, last: LastFile | None, written: Sequence[WrittenPart]
) -> LayoutChange:
    """Plan the one transaction of a flush.

    Args:
        layout: the row before.
        row: of the segment.
        last: the file that the bytes before end in.
        written: what is durable now, in order.
    """
    extents, chunks = [], []
    for item in written:
        part = item.part
        length = part.end - part.start
        if last is not None and last.takes_more and part.start == last.extent.start:
            extents.append(replace(last.extent, length=length))
            chunk = replace(last.chunk, length=length)
        else:
            extents.append(
                Extent(
                    segment_id=layout.segment_id,
                    start=part.start,
                    chunk_id=item.chunk_id,
                    chunk_offset=0,
                    length=length,
                )
            )
            chunk = Chunk(
                chunk_id=item.chunk_id,
                name=part.key,
                epoch=0,
                length=length,
                adopted=True,
                session_id=row.session_id,
            )
        chunks.append(replace(chunk, closed=length == file_bytes(row)))
    open_id = 0 if chunks[-1].closed else chunks[-1].chunk_id
    return LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=layout.grown(written[0].part.begin, written[-1].part.end, open_id),
        extents_put=tuple(extents),
        chunks_put=tuple(chunks),
        sums=tuple(patch for item in written for patch in item.sums),
    )


async def run_flush(
    context: Context,
    row: LegacyRow,
    segment_id: int,
    offset: int,
    buffers: Sequence[Buffer],
    until: int,
    seen: SeenHeader,
    rows: LegacyRows,
    writers: tuple[WriterRow, ...],
    extra: tuple[TableEntry, ...],
) -> int:
    """Put bytes at the flushed length into files, durably, and state it.

    Args:
        context: of the segment layer.
        row: of the segment.
        segment_id: the segment, whose lock the caller holds; no other one shares its last file.
        offset: where the bytes begin; the flushed length.
        buffers: the bytes, up to where ``plan_next`` says.
        until: the acknowledged length.
        seen: how the header was when it was compared last; kept from call to call.
        rows: how rows are stated; a row alone before new files are begun.
        writers: writer rows as of the end of these bytes.
        extra: entries that go with the transaction.

    Returns:
        The new flushed length.

    Raises:
        LegacyChangedError: another program wrote to the layout; nothing was written.
        LostDataError: a file has lost bytes; nothing was written.
        SegmentNotFoundError: the segment was deleted; nothing was committed.
        ChunkError: storage failed; the same call may be made again.
        LogError: whether it took place is unknown, this owner must stop.
    """
    layout = context.layout_ending_at(context.live_state(segment_id), offset)
    cutter = BufferCutter(buffers, offset)
    last, parts = plan_next(context, row, segment_id, cutter.end)
    assert parts[-1].end == cutter.end, "the caller asked how much one call takes"
    await _check(context, row, last, offset, until, seen)
    cuts = [(part, cutter.cut(part.begin, part.end)) for part in parts]
    row = await _announce(context, row, cuts, until, rows)
    written: list[WrittenPart] = []
    try:
        for part, cut in cuts:
            written.append(await _write(context, segment_id, last, part, cut, until))
    except LegacyChangedError:
        # It is unknown whose file this is, so the deletion of the segment shall leave it.
        if part.entry:
            await rows.state(withdrawn(row, part.start))
        raise
    text = header_begin(row) + "".join(part.entry for part in parts)
    if text:
        await _header(context, row, text, last, offset, until, SeenHeader())
    row = reached(replace(with_header(row, text), listed=""), cutter.end)
    change = plan_commit(layout, row, last, written)
    entries = rows.entries(
        row, [c for c in change.chunks_put if last is None or c.name != last.chunk.name]
    )
    if not await context.commit(replace(change, writers=writers, extra=(*extra, *entries))):
        raise context.not_found(segment_id)
    if not row.suffix:
        full = [chunk for chunk in change.chunks_put if chunk.closed]
        await seal_all(context.storage, full, context.mishaps)
    return cutter.end


async def run_seal(
    context: Context, row: LegacyRow, segment_id: int, seen: SeenHeader, rows: LegacyRows
) -> None:
    """Let the files of a sealed segment, whose bytes are all flushed, say that it is sealed.

    The caller holds the segment's lock. Repeatable; raises as ``run_flush``.
    """
    layout = context.layouts.layout(segment_id)
    last = last_file(context, segment_id)
    key = "" if last is None else last.chunk.name
    if row.listed:
        key = row.prefix + row.listed
    elif last is None and row.bare:
        key = row.prefix + row.source + row.suffix
    # A segment from before headers is sealed when its file is, where modes tell.
    text = "" if row.bare and not row.suffix else header_begin(row)
    await context.storage.run(
        "seal", key, lambda storage: seal_files(storage, row, key, text, seen)
    )
    row = replace(with_header(row, text), sealed=True)
    chunks: tuple[Chunk, ...] = ()
    if last is not None and layout.last_chunk_id:
        chunks = (replace(last.chunk, closed=True),)
    change = LayoutChange(
        segment_id=segment_id,
        before=layout,
        after=replace(layout, last_chunk_id=0),
        chunks_put=chunks,
        extra=rows.entries(row, ()),
    )
    if not await context.commit(change):
        raise context.not_found(segment_id)


async def _check(
    context: Context,
    row: LegacyRow,
    last: LastFile | None,
    offset: int,
    until: int,
    seen: SeenHeader,
) -> None:
    """Look whether all is as this store left it, before a byte is written."""
    before = None
    if last is not None and not last.takes_more and last.chunk.in_place:
        before = last.chunk
    name = row.prefix + row.source

    def call(storage: ChunkStorage) -> None:
        check_before(storage, row, before)
        if row.suffix and last is not None and last.takes_more:
            check_epochs(storage, last.chunk.name, row.suffix)

    await context.storage.run("stat", name, call)
    await _header(context, row, "", last, offset, until, seen)


async def _header(
    context: Context,
    row: LegacyRow,
    text: str,
    last: LastFile | None,
    offset: int,
    until: int,
    seen: SeenHeader,
) -> None:
    opened = None if last is None else last.opened

    def call(storage: ChunkStorage) -> None:
        put_header(storage, row, text, header_ahead(row, opened, offset, until), seen)

    await context.storage.run("overwrite", row.prefix + row.source, call, length=len(text))


async def _announce(
    context: Context,
    row: LegacyRow,
    cuts: Sequence[tuple[FilePart, Sequence[Buffer]]],
    until: int,
    rows: LegacyRows,
) -> LegacyRow:
    """State which files will be begun, before the first one is; return the row that says so.

    None of them is there yet, or it holds the segment's bytes. So what is there afterwards is ours,
    and goes with the segment even if no transaction ever gives it to a chunk.
    """
    stated = reaching(row, [part for part, _ in cuts])
    if stated == row:
        return row

    def call(storage: ChunkStorage) -> None:
        for part, cut in cuts:
            if part.entry:
                check_free(storage, part, cut, until)

    await context.storage.run("stat", row.prefix + row.source, call)
    await rows.state(stated)
    return stated


async def _write(
    context: Context,
    segment_id: int,
    last: LastFile | None,
    part: FilePart,
    buffers: Sequence[Buffer],
    until: int,
) -> WrittenPart:
    committed, length = part.begin - part.start, part.end - part.begin
    first, newest = committed // BLOCK_BYTES, 0
    if committed:
        assert last is not None, "only the last file has bytes already"
        chunk_id = last.chunk.chunk_id
        if committed % BLOCK_BYTES:
            (newest,) = sums_between(context.layouts, last.chunk, first, block_count(committed))
    else:
        # The name that goes with the id is never used.
        chunk_id = (await context.layouts.new_chunk(segment_id, part.start)).chunk_id

    def call(storage: ChunkStorage) -> list[int]:
        sums = extend_sums(buffers, committed, newest)
        write_part(storage, part, buffers, until)
        if context.settings.read_back:
            read_back(storage, part.key, committed, length, newest, sums)
        return sums

    sums = await context.storage.run(
        "overwrite", part.key, call, length=length, moved=context.moved(length)
    )
    return WrittenPart(part=part, chunk_id=chunk_id, sums=patches(chunk_id, first, sums))
