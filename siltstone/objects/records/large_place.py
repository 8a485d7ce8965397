"""Where a large value lies: a segment of its own. A part of its head, and of its record's header.

Layout, little-endian::

    number: u64           of the segment
    piece_bytes: u32      bytes of each piece of the value; the last one may have fewer
    sums_crc: u32         CRC32C of the sums

The segment has the value, and then its sums: the CRC32C of each piece, a u32.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError

LARGE: Final = 1
"""The flag of heads and records that have one."""

SUM_BYTES: Final = 4
_PLACE: Final = struct.Struct("<QII")

PLACE_BYTES: Final = _PLACE.size


class LargePlace(NamedTuple):
    """Where a large value lies.

    Attributes:
        number: of the segment.
        piece_bytes: bytes of each piece that has a sum, at least 1.
        sums_crc: CRC32C of all the sums.
    """

    number: int
    piece_bytes: int
    sums_crc: int

    def sums_bytes(self, size: int) -> int:
        """Bytes of the sums of a value of ``size`` bytes, after which its segment ends."""
        return SUM_BYTES * -(-size // self.piece_bytes)


def encode_place(place: LargePlace) -> bytes:
    """Encode it."""
    return _PLACE.pack(*place)


def decode_place(data: Buffer, offset: int, *, where: str) -> LargePlace:
    """Decode what begins at ``offset``; what follows it is ignored.

    Raises:
        CorruptDataError: cut, or one that cannot be.
    """
    if offset + PLACE_BYTES > len(memoryview(data)):
        raise CorruptDataError("place of a large value is cut", where=where)
    place = LargePlace(*_PLACE.unpack_from(data, offset))
    if not place.piece_bytes:
        raise CorruptDataError("large value has pieces without bytes", where=where)
    return place
