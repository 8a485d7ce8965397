"""Reading pieces of chunks, compared with their sums where a checkpoint says them."""

from __future__ import annotations

from dataclasses import replace

from siltstone.core.checksums import crc32c
from siltstone.core.constants import BLOCK_BYTES
from siltstone.core.errors import ChunkNotFoundError, ChunkOffsetError, CorruptDataError
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.migration.salvage.pieces import ChunkPiece
from siltstone.migration.salvage.report import MissingBytes

READ_BLOCKS = 16
"""Blocks of one call: 4 MiB."""


async def whole_parts(
    piece: ChunkPiece, storage: AsyncChunkStorage, length: int | None
) -> tuple[list[ChunkPiece], list[MissingBytes]]:
    """Read a proven piece; return the parts that match their sums, and those that do not.

    Args:
        piece: with its sums.
        storage: long-term storage.
        length: of the chunk, as a listing shows it; ``None`` when it is not there.

    Raises:
        ChunkError: long-term storage did not answer.
    """
    if length is None:
        return [], [_missing(piece, piece.offset, piece.end, f"{piece.chunk} is missing")]
    whole: list[ChunkPiece] = []
    missing: list[MissingBytes] = []
    position = piece.offset
    while position < piece.end:
        in_chunk = piece.chunk_offset + position - piece.offset
        block = in_chunk // BLOCK_BYTES
        stop = min(piece.end, position + (block + READ_BLOCKS) * BLOCK_BYTES - in_chunk)
        part = piece.between(position, stop)
        if await _matches(part, storage):
            _extend(whole, part)
        else:
            for one in _blocks(part):
                if await _matches(one, storage):
                    _extend(whole, one)
                else:
                    reason = f"{piece.chunk} is damaged or too short"
                    missing.append(_missing(piece, one.offset, one.end, reason))
        position = stop
    return whole, missing


async def read_piece(
    piece: ChunkPiece, storage: AsyncChunkStorage, offset: int, length: int
) -> bytes:
    """Return the bytes ``[offset, offset + length)`` of the segment that ``piece`` holds.

    Raises:
        CorruptDataError: they are not what they were at the first look.
        ChunkError: long-term storage did not answer.
    """
    part = piece.between(offset, offset + length)
    data = await _read_blocks(part, storage)
    if data is None:
        raise CorruptDataError(
            "a chunk changed during the salvage", where=piece.chunk, offset=part.chunk_offset
        )
    skipped = part.chunk_offset % BLOCK_BYTES if part.proven else 0
    return bytes(data[skipped : skipped + part.length])


async def _matches(part: ChunkPiece, storage: AsyncChunkStorage) -> bool:
    return await _read_blocks(part, storage) is not None


async def _read_blocks(part: ChunkPiece, storage: AsyncChunkStorage) -> bytearray | None:
    """The whole blocks of a proven part, or the bytes of another; ``None`` if they do not match."""
    first = part.chunk_offset // BLOCK_BYTES
    begin, end = part.chunk_offset, part.chunk_offset + part.length
    if part.proven:
        begin = first * BLOCK_BYTES
        end = min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, part.chunk_length)
    buffer = bytearray(end - begin)
    try:
        count = await storage.read_into(part.chunk, begin, buffer)
    except (ChunkNotFoundError, ChunkOffsetError, CorruptDataError):
        return None
    if count != len(buffer):
        return None
    view = memoryview(buffer)
    for index, start in enumerate(range(0, len(buffer) if part.proven else 0, BLOCK_BYTES)):
        if crc32c(view[start : start + BLOCK_BYTES]) != part.sums[first + index]:
            return None
    return buffer


def _blocks(part: ChunkPiece) -> list[ChunkPiece]:
    """The part in pieces that each lie in one block."""
    found = []
    position = part.offset
    while position < part.end:
        in_chunk = part.chunk_offset + position - part.offset
        stop = min(part.end, position + BLOCK_BYTES - in_chunk % BLOCK_BYTES)
        found.append(part.between(position, stop))
        position = stop
    return found


def _extend(whole: list[ChunkPiece], part: ChunkPiece) -> None:
    """Add a part, joined with the one before it where they follow one another."""
    if whole and whole[-1].end == part.offset:
        whole[-1] = replace(whole[-1], length=whole[-1].length + part.length)
    else:
        whole.append(part)


def _missing(piece: ChunkPiece, start: int, end: int, reason: str) -> MissingBytes:
    return MissingBytes(offset=start, length=end - start, reason=reason)
