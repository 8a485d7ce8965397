"""The position of a local index: which table log it holds, up to where.

Value, little-endian::

    kind: u8 = 0
    version: u8 = 1
    lineage: bytes[16]
    table_version: u64
    running_crc: u32
    log_index: u64
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.constants import LINEAGE_BYTES
from siltstone.core.errors import CorruptDataError, FormatError

KIND = 0
VERSION = 1

_LAYOUT = struct.Struct(f"<BB{LINEAGE_BYTES}sQIQ")


@dataclass(frozen=True, slots=True)
class Position:
    """A point of a table log.

    An index matches a table log if the lineages are equal, the table log reaches to ``version`` at
    least, and its running CRC32C at ``version`` is ``running_crc``.

    Attributes:
        lineage: 16 bytes.
        version: table version up to which every update is applied.
        running_crc: CRC32C of the table log up to there.
        log_index: frames of the tier-1 log below this index hold nothing that is not applied.
    """

    lineage: bytes
    version: int
    running_crc: int
    log_index: int


def encode_position(position: Position) -> bytes:
    """Encode a position."""
    return _LAYOUT.pack(
        KIND,
        VERSION,
        position.lineage,
        position.version,
        position.running_crc,
        position.log_index,
    )


def decode_position(value: bytes) -> Position:
    """Decode a position.

    Raises:
        FormatError: of another kind or version.
        CorruptDataError: damaged.
    """
    if len(value) < 2:
        raise CorruptDataError("position is cut", where="index position", length=len(value))
    if value[0] != KIND or value[1] != VERSION:
        raise FormatError.of_version("position", value[1], VERSION, kind=value[0])
    if len(value) != _LAYOUT.size:
        raise CorruptDataError(
            "position has a wrong length", where="index position", length=len(value)
        )
    return Position(*_LAYOUT.unpack(value)[2:])
