"""Log files made by hand: headers and frames of any content, each with a right sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from siltstone.core.records.frame import KIND_BATCH, encode_frame
from siltstone.core.records.log_file_header import (
    FRAMES_OFFSET,
    LogFileHeader,
    encode_log_file_header,
)
from siltstone.testing.faults.file_layer import Call, FileLayer
from siltstone.tier1.file.folder import LogFolder
from siltstone.tier1.file.names import FileKey
from tests.support.file_log.log_world import LINEAGE

CONTAINER = 3
NONCE = bytes([7]) * 16
NO_CRC = 0
SPARE_BYTES = 64
"""Zeros after the last frame of a file."""


class Frames:
    """Frames that continue each other; ``crcs[n]`` is the crc of frame ``n``."""

    def __init__(self) -> None:
        self.crcs: dict[int, int] = {-1: NO_CRC}

    def make(
        self,
        epoch: int,
        index: int,
        body: bytes = b"body",
        *,
        kind: int = KIND_BATCH,
        lineage: bytes = LINEAGE,
        previous_crc: int | None = None,
    ) -> bytes:
        """The bytes of one frame, which counts as frame ``index`` from now on."""
        previous = self.crcs[index - 1] if previous_crc is None else previous_crc
        frame = encode_frame(
            [body],
            kind=kind,
            lineage=lineage,
            epoch=epoch,
            index=index,
            previous_crc=previous,
            count=1,
        )
        self.crcs[index] = frame.crc
        return b"".join(frame.buffers)


def first_header(epoch: int) -> LogFileHeader:
    """File 0 of an epoch that continues nothing."""
    return LogFileHeader(
        lineage=LINEAGE,
        nonce=NONCE,
        container=CONTAINER,
        number=0,
        epoch=epoch,
        predecessor_epoch=0,
        predecessor_end=0,
        predecessor_crc=NO_CRC,
        copy_length=0,
        first_index=0,
        previous_crc=NO_CRC,
    )


def header_after(epoch: int, older: int, end: int, crc: int, copy: bytes = b"") -> LogFileHeader:
    """File 0 of an epoch that continues epoch ``older``, whose last frame is ``end - 1``."""
    return replace(
        first_header(epoch),
        predecessor_epoch=older,
        predecessor_end=end,
        predecessor_crc=crc,
        copy_length=len(copy),
        first_index=end,
        previous_crc=crc,
    )


def next_header(header: LogFileHeader, first_index: int, crc: int) -> LogFileHeader:
    """The header of the file that follows in the same epoch."""
    return replace(
        header,
        number=header.number + 1,
        copy_length=0,
        first_index=first_index,
        previous_crc=crc,
    )


class Log:
    """A container's folder, and what a test puts into it."""

    def __init__(self, path: Path) -> None:
        self.layer = FileLayer()
        self.folder = LogFolder(self.layer, str(path), CONTAINER)
        self.path = Path(self.folder.path)
        self.path.mkdir()

    def file(self, epoch: int, number: int) -> Path:
        return self.path / FileKey(epoch, number).name

    def put(self, header: LogFileHeader, *frames: bytes, at: tuple[int, int] | None = None) -> Path:
        """Write a file; ``at``: under the name of another one."""
        path = self.file(*(at or (header.epoch, header.number)))
        head = encode_log_file_header(header).ljust(FRAMES_OFFSET, b"\0")
        path.write_bytes(head + b"".join(frames) + bytes(SPARE_BYTES))
        return path

    def break_header(self, path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(bytes(FRAMES_OFFSET) + data[FRAMES_OFFSET:])

    def before_listing(self, number: int, action: Callable[[], None]) -> None:
        """Do something before the ``number``-th listing of the folder, 1 being the next."""
        seen = 0

        def before(call: Call) -> None:
            nonlocal seen
            if call.kind == "scandir":
                seen += 1
                if seen == number:
                    action()

        self.layer.before = before
