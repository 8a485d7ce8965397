"""One slot of the marker of a file log: who may acknowledge.

Layout, little-endian, 512 bytes, so that a disk writes it whole::

    magic: bytes[4] = b"SLTM"
    kind: u8 = 1
    version: u8 = 1
    reserved: u16 = 0
    epoch: u64            above 0
    nonce: bytes[16]      of the claim: tells two claims apart whatever their epochs
    padding: bytes[476]   zeros
    crc: u32              CRC32C of everything before
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.checksums import crc32c
from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError, FormatError

MAGIC = b"SLTM"
KIND = 1
VERSION = 1
SLOT_BYTES = 512
NONCE_BYTES = 16

_FIELDS = struct.Struct("<4sBBHQ16s476x")
_TRAILER = struct.Struct("<I")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerSlot:
    """One claim as the marker keeps it.

    Attributes:
        epoch: the claimed epoch, above 0.
        nonce: 16 bytes that no other claim has.
    """

    epoch: int
    nonce: bytes


def encode_marker_slot(slot: MarkerSlot) -> bytes:
    """Return the 512 bytes of a slot."""
    fields = _FIELDS.pack(MAGIC, KIND, VERSION, 0, slot.epoch, slot.nonce)
    return fields + _TRAILER.pack(crc32c(fields))


def decode_marker_slot(data: Buffer) -> MarkerSlot | None:
    """Decode a slot; ``None`` when the bytes are no whole valid slot: empty, torn or damaged.

    Raises:
        FormatError: the bytes are a valid slot of a newer version.
        CorruptDataError: the sum is right and a field is impossible.
    """
    view = memoryview(data)
    if len(view) != SLOT_BYTES or bytes(view[:4]) != MAGIC:
        return None
    (crc,) = _TRAILER.unpack_from(view, _FIELDS.size)
    if crc32c(view[: _FIELDS.size]) != crc:
        return None
    _, kind, version, reserved, epoch, nonce = _FIELDS.unpack_from(view)
    if kind != KIND or version != VERSION:
        raise FormatError.of_version("marker slot", version, VERSION, kind=kind)
    if reserved or epoch == 0:
        raise CorruptDataError("impossible marker slot", where="marker", epoch=epoch)
    return MarkerSlot(epoch=epoch, nonce=nonce)
