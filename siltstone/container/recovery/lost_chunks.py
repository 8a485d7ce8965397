"""Which bytes of a state are not on long-term storage: its rows next to one listing.

A state that is older than what owners deleted since names chunks that are gone. Without sums only
presence and lengths are looked at.

Which blocks of a chunk do not match their sums: all of them are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from siltstone.container.models.recovery_report import LostRange
from siltstone.container.recovery.log_bytes import LogBytes
from siltstone.container.state.replica import Replica
from siltstone.core.chunk_names import data_prefix, import_prefix
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import BLOCK_BYTES, ROWS_PER_SLICE
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError
from siltstone.core.records.chunk import Chunk, decode_chunk
from siltstone.core.records.extent import Extent
from siltstone.core.records.keys import METADATA_TABLE, RowKind, chunk_key
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.block_reads import BlockRange, chunk_parts, read_blocks
from siltstone.core.storage.cached import uncached
from siltstone.core.storage.listings import listed
from siltstone.core.text import counted
from siltstone.metadata.extent_scan import scan_extents
from siltstone.metadata.tables import Tables
from siltstone.segments.read import PART_BYTES

SumsOf = Callable[[Chunk], tuple[int, ...]]
"""Returns the sum of each block of a chunk; none of one in place that has none."""


async def damaged_blocks(
    storage: AsyncChunkStorage, chunk: Chunk, sums_of: SumsOf
) -> tuple[tuple[int, int], ...]:
    """Return the ranges of a chunk whose blocks do not match their sums, in order.

    A chunk without sums has no such range, and one whose sums are lost is one: reads fail.

    Args:
        storage: long-term storage.
        chunk: whose bytes are all there.
        sums_of: gives its sums.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    try:
        sums = sums_of(chunk)
    except CorruptDataError:
        return ((0, chunk.length),)
    if not sums:
        return ()
    ranges: list[tuple[int, int]] = []
    buffer = memoryview(bytearray(min(chunk.length, PART_BYTES)))
    for part in chunk_parts(chunk.name, chunk.length, sums, PART_BYTES):
        if await _matches(storage, part, buffer):
            continue
        for block in _blocks(part):
            if await _matches(storage, block, buffer):
                continue
            if ranges and ranges[-1][1] == block.start:
                ranges[-1] = ranges[-1][0], block.end
            else:
                ranges.append((block.start, block.end))
    return tuple(ranges)


async def _matches(storage: AsyncChunkStorage, part: BlockRange, buffer: memoryview) -> bool:
    def call(storage: ChunkStorage) -> None:
        read_blocks(uncached(storage), part, buffer[: part.length])

    try:
        await storage.run("read_into", part.name, call, moved=part.length)
    except CorruptDataError:
        return False
    return True


def _blocks(part: BlockRange) -> list[BlockRange]:
    return [
        BlockRange(
            name=part.name,
            chunk_length=part.chunk_length,
            offset=start,
            length=min(BLOCK_BYTES, part.end - start),
            sums=(crc,),
        )
        for start, crc in zip(range(part.start, part.end, BLOCK_BYTES), part.sums, strict=True)
    ]


STATS_PARALLEL = 16
_BEHIND_CHUNKS = bytes((RowKind.CHUNK + 1,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gone:
    """A chunk and its bytes that are not there, as ranges in order."""

    chunk: Chunk
    ranges: tuple[tuple[int, int], ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """Bytes of one extent that its chunk has lost, and frames hold.

    Attributes:
        segment_id: the segment.
        offset: of the first of them in the segment.
        length: how many there are.
        kept_bytes: holds them.
    """

    segment_id: int
    offset: int
    length: int
    kept_bytes: LogBytes

    def read(self, begin: int, end: int) -> list[memoryview]:
        """The bytes from ``begin`` to ``end`` of these; not copied."""
        return self.kept_bytes.read(self.segment_id, self.offset + begin, self.offset + end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What long-term storage lacks, by segment id and in order; the whole segments are left out.

    Attributes:
        lost: what nothing holds.
        kept: what frames hold.
        put_back: the same, for the code that writes it.
    """

    lost: dict[int, list[LostRange]]
    kept: dict[int, list[LostRange]]
    put_back: tuple[PutBack, ...]


async def lost_ranges(
    replica: Replica,
    storage: AsyncChunkStorage,
    container: int,
    sums_of: SumsOf,
    *,
    kept_bytes: LogBytes,
    deep: bool,
) -> Lacking:
    """Return what is missing of each segment, and what of that frames still hold.

    What lies below the start of a segment was truncated and is not missing. What a concat placed
    beyond its flushed length is still the source's.

    Args:
        replica: the state.
        storage: long-term storage.
        container: its index.
        sums_of: sums of a chunk, to compare what is read with.
        kept_bytes: what frames hold; each chunk of bytes that they hold is read.
        deep: read all others too; else their lengths alone are looked at.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    lengths = await chunk_lengths(storage, container)
    lengths.update(await in_place_lengths(storage, chunks_of(replica.tables)))
    gone: dict[int, _Gone] = {}
    held = set(_chunks_held(replica, kept_bytes))
    for chunk in chunks_of(replica.tables):
        read_with = sums_of if deep or chunk.chunk_id in held else None
        found = await _gone(chunk, lengths.get(chunk.name), storage, read_with)
        if found is not None:
            gone[chunk.chunk_id] = found
    lost: dict[int, list[LostRange]] = {}
    kept: dict[int, list[LostRange]] = {}
    put_back: list[PutBack] = []
    for extent in _extents(replica.tables) if gone else ():
        wrong = gone.get(extent.chunk_id)
        if wrong is None:
            continue
        segment_id = extent.segment_id
        for begin, end, is_kept in _lacking(replica, extent, wrong, kept_bytes):
            length = end - begin
            found_range = LostRange(
                offset=begin, length=length, chunk=wrong.chunk.name, reason=wrong.reason
            )
            into = kept if is_kept else lost
            into.setdefault(segment_id, []).append(found_range)
            if is_kept:
                put_back.append(
                    PutBack(
                        segment_id=segment_id, offset=begin, length=length, kept_bytes=kept_bytes
                    )
                )
    return Lacking(lost=lost, kept=kept, put_back=tuple(put_back))


def _chunks_held(replica: Replica, kept_bytes: LogBytes) -> Iterator[int]:
    """Ids of chunks that hold bytes of segments which frames hold, too."""
    for segment_id, begin, end in kept_bytes.ranges():
        while page := replica.rows.extents(segment_id, begin, end, ROWS_PER_SLICE):
            yield from (extent.chunk_id for extent in page)
            begin = page[-1].end


async def _gone(
    chunk: Chunk, length: int | None, storage: AsyncChunkStorage, sums_of: SumsOf | None
) -> _Gone | None:
    """What a chunk lacks; ``length`` is what a listing says, ``None`` when it is not there."""
    if length is None:
        return _Gone(chunk=chunk, ranges=((0, chunk.length),), reason="missing")
    # One that is open is still written, and may be longer.
    if chunk.in_place and chunk.closed and length != chunk.length:
        reason = f"{counted(length, 'byte')} long, not {chunk.length:,}: another program changed it"
        return _Gone(chunk=chunk, ranges=((0, chunk.length),), reason=reason)
    if length < chunk.length:
        reason = f"{counted(length, 'byte')} long, not {chunk.length:,}"
        # A block that is cut cannot be compared with its sum, so no byte of it is read any more.
        start = length // BLOCK_BYTES * BLOCK_BYTES
        return _Gone(chunk=chunk, ranges=((start, chunk.length),), reason=reason)
    if sums_of is None or not chunk.references:
        return None
    ranges = await damaged_blocks(storage, chunk, sums_of)
    return _Gone(chunk=chunk, ranges=ranges, reason="damaged") if ranges else None


async def chunk_lengths(storage: AsyncChunkStorage, container: int) -> dict[str, int]:
    """Return the physical length of every chunk of users' segments, by name.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    found: dict[str, int] = {}
    for prefix in (data_prefix(container), import_prefix(container)):
        async for stat in listed(storage, prefix):
            found[stat.name] = stat.length
    return found


async def in_place_lengths(storage: AsyncChunkStorage, chunks: Iterable[Chunk]) -> dict[str, int]:
    """Return the physical length of each object in place that is there, by name: they lie anywhere.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    names = [chunk.name for chunk in chunks if chunk.in_place and chunk.references]
    found: dict[str, int] = {}
    for begin in range(0, len(names), STATS_PARALLEL):
        some = names[begin : begin + STATS_PARALLEL]
        stats = (_length(storage, name) for name in some)
        lengths = await asyncio.gather(*stats)
        found |= {n: length for n, length in zip(some, lengths, strict=True) if length is not None}
    return found


async def _length(storage: AsyncChunkStorage, name: str) -> int | None:
    try:
        return (await storage.stat(name)).length
    except ChunkNotFoundError:
        return None


def _lacking(
    replica: Replica, extent: Extent, gone: _Gone, kept_bytes: LogBytes
) -> Iterator[tuple[int, int, bool]]:
    """The parts of an extent that are not there, and whether frames hold them."""
    state = replica.rows.state(extent.segment_id)
    if state is None or state.deleted:
        return
    flushed = replica.flushed_length(extent.segment_id)
    to_segment = extent.start - extent.chunk_offset
    for begin, stop in gone.ranges:
        start = max(begin + to_segment, extent.start, state.start_offset)
        end = min(stop + to_segment, extent.end, flushed)
        if start >= end:
            continue
        if gone.chunk.in_place:
            yield start, end, False  # never replaced: it belongs to others
        else:
            yield from kept_bytes.split(extent.segment_id, start, end)


def chunks_of(tables: Tables) -> Iterator[Chunk]:
    """Yield every chunk that has a row, those that wait to be deleted too."""
    low = chunk_key(0)
    while found := tables.scan(METADATA_TABLE, low, _BEHIND_CHUNKS, limit=ROWS_PER_SLICE):
        for key, entry in found:
            yield decode_chunk(int.from_bytes(key[1:]), entry.value)
        low = found[-1][0] + b"\0"


def _extents(tables: Tables) -> Iterator[Extent]:
    at = (0, 0)
    while page := scan_extents(tables, *at, ROWS_PER_SLICE):
        yield from page
        at = (page[-1].segment_id, page[-1].end)
