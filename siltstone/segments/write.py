"""Moving acknowledged bytes into chunks: durable first, then one transaction names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from siltstone.core.chunk_storage import Buffer, ChunkStorage
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkReadBackError,
    LostDataError,
    Outcome,
    SiltstoneError,
)
from siltstone.core.layout_store import LayoutChange, NewChunk
from siltstone.core.records.block_sums import BlockSumsPatch
from siltstone.core.records.chunk import Chunk, end_chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.layout import Layout
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.writer_row import WriterRow
from siltstone.core.storage.block_sums import block_count, extend_sums, patches
from siltstone.segments.chunk_cuts import BufferCutter, Step, plan_steps
from siltstone.segments.chunk_writes import create_chunk, read_back
from siltstone.segments.concat_staging import unplace_all
from siltstone.segments.context import Context
from siltstone.segments.read import sums_between
from siltstone.segments.trim import drop_all, run_skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChunk:
    """The chunk that a segment ends in, if its next bytes may go there too.

    Attributes:
        chunk: the row.
        extent: the segment's last extent, which ends at the chunk's end.
    """

    chunk: Chunk
    extent: Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One chunk whose bytes are durable and not committed yet.

    Attributes:
        step: the bytes.
        chunk_id: where they are.
        name: its name.
        sums: patches of its sums.
    """

    step: Step
    chunk_id: int
    name: str
    sums: tuple[BlockSumsPatch, ...]


def plan_commit(
    layout: Layout,
    last_chunk: Chunk | None,
    open_chunk: OpenChunk | None,
    written: Sequence[Written],
    *,
    epoch: int,
    chunk_bytes: int,
    appendable: bool,
    writers: tuple[WriterRow, ...],
) -> LayoutChange:
    """Plan the one transaction of a write.

    Args:
        layout: the row before.
        last_chunk: the chunk that it says may be appended to, if any; closed here unless that was
            done.
        open_chunk: what an append step went to.
        written: what is durable now, in order.
        epoch: of new chunks.
        chunk_bytes: a chunk of this many bytes is full.
        appendable: whether the last chunk may be appended to later.
        writers: rows as of the end.
    """
    extents, chunks = [], []
    left = open_chunk is None or not written[0].step.append
    # The row of a shared chunk may change at any time by another segment's transaction.
    if last_chunk is not None and left and last_chunk.references == 1:
        chunks.append(end_chunk(last_chunk))
    for index, item in enumerate(written):
        length = item.step.end - item.step.start
        is_last = index == len(written) - 1
        if item.step.append:
            assert open_chunk is not None, "an append has a chunk"
            extents.append(replace(open_chunk.extent, length=open_chunk.extent.length + length))
            chunk = replace(open_chunk.chunk, length=open_chunk.chunk.length + length)
        else:
            extents.append(
                Extent(
                    segment_id=layout.segment_id,
                    start=item.step.start,
                    chunk_id=item.chunk_id,
                    chunk_offset=0,
                    length=length,
                )
            )
            chunk = Chunk(chunk_id=item.chunk_id, name=item.name, epoch=epoch, length=length)
        is_open = is_last and appendable and chunk.length < chunk_bytes
        chunks.append(replace(chunk, closed=not is_open))
    open_id = 0 if chunks[-1].closed else chunks[-1].chunk_id
    return LayoutChange(
        segment_id=layout.segment_id,
        before=layout,
        after=layout.grown(written[0].step.start, written[-1].step.end, open_id),
        extents_put=tuple(extents),
        chunks_put=tuple(chunks),
        sums=tuple(patch for item in written for patch in item.sums),
        writers=writers,
    )


async def run_write(
    context: Context,
    segment_id: int,
    offset: int,
    buffers: Sequence[Buffer],
    cuts: Sequence[int],
    writers: tuple[WriterRow, ...],
    extra: tuple[TableEntry, ...],
) -> int:
    """See ``ChunkedSegmentStorage.write``. The caller holds the segment's lock."""
    state = context.live_state(segment_id)
    context.layout_ending_at(state, offset)
    cutter = BufferCutter(buffers, offset)
    if cutter.end == offset:
        return offset
    if state.start_offset >= cutter.end:
        await run_skip(context, segment_id, cutter.end, writers, extra)
        return cutter.end
    await unplace_all(context, segment_id)
    if state.start_offset > offset:
        await drop_all(context, segment_id)
    writing = _Writing(
        context=context,
        layout=context.layouts.layout(segment_id),
        cutter=cutter,
        cuts=cuts,
        open_chunk=find_open_chunk(context, segment_id),
    )
    try:
        await writing.write_all(max(offset, state.start_offset))
    except BaseException:  # cancelled too: nothing of it will ever be committed
        writing.give_up()
        raise
    if not await writing.commit(writers, extra):
        raise context.not_found(segment_id)
    return cutter.end


def find_open_chunk(context: Context, segment_id: int) -> OpenChunk | None:
    """Return the chunk that the segment's next bytes may be appended to, if there is one."""
    layout = context.layouts.layout(segment_id)
    if layout.last_chunk_id == 0:
        return None
    chunk = context.chunk(layout.last_chunk_id)
    extent = context.layouts.floor(segment_id, layout.storage_length - 1)
    usable = (
        chunk.epoch == context.layouts.epoch
        and not chunk.closed
        and not chunk.adopted
        and chunk.references == 1
        and not context.memory.is_spoilt(chunk.chunk_id)
        and context.takes_appends(chunk.chunk_id)
    )
    if not usable or extent is None or extent.chunk_id != chunk.chunk_id:
        return None
    if extent.chunk_offset + extent.length != chunk.length:
        return None
    return OpenChunk(chunk=chunk, extent=extent)


@dataclass(slots=True, kw_only=True)
class _Writing:
    """One write on its way: what is durable already, and which names it used."""

    context: Context
    layout: Layout
    cutter: BufferCutter
    cuts: Sequence[int]
    open_chunk: OpenChunk | None
    written: list[Written] = field(default_factory=list)
    made: list[NewChunk] = field(default_factory=list)

    async def write_all(self, start: int) -> None:
        """Make all bytes from ``start`` on durable."""
        end, limit = self.cutter.end, self.context.chunk_bytes
        room = max(0, limit - self.open_chunk.chunk.length) if self.open_chunk else 0
        steps = plan_steps(start, end, cuts=self.cuts, room=room, chunk_bytes=limit)
        if self.open_chunk and steps[0].append:
            written = await self._append(self.open_chunk, steps[0])
            if written is not None:
                self.written.append(written)
                del steps[0]
            else:
                steps = plan_steps(start, end, cuts=self.cuts, room=0, chunk_bytes=limit)
        for step in steps:
            self.written.append(await self._create(step))

    async def commit(self, writers: tuple[WriterRow, ...], extra: tuple[TableEntry, ...]) -> bool:
        """State in one transaction where the bytes are."""
        context, last_id = self.context, self.layout.last_chunk_id
        change = plan_commit(
            self.layout,
            context.chunk(last_id) if last_id else None,
            self.open_chunk,
            self.written,
            epoch=context.layouts.epoch,
            chunk_bytes=context.chunk_bytes,
            appendable=context.takes_appends(self.written[-1].chunk_id),
            writers=writers,
        )
        try:
            committed = await context.commit(replace(change, extra=extra))
        except BaseException as error:
            if isinstance(error, SiltstoneError) and error.outcome is Outcome.NOT_APPLIED:
                self.give_up()
            # Else it may be committed: its chunks are not garbage for us, nor may the open one be
            # written again.
            self._spoil_open_chunk()
            raise
        if not committed:
            self.give_up()
        return committed

    def give_up(self) -> None:
        """Nothing of this will be committed: hand the names over, keep off the open chunk."""
        self.context.memory.abandon(self.made)
        self.context.memory.forget(chunk.chunk_id for chunk in self.made)
        self._spoil_open_chunk()

    def _spoil_open_chunk(self) -> None:
        if self.open_chunk and self.written and self.written[0].step.append:
            self.context.memory.spoil(self.open_chunk.chunk.chunk_id)

    async def _append(self, open_chunk: OpenChunk, step: Step) -> Written | None:
        """Append to the open chunk; ``None`` when the bytes must go to a new one."""
        context, chunk = self.context, open_chunk.chunk
        first = chunk.length // BLOCK_BYTES
        last = 0
        if chunk.length % BLOCK_BYTES:
            (last,) = sums_between(context.layouts, chunk, first, block_count(chunk.length))
        buffers = self.cutter.cut(step.start, step.end)

        def call(storage: ChunkStorage) -> list[int]:
            sums = extend_sums(buffers, chunk.length, last)
            storage.write(chunk.name, chunk.length, buffers)
            if context.settings.read_back:
                read_back(storage, chunk.name, chunk.length, step.end - step.start, last, sums)
            return sums

        try:
            length = step.end - step.start
            sums = await context.storage.run(
                "write", chunk.name, call, length=length, moved=context.moved(length)
            )
        except ChunkError as error:
            if _is_lost(error):
                context.memory.spoil(chunk.chunk_id)
                raise LostDataError(
                    "chunk has lost committed bytes", where=chunk.name, needed=chunk.length
                ) from error
            refused = isinstance(error, ChunkOffsetError | ChunkAccessDeniedError)
            if not refused and error.outcome is not Outcome.UNKNOWN:
                raise
            context.memory.spoil(chunk.chunk_id)
            if isinstance(error, ChunkReadBackError):
                context.mishaps.read_back_failed(error)
            return None
        except BaseException:  # cancelled: the call may still be on its way
            context.memory.spoil(chunk.chunk_id)
            raise
        context.memory.count_write(chunk.chunk_id)
        return Written(
            step=step,
            chunk_id=chunk.chunk_id,
            name=chunk.name,
            sums=patches(chunk.chunk_id, first, sums),
        )

    async def _create(self, step: Step) -> Written:
        """Make a new chunk of the bytes of ``step``."""
        context = self.context
        new, sums = await create_chunk(
            context,
            lambda: context.layouts.new_chunk(self.layout.segment_id, step.start),
            self.cutter.cut(step.start, step.end),
        )
        self.made.append(new)
        context.memory.count_write(new.chunk_id)
        return Written(
            step=step,
            chunk_id=new.chunk_id,
            name=new.name,
            sums=patches(new.chunk_id, 0, sums),
        )


def _is_lost(error: ChunkError) -> bool:
    if isinstance(error, ChunkOffsetError):
        return error.expected < error.actual
    return isinstance(error, ChunkNotFoundError)
