"""The block-sums row: CRC32C of every block of 256 KiB in one group of 64 MiB of a chunk.

Value, under the key of the chunk's id and the group; a patch is a splice of its end::

    kind: u8 = 6
    version: u8 = 1
    sums: u32[0..256]     CRC32C of each block, little-endian
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.constants import GROUP_BLOCKS
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.keys import RowKind
from siltstone.core.records.wire import HEAD_BYTES, Reader, head

VERSION = 1
_SUM_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSumsPatch:
    """Sums from one block of a group on; what the row held from there on is replaced.

    Attributes:
        chunk_id: the chunk.
        group: index of the group: block index divided by ``GROUP_BLOCKS``.
        first_block: index within the group of ``sums[0]``; the row holds exactly this many sums
            already, or more.
        sums: CRC32C of each block; the last may cover a part of its block, up to the chunk's
            committed length.
    """

    chunk_id: int
    group: int
    first_block: int
    sums: tuple[int, ...]


def encode_block_sums(sums: tuple[int, ...]) -> bytes:
    """Encode the whole value of a row."""
    return head(RowKind.BLOCK_SUMS, VERSION) + encode_sums(sums)


def encode_sums(sums: tuple[int, ...]) -> bytes:
    """Encode sums without a head, to be put after others."""
    return struct.pack(f"<{len(sums)}I", *sums)


def sums_position(first_block: int) -> int:
    """Return the position in the value of the sum of this block of the group."""
    return HEAD_BYTES + _SUM_BYTES * first_block


def decode_block_sums(chunk_id: int, group: int, value: bytes) -> tuple[int, ...]:
    """Decode the value of the row of this chunk and group.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    where = f"block sums {group} of chunk {chunk_id}"
    raw = Reader(value, kind=RowKind.BLOCK_SUMS, version=VERSION, where=where).rest()
    count, odd = divmod(len(raw), _SUM_BYTES)
    if odd or count > GROUP_BLOCKS:
        raise CorruptDataError("block sums of an impossible length", where=where, length=len(raw))
    return struct.unpack(f"<{count}I", raw)
