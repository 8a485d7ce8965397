"""The frame: one atomic, checksummed batch in a tier-1 log, the same bytes in every log.

Layout, little-endian::

    magic: bytes[4] = b"SLTF"
    kind: u8 = 1 (batch) | 2 (end: the owner closed cleanly; no body)
    version: u8 = 1
    reserved: u16 = 0
    lineage: bytes[16]
    epoch: u64
    index: u64            dense, from 0 on over the life of a log
    previous_crc: u32     the crc of the frame before, 0 for the very first
    count: u32            pieces in the body
    length: u32           bytes of the body
    body: bytes[length]
    crc: u32              CRC32C of everything before
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from siltstone.core.checksums import crc32c, crc32c_of
from siltstone.core.constants import FRAME_BYTES_MAX, Buffer
from siltstone.core.errors import CorruptDataError, FormatError

MAGIC = b"SLTF"
KIND_BATCH = 1
KIND_END = 2
VERSION = 1

_HEADER = struct.Struct("<4sBBH16sQQIII")
_TRAILER = struct.Struct("<I")
HEADER_BYTES = _HEADER.size
TRAILER_BYTES = _TRAILER.size
OVERHEAD_BYTES = HEADER_BYTES + TRAILER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameHeader:
    """The fields before a body, whether the frame is whole or not.

    Attributes:
        magic, kind, version, reserved, lineage, epoch, index, previous_crc, count: as in the bytes.
        length: bytes of the body.
    """

    magic: bytes = MAGIC
    kind: int = KIND_BATCH
    version: int = VERSION
    reserved: int = 0
    lineage: bytes
    epoch: int
    index: int
    previous_crc: int
    count: int = 0
    length: int = 0

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return OVERHEAD_BYTES + self.length

    def is_alike(self, other: FrameHeader) -> bool:
        """Whether both are of the same place of the same log, by the same owner."""
        return self._place == other._place

    @property
    def _place(self) -> tuple[bytes, int, int, bytes, int, int, int]:
        return (
            self.magic,
            self.version,
            self.reserved,
            self.lineage,
            self.epoch,
            self.index,
            self.previous_crc,
        )


def decode_header(data: Buffer) -> FrameHeader:
    """Take a header for what it says.

    Raises:
        CorruptDataError: there are fewer than ``HEADER_BYTES`` of it.
    """
    if len(memoryview(data)) < HEADER_BYTES:
        raise CorruptDataError("frame header is cut", where=f"{HEADER_BYTES} bytes of a frame")
    magic, kind, version, reserved, lineage, epoch, index, previous_crc, count, length = (
        _HEADER.unpack_from(data)
    )
    return FrameHeader(
        magic=magic,
        kind=kind,
        version=version,
        reserved=reserved,
        lineage=lineage,
        epoch=epoch,
        index=index,
        previous_crc=previous_crc,
        count=count,
        length=length,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One decoded frame.

    Attributes:
        kind: ``KIND_BATCH`` or ``KIND_END``.
        lineage: 16 bytes.
        epoch: the epoch of the owner that wrote it.
        index: dense position in the log.
        previous_crc: crc of the frame before it.
        count: pieces in ``body``.
        body: the pieces, undecoded.
        crc: CRC32C of the frame's bytes before its trailer.
    """

    kind: int
    lineage: bytes
    epoch: int
    index: int
    previous_crc: int
    count: int
    body: bytes
    crc: int

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return OVERHEAD_BYTES + len(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFrame:
    """A frame ready to be written: ``buffers`` in order, ``size`` bytes in all, and its ``crc``."""

    buffers: list[Buffer]
    size: int
    crc: int


def encode_frame(
    buffers: Sequence[Buffer],
    *,
    kind: int,
    lineage: bytes,
    epoch: int,
    index: int,
    previous_crc: int,
    count: int,
) -> EncodedFrame:
    """Wrap a body into a frame without copying it.

    Raises:
        ValueError: the frame would exceed ``FRAME_BYTES_MAX``.
    """
    length = sum(len(buffer) for buffer in buffers)
    size = OVERHEAD_BYTES + length
    if size > FRAME_BYTES_MAX:
        raise ValueError(f"frame of {size} bytes exceeds {FRAME_BYTES_MAX}")
    header = _HEADER.pack(
        MAGIC, kind, VERSION, 0, lineage, epoch, index, previous_crc, count, length
    )
    crc = crc32c_of(buffers, crc32c(header))
    return EncodedFrame(buffers=[header, *buffers, _TRAILER.pack(crc)], size=size, crc=crc)


def decode_frame(data: Buffer, offset: int = 0) -> Frame | None:
    """Decode the frame that starts at ``offset``; ``None`` where no whole valid frame stands.

    ``None`` covers a torn frame, zeros and damage alike: the reader of a log knows what follows and
    decides.

    Raises:
        FormatError: the bytes are a valid frame of a newer version.
        CorruptDataError: the sum is right and a field is impossible: a defect, not damage.
    """
    view = memoryview(data)[offset:]
    if len(view) < OVERHEAD_BYTES:
        return None
    magic, kind, version, reserved, lineage, epoch, index, previous_crc, count, length = (
        _HEADER.unpack_from(view)
    )
    if magic != MAGIC or length > FRAME_BYTES_MAX - OVERHEAD_BYTES:
        return None
    end = HEADER_BYTES + length
    if len(view) < end + TRAILER_BYTES:
        return None
    (crc,) = _TRAILER.unpack_from(view, end)
    if crc32c(view[:end]) != crc:
        return None
    if version != VERSION or kind not in (KIND_BATCH, KIND_END):
        raise FormatError.of_version("frame", version, VERSION, kind=kind, index=index)
    if reserved:
        raise CorruptDataError("impossible frame", where=f"frame {index}", reserved=reserved)
    return Frame(
        kind=kind,
        lineage=lineage,
        epoch=epoch,
        index=index,
        previous_crc=previous_crc,
        count=count,
        body=bytes(view[HEADER_BYTES:end]),
        crc=crc,
    )
