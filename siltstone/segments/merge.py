"""Merging neighbours of a segment, or runs of several segments, into a chunk that others write.

The owner reserves the name and says what shall lie there; the process that writes it needs no
claim, for the name is this epoch's and the create is exclusive, so at most one does. Then the owner
lets the chunk stand for the extents that are still as they were: by the same transactions as a
rewrite and a repack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import ChunkNotFoundError, LostDataError, SiltstoneError
from siltstone.core.layout_store import NewChunk, PackingLayoutStore
from siltstone.core.records.extent import Extent
from siltstone.core.storage.block_reads import BlockRange, read_blocks
from siltstone.core.storage.block_sums import block_count, extend_sums
from siltstone.core.storage.cached import uncached
from siltstone.segments.chunk_writes import read_back
from siltstone.segments.context import Context
from siltstone.segments.locks import SegmentLocks
from siltstone.segments.read import sums_between
from siltstone.segments.repack import state_repack
from siltstone.segments.rewrite import joined_sums, state_rewrite
from siltstone.segments.rewrite_plan import Rewrite, joins_natively


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Extents that shall lie in one new chunk.

    Attributes:
        extents: their order is that of the bytes.
        rewrite: what they are, if they are neighbours of one segment; else they are of several
            segments, which will share the chunk.
    """

    extents: tuple[Extent, ...]
    rewrite: Rewrite | None = None

    @property
    def length(self) -> int:
        """Bytes of the new chunk."""
        if self.rewrite is not None:
            return self.rewrite.length
        return sum(extent.length for extent in self.extents)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSource:
    """Some bytes of a chunk, with the sums that verify them.

    Attributes:
        chunk: key on long-term storage.
        chunk_length: its committed length.
        offset: the first byte.
        length: how many.
        sums: CRC32C of every block that they touch.
    """

    chunk: str
    chunk_length: int
    offset: int
    length: int
    sums: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """What is to be written, for the process that writes it. Holds no secret.

    Attributes:
        new: the reserved chunk.
        sources: what lies in it, in order.
        native: whether the service joins them; else they are copied.
    """

    new: NewChunk
    sources: tuple[MergeSource, ...]
    native: bool

    @property
    def length(self) -> int:
        """Bytes of the new chunk."""
        return sum(source.length for source in self.sources)


async def reserve_merge(context: Context, layouts: PackingLayoutStore, merge: Merge) -> Merging:
    """See ``PackingSegmentStorage.reserve_merge``."""
    rewrite = merge.rewrite
    native = False
    if rewrite is None:
        new = await layouts.new_shared_chunk(len(merge.extents))
    else:
        new = await layouts.new_chunk(rewrite.segment_id, rewrite.start)
        native = joins_natively(rewrite, context.chunk, context.storage.capabilities)
    start = merge.extents[0].start if rewrite is None else rewrite.start
    sources = []
    for number, extent in enumerate(merge.extents):
        # What lies below the start of a rewrite is dead; only its first extent may begin there.
        skipped = start - extent.start if number == 0 else 0
        sources.append(_source(context, extent, skipped))
    return Merging(new=new, sources=tuple(sources), native=native)


def _source(context: Context, extent: Extent, skipped: int) -> MergeSource:
    chunk = context.chunk(extent.chunk_id)
    offset, length = extent.chunk_offset + skipped, extent.length - skipped
    first, end = offset // BLOCK_BYTES, block_count(offset + length)
    return MergeSource(
        chunk=chunk.name,
        chunk_length=chunk.length,
        offset=offset,
        length=length,
        sums=sums_between(context.layouts, chunk, first, end),
    )


async def state_merge(
    context: Context,
    layouts: PackingLayoutStore,
    locks: SegmentLocks,
    merge: Merge,
    merging: Merging,
    sums: Sequence[int],
) -> int:
    """See ``PackingSegmentStorage.state_merge``."""
    new, rewrite = merging.new, merge.rewrite
    try:
        await _check_written(context, new.name, merge.length, sums)
    except SiltstoneError:
        context.memory.abandon([new])
        raise
    if rewrite is None:
        return await state_repack(context, layouts, locks, new, sums, merge.extents)
    how = "joined" if merging.native else "copied"
    lock = locks.of(rewrite.segment_id)
    if await state_rewrite(context, lock, rewrite, new, sums, how):
        return len(merge.extents)
    return 0


async def _check_written(context: Context, name: str, length: int, sums: Sequence[int]) -> None:
    """A worker may have had another folder under the same path, so the service itself is asked."""
    try:
        found = (await context.storage.stat(name)).length
    except ChunkNotFoundError as error:
        raise LostDataError("merged chunk is not there", where=name) from error
    if found != length or len(sums) != block_count(length):
        raise LostDataError(
            "merged chunk has another length", where=name, needed=length, found=found
        )


def write_merge(storage: ChunkStorage, merging: Merging, *, check: bool) -> list[int]:
    """Write the new chunk, whose bytes are in memory meanwhile unless the service joins them.

    Args:
        storage: where all chunks lie.
        merging: what is written.
        check: read back what was copied, and compare it.

    Returns:
        The sums of its blocks.

    Raises:
        CorruptDataError: a source is damaged, or what was joined differs from its sources.
        ChunkExistsError: another process wrote it, or may have.
        ChunkError: storage failed.
    """
    storage = uncached(storage)
    if merging.native:
        return _joined(storage, merging)
    buffer = bytearray(merging.length)
    position = 0
    with memoryview(buffer) as view:
        for source in merging.sources:
            _read(storage, source, view[position : position + source.length])
            position += source.length
        sums = extend_sums([view], 0, 0)
        storage.create(merging.new.name, [view])
    if check:
        read_back(storage, merging.new.name, 0, len(buffer), 0, sums)
    return sums


def _joined(storage: ChunkStorage, merging: Merging) -> list[int]:
    storage.concat(merging.new.name, [(each.chunk, each.length) for each in merging.sources])
    blocks, end = [], 0
    for source in merging.sources:
        for index, value in enumerate(source.sums):
            blocks.append((end + min(source.length, (index + 1) * BLOCK_BYTES), value))
        end += source.length
    return joined_sums(storage, merging.new.name, blocks)


def _read(storage: ChunkStorage, source: MergeSource, view: memoryview) -> None:
    blocks = BlockRange(
        name=source.chunk,
        chunk_length=source.chunk_length,
        offset=source.offset,
        length=source.length,
        sums=source.sums,
    )
    if (blocks.start, blocks.end) == (source.offset, source.offset + source.length):
        read_blocks(storage, blocks, view)
        return
    room = memoryview(bytearray(blocks.end - blocks.start))
    read_blocks(storage, blocks, room)
    begin = source.offset - blocks.start
    view[:] = room[begin : begin + source.length]
