"""The self check of a write: its bytes are read from storage and compared with their sums."""

from __future__ import annotations

from collections.abc import Sequence

from siltstone.core.block_reads import read_exactly
from siltstone.core.block_sums import extend_sums
from siltstone.core.cached_chunk_storage import uncached
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import (
    ChunkError,
    ChunkReadBackError,
    CorruptDataError,
)
from siltstone.core.operations.read import PART_BYTES
from siltstone.core.words import BLOCK_BYTES


def read_back(
    storage: ChunkStorage, name: str, offset: int, length: int, last: int, sums: Sequence[int]
) -> None:
    """Read what was just written and compare it. Blocking; holds at most 8 MiB.

    Args:
        storage: where it was written.
        name: the chunk.
        offset: the first byte that was written.
        length: how many were.
        last: the sum of the block that ``offset`` lies in, before the write.
        sums: of each block that the write touched, as ``extend_sums`` made them.

    Raises:
        ChunkReadBackError: they differ, or can not be read: what the service keeps is unknown.
    """
    position, end = offset, offset + length
    found: list[int] = []
    try:
        while position < end:
            stop = min(end, position // BLOCK_BYTES * BLOCK_BYTES + PART_BYTES)
            view = memoryview(bytearray(stop - position))
            read_exactly(uncached(storage), name, position, view)
            found += extend_sums([view], position, last if position == offset else 0)
            position = stop
    except (ChunkError, CorruptDataError) as error:
        raise ChunkReadBackError(
            f"written bytes can not be read back: {error}", chunk=name, operation="read_into"
        ) from error
    for index, (wanted, got) in enumerate(zip(sums, found, strict=True)):
        if wanted != got:
            raise ChunkReadBackError(
                "bytes read back are not those that were written",
                chunk=name,
                operation="read_into",
                block=offset // BLOCK_BYTES + index,
                expected=f"{wanted:08x}",
                found=f"{got:08x}",
            )
