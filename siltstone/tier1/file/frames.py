"""Frames in one open file: reading them in order, and judging what stands after the last."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

from siltstone.core.constants import FRAME_BYTES_MAX, KIB
from siltstone.core.posix import FileCalls, read_fully
from siltstone.core.records.frame import (
    KIND_BATCH,
    KIND_END,
    MAGIC,
    VERSION,
    Frame,
    decode_frame,
)
from siltstone.tier1.file.errors import NO_DIRECT
from siltstone.tier1.file.folder import LogFolder, read_at
from siltstone.tier1.file.names import FileKey

_WINDOW_BYTES = 256 * KIB
_PIECE_BYTES = 1024 * KIB
_ZEROS = bytes(_PIECE_BYTES)
_BLOCK_BYTES = 4096
"""Alignment of O_DIRECT: a multiple of the sectors of any disk."""


def scan_frames(calls: FileCalls, fd: int, offset: int) -> Iterator[tuple[Frame, int]]:
    """Yield the frames from ``offset`` on, each with the offset after it, while they are whole."""
    want = _WINDOW_BYTES
    while True:
        window = read_at(calls, fd, offset, want)
        inside = 0
        while (frame := decode_frame(window, inside)) is not None:
            inside += frame.size
            yield frame, offset + inside
        offset += inside
        if not inside:
            if want == FRAME_BYTES_MAX or len(window) < want or window[:4] != MAGIC:
                return
            want = FRAME_BYTES_MAX  # It begins like a frame that is larger than the window.
        elif bytes(window[inside : inside + 4]) not in (MAGIC, MAGIC[: len(window) - inside]):
            return
        else:
            want = _WINDOW_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTail:
    """What stands after the last good frame of a file.

    Attributes:
        length: bytes up to the last one that is not zero.
        frame_behind: offset of a valid frame of the same owner further on; ``None`` without one.
    """

    length: int
    frame_behind: int | None


def look_behind(
    calls: FileCalls, fd: int, offset: int, *, epoch: int, lineage: bytes | None, index: int
) -> FileTail:
    """Judge the bytes from ``offset`` on, where frame ``index`` of ``epoch`` should stand.

    A valid frame further on is searched by how it begins, since a damaged length hides where. It
    counts only with a higher index: a torn frame may carry a copy of an older frame in its body.
    ``lineage`` is ``None`` when it is not known any more.
    """
    starts = [
        MAGIC + bytes([kind, VERSION, 0, 0]) + (lineage or b"") for kind in (KIND_BATCH, KIND_END)
    ]
    length = 0
    position = offset
    while True:
        piece = read_at(calls, fd, position, _PIECE_BYTES)
        places: list[int] = []
        # Zeros are the usual case, the rest of a preallocated file, and comparing is fast.
        if piece != _ZEROS[: len(piece)]:
            length = position + len(piece.rstrip(b"\0")) - offset
            places = _places(piece, starts)
        for place in places:
            frame = decode_frame(read_at(calls, fd, position + place, FRAME_BYTES_MAX))
            if frame is not None and frame.epoch == epoch and frame.index > index:
                return FileTail(length=length, frame_behind=position + place)
        if len(piece) < _PIECE_BYTES:
            return FileTail(length=length, frame_behind=None)
        position += len(piece) - len(starts[0])  # A start may lie across the border.


def _places(piece: bytearray, starts: list[bytes]) -> list[int]:
    """Where any of ``starts`` is in ``piece``."""
    found = []
    for start in starts:
        place = piece.find(start)
        while place >= 0:
            found.append(place)
            place = piece.find(start, place + 1)
    return found


def read_past_cache(folder: LogFolder, key: FileKey, offset: int, length: int) -> bytes:
    """Bytes of a file as the disk has them, and not the page cache, where the file system lets us.

    After a failed sync the page cache shows bytes that a power cut takes away, and a later sync
    succeeds without having written them.
    """
    calls = folder.calls
    start = offset - offset % _BLOCK_BYTES
    size = -(-(offset + length - start) // _BLOCK_BYTES) * _BLOCK_BYTES
    try:
        # Never closed by hand: an error of the read keeps views on it alive.
        aligned = mmap.mmap(-1, size)
        with folder.reading(key.name, os.O_DIRECT) as fd:
            count = read_fully(calls, fd, memoryview(aligned), start)
        return aligned[offset - start : min(count, offset - start + length)]
    except OSError as error:
        if error.errno not in NO_DIRECT:
            raise
    with folder.reading(key.name) as fd:
        return bytes(read_at(calls, fd, offset, length))
