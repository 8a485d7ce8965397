"""Telling where a segment's bytes lie, and whether a chunk is what its rows say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkNotFoundError, CorruptDataError, LostDataError
from siltstone.core.records.chunk import Chunk
from siltstone.core.records.extent import Extent
from siltstone.core.storage.block_reads import BlockRange, chunk_parts, read_blocks
from siltstone.core.storage.block_sums import block_count, combined
from siltstone.core.storage.cached import uncached
from siltstone.segments.context import Context
from siltstone.segments.invariants import check_chunk
from siltstone.segments.read import PART_BYTES, sums_between


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkExtent:
    """A run of a segment's bytes with the chunk that it lies in.

    Attributes:
        extent: the run.
        chunk: the chunk, which may hold more.
        sums: CRC32C of each block of the chunk; none of one in place that has none.
    """

    extent: Extent
    chunk: Chunk
    sums: tuple[int, ...]

    @property
    def crc(self) -> int | None:
        """CRC32C of all committed bytes of the chunk, combined from ``sums``; ``None`` without."""
        return None if not self.sums else combined(self.sums, self.chunk.length)


class ChunkProblem(StrEnum):
    """What can be wrong with a chunk."""

    MISSING = "missing"
    SHORT = "short"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFinding:
    """One problem of one chunk.

    Attributes:
        chunk: its row.
        problem: what is wrong.
        message: the same for people, with all facts.
    """

    chunk: Chunk
    problem: ChunkProblem
    message: str


def list_chunks(context: Context, segment_id: int, start: int, limit: int) -> list[ChunkExtent]:
    """See ``ChunkedSegmentStorage.chunks``."""
    layout = context.layouts.layout(segment_id)
    found = []
    for extent in context.layouts.extents(segment_id, start, layout.storage_length, limit):
        chunk = context.chunk(extent.chunk_id)
        sums = sums_between(context.layouts, chunk, 0, block_count(chunk.length))
        found.append(ChunkExtent(extent=extent, chunk=chunk, sums=sums))
    return found


async def run_verify(context: Context, chunk: Chunk, *, deep: bool) -> ChunkFinding | None:
    """See ``ChunkedSegmentStorage.verify_chunk``."""
    try:
        sums = sums_between(context.layouts, chunk, 0, block_count(chunk.length))
        check_chunk(chunk, await context.storage.stat(chunk.name))
        if deep and sums:
            await _read_all(context, chunk, sums)
    except ChunkNotFoundError as error:
        return ChunkFinding(chunk=chunk, problem=ChunkProblem.MISSING, message=str(error))
    except LostDataError as error:
        return ChunkFinding(chunk=chunk, problem=ChunkProblem.SHORT, message=str(error))
    except CorruptDataError as error:
        return ChunkFinding(chunk=chunk, problem=ChunkProblem.DAMAGED, message=str(error))
    return None


async def _read_all(context: Context, chunk: Chunk, sums: tuple[int, ...]) -> None:
    buffer = memoryview(bytearray(min(chunk.length, PART_BYTES)))
    for part in chunk_parts(chunk.name, chunk.length, sums, PART_BYTES):

        def call(storage: ChunkStorage, part: BlockRange = part) -> None:
            read_blocks(uncached(storage), part, buffer[: part.length])

        await context.storage.run("read_into", chunk.name, call, moved=part.length)
