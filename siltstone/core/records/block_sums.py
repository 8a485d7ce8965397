"""The block-sums row: CRC32C of every block of 256 KiB in one group of 64 MiB of a chunk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSumsPatch:
    """Sums from one block of a group on; what the row held from there on is replaced.

    Attributes:
        chunk_id: the chunk.
        group: index of the group: block index divided by ``GROUP_BLOCKS``.
        first_block: index within the group of ``sums[0]``; the row holds exactly so many sums already, or more.
        sums: CRC32C of each block; the last may cover a part of its block, up to the chunk's committed length.
    """

    chunk_id: int
    group: int
    first_block: int
    sums: tuple[int, ...]
