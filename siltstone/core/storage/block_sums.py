"""Sums of a chunk's blocks: extended as it grows, combined for all of it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from siltstone.core.checksums import combine, crc32c
from siltstone.core.chunk_storage import Buffer
from siltstone.core.constants import BLOCK_BYTES, GROUP_BLOCKS
from siltstone.core.records.block_sums import BlockSumsPatch


def block_count(length: int) -> int:
    """How many blocks a chunk of ``length`` bytes has."""
    return -(-length // BLOCK_BYTES)


def extend_sums(buffers: Sequence[Buffer], offset: int, last: int) -> list[int]:
    """Sums of the blocks that ``buffers`` touch when they are put at ``offset`` of a chunk.

    Args:
        buffers: the new bytes.
        offset: the chunk's length before them.
        last: the sum of the block that ``offset`` lies in, so far; ignored at the border of a
            block.

    Returns:
        The sum of each block from ``offset // BLOCK_BYTES`` on, each up to the new end.
    """
    sums: list[int] = []
    room = BLOCK_BYTES - offset % BLOCK_BYTES
    value = last if offset % BLOCK_BYTES else 0
    for buffer in buffers:
        view = memoryview(buffer)
        position = 0
        while len(view) - position >= room:
            sums.append(crc32c(view[position : position + room], value))
            position += room
            room, value = BLOCK_BYTES, 0
        if position < len(view):
            value = crc32c(view[position:], value)
            room -= len(view) - position
    if room < BLOCK_BYTES:
        sums.append(value)
    return sums


def summed(pieces: Iterable[Buffer], sums: list[int]) -> Iterator[Buffer]:
    """The pieces of a new chunk; the sums of its blocks are added to ``sums`` as they pass."""
    offset = 0
    for piece in pieces:
        inside = offset % BLOCK_BYTES
        sums += extend_sums([piece], offset, sums.pop() if inside else 0)
        offset += len(piece)
        yield piece


def patches(chunk_id: int, first_block: int, sums: Sequence[int]) -> tuple[BlockSumsPatch, ...]:
    """Cut the sums of the blocks from ``first_block`` on into one patch for each group."""
    found = []
    block, end = first_block, first_block + len(sums)
    while block < end:
        stop = min(end, (block // GROUP_BLOCKS + 1) * GROUP_BLOCKS)
        found.append(
            BlockSumsPatch(
                chunk_id=chunk_id,
                group=block // GROUP_BLOCKS,
                first_block=block % GROUP_BLOCKS,
                sums=tuple(sums[block - first_block : stop - first_block]),
            )
        )
        block = stop
    return tuple(found)


def combined(sums: Sequence[int], length: int) -> int:
    """CRC32C of a whole chunk of ``length`` bytes from the sums of its blocks."""
    if not sums:
        return 0
    low, second, third, high = _block_shift()
    total = sums[0]
    for value in sums[1:-1]:
        shifted = low[total & 255] ^ second[total >> 8 & 255]
        total = shifted ^ third[total >> 16 & 255] ^ high[total >> 24] ^ value
    if len(sums) > 1:
        total = combine(total, sums[-1], length - (len(sums) - 1) * BLOCK_BYTES)
    return total


@cache
def _block_shift() -> tuple[tuple[int, ...], ...]:
    """What each byte of a sum becomes after one block of zeros: much quicker than ``combine``."""
    return tuple(
        tuple(combine(value << shift, 0, BLOCK_BYTES) for value in range(256))
        for shift in (0, 8, 16, 24)
    )
