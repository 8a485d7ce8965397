"""The header of one file of the file log: whose it is, and what its frames continue.

Layout, little-endian, 512 bytes, so that a disk writes it whole::

    magic: bytes[4] = b"SLTL"
    kind: u8 = 1
    version: u8 = 1
    reserved: u16 = 0
    lineage: bytes[16]
    nonce: bytes[16]          of the claim, as in the marker
    container: u32
    number: u32               of the file within its epoch, from 0 on
    epoch: u64                above 0
    predecessor_epoch: u64    the newest older epoch with a frame of its own; 0 for none
    predecessor_end: u64      one above the index of its last frame
    predecessor_crc: u32      crc of its last frame
    copy_length: u32          bytes of a copy of that frame after the header; 0 for none
    first_index: u64          index of the first frame of this file's own
    previous_crc: u32         crc of the frame that it continues
    padding: bytes[416]       zeros
    crc: u32                  CRC32C of everything before

The copy, if there is one, begins at byte 4096 of the file, and the file's own frames follow at
once. Only file 0 of an epoch has a copy; all files of an epoch repeat the statement on the
predecessor.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from siltstone.core.checksums import crc32c
from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError, FormatError

MAGIC = b"SLTL"
KIND = 1
VERSION = 1
HEADER_BYTES = 512
FRAMES_OFFSET = 4096
"""Where frames begin: never in the header's page, so that writing them cannot tear the header."""

_FIELDS = struct.Struct("<4sBBH16s16sIIQQQIIQI416x")
_TRAILER = struct.Struct("<I")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileHeader:
    """One header, decoded. The fields are those of the layout."""

    lineage: bytes
    nonce: bytes
    container: int
    number: int
    epoch: int
    predecessor_epoch: int
    predecessor_end: int
    predecessor_crc: int
    copy_length: int
    first_index: int
    previous_crc: int

    @property
    def frames_offset(self) -> int:
        """Where the file's own frames begin, in bytes."""
        return FRAMES_OFFSET + self.copy_length

    @property
    def statement(self) -> tuple[int, int, int]:
        """Epoch, end index and crc of the predecessor: equal in all files of an epoch."""
        return self.predecessor_epoch, self.predecessor_end, self.predecessor_crc


def encode_log_file_header(header: LogFileHeader) -> bytes:
    """Return the 512 bytes of a header."""
    fields = _FIELDS.pack(
        MAGIC,
        KIND,
        VERSION,
        0,
        header.lineage,
        header.nonce,
        header.container,
        header.number,
        header.epoch,
        header.predecessor_epoch,
        header.predecessor_end,
        header.predecessor_crc,
        header.copy_length,
        header.first_index,
        header.previous_crc,
    )
    return fields + _TRAILER.pack(crc32c(fields))


def decode_log_file_header(data: Buffer) -> LogFileHeader | None:
    """Decode a header; ``None`` when the bytes are no whole valid header: empty, torn or damaged.

    Raises:
        FormatError: the bytes are a valid header of a newer version.
        CorruptDataError: the sum is right and a field is impossible.
    """
    view = memoryview(data)
    if len(view) != HEADER_BYTES or bytes(view[:4]) != MAGIC:
        return None
    (crc,) = _TRAILER.unpack_from(view, _FIELDS.size)
    if crc32c(view[: _FIELDS.size]) != crc:
        return None
    _, kind, version, reserved, *fields = _FIELDS.unpack_from(view)
    if kind != KIND or version != VERSION:
        raise FormatError.of_version("log file", version, VERSION, kind=kind)
    names = LogFileHeader.__slots__
    header = LogFileHeader(**dict(zip(names, fields, strict=True)))
    if reserved or not _is_possible(header):
        raise CorruptDataError(
            "impossible log file header", where=f"epoch {header.epoch} file {header.number}"
        )
    return header


def _is_possible(header: LogFileHeader) -> bool:
    if header.predecessor_epoch >= header.epoch or header.first_index < header.predecessor_end:
        return False
    if (header.predecessor_epoch == 0) != (header.predecessor_end == 0):
        return False
    if header.number:
        return header.copy_length == 0
    return (header.first_index, header.previous_crc) == (
        header.predecessor_end,
        header.predecessor_crc,
    )
