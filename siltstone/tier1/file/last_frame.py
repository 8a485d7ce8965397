"""A bad frame at the end of a log: torn by the end of its owner, or damaged later. Pure functions.

A frame is written into zeros, and a disk keeps or loses whole sectors. So of a frame that was torn
a sector holds nothing but zeros, or its end is missing. One whose sectors are all there, to its
last byte, was on the disk, and most probably acknowledged: something changed it since.

What cannot be told apart: a frame of which damage left zeros in a whole sector or in the last
byte, or of whose body a whole sector was zeros from the beginning, looks like one that was torn.
"""

from __future__ import annotations

from typing import Final

from siltstone.core.checksums import crc32c
from siltstone.core.constants import FRAME_BYTES_MAX
from siltstone.core.records.frame import HEADER_BYTES, OVERHEAD_BYTES, FrameHeader, decode_header

SECTOR_BYTES: Final = 512
"""The smallest piece of a file that a disk writes or loses as a whole."""


def is_damaged(data: bytes, offset: int, expected: FrameHeader) -> bool:
    """Whether a bad frame is there as a whole, so that it was not torn.

    Args:
        data: what stands from the frame's beginning on, up to the last byte that is not zero; no
            valid frame is after it.
        offset: where in the file that is.
        expected: the header that belongs there; its kind, count and length are not looked at.
    """
    # One that ends in its header was cut; and the end of an owner holds nothing.
    if len(data) <= OVERHEAD_BYTES or not _is_written(data[:HEADER_BYTES], offset):
        return False
    header = decode_header(data)
    if not header.is_alike(expected) or header.size > FRAME_BYTES_MAX:
        return True
    if not _is_written(data, offset):
        return False
    # After a frame nothing is written before it is acknowledged.
    return header.size <= len(data) or _has_other_length(data)


def _is_written(data: bytes, offset: int) -> bool:
    """Whether no sector of these bytes is missing."""
    first = SECTOR_BYTES - offset % SECTOR_BYTES
    starts = [0, *range(first, len(data), SECTOR_BYTES)]
    ends = [*starts[1:], len(data)]
    return all(data[start:end].strip(b"\0") for start, end in zip(starts, ends, strict=True))


def _has_other_length(data: bytes) -> bool:
    """Whether it is a whole frame but for the length in its header, which says too much."""
    length = len(data) - OVERHEAD_BYTES
    head = data[: HEADER_BYTES - 4] + length.to_bytes(4, "little")
    crc = crc32c(data[HEADER_BYTES : HEADER_BYTES + length], crc32c(head))
    return data[-4:] == crc.to_bytes(4, "little")
