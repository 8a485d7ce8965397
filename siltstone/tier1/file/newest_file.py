"""The newest file of a log, read to its end."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.core.constants import FRAME_BYTES_MAX
from siltstone.core.errors import CorruptDataError
from siltstone.core.records.frame import KIND_END, Frame, FrameHeader
from siltstone.core.records.log_file_header import LogFileHeader
from siltstone.tier1.file.folder import LogFolder, read_at
from siltstone.tier1.file.frames import look_behind, scan_frames
from siltstone.tier1.file.last_frame import is_damaged
from siltstone.tier1.file.names import FileKey

_QUICK_LOOK_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The newest file with a valid header, as far as it was read.

    Attributes:
        header: of the file.
        index: one above the newest frame.
        crc: crc of the newest frame.
        offset: where the next frame would stand, in bytes.
        last: the file's own newest frame; ``None`` while it has none.
    """

    header: LogFileHeader
    index: int
    crc: int
    offset: int
    last: Frame | None

    @property
    def is_last(self) -> bool:
        """Whether its owner closed the log, so that no frame of the epoch stands after it."""
        return self.last is not None and self.last.kind == KIND_END

    @property
    def has_own_frames(self) -> bool:
        """Whether the epoch has a frame of its own, in this file or in one before it."""
        return self.index > self.header.predecessor_end


def read_end(
    folder: LogFolder, header: LogFileHeader, after: LogEnd | None = None
) -> tuple[LogEnd, int]:
    """Read the newest file to its end, from the start or from where ``after`` ended.

    Returns the new end, and the count of bytes after it that are no frame. A read from ``after``
    takes a block of zeros for the end; one from the start looks at the whole rest of the file.

    Raises:
        OSError: a call failed.
        CorruptDataError: a frame that does not continue the one before, or a bad one that was not
            torn.
    """
    end, dropped, damage = read_to_damage(folder, header, after)
    if damage is not None:
        raise damage
    return end, dropped


def read_to_damage(
    folder: LogFolder, header: LogFileHeader, after: LogEnd | None = None
) -> tuple[LogEnd, int, CorruptDataError | None]:
    """Read a file to its end, and return also why the next frame is damaged, if it is.

    Raises:
        OSError: a call failed.
    """
    end = after or LogEnd(
        header=header,
        index=header.first_index,
        crc=header.previous_crc,
        offset=header.frames_offset,
        last=None,
    )
    key = FileKey(header.epoch, header.number)
    with folder.reading(key.name) as fd:
        while True:
            before = end.index
            for frame, offset in scan_frames(folder.calls, fd, end.offset):
                try:
                    check_continues(folder, header, frame, end.index, end.crc)
                except CorruptDataError as error:
                    return end, 0, error
                end = LogEnd(
                    header=header,
                    index=frame.index + 1,
                    crc=frame.crc,
                    offset=offset,
                    last=frame,
                )
            if end.is_last:
                return end, 0, None
            if after and not any(read_at(folder.calls, fd, end.offset, _QUICK_LOOK_BYTES)):
                return end, 0, None
            length, message = _judged(folder, fd, end)
            if not message:
                return end, length, None
            # A live owner may have finished this frame and the next between the two looks.
            if (
                end.index == before
                and next(scan_frames(folder.calls, fd, end.offset), None) is None
            ):
                return end, length, corrupt(folder, key, message, index=end.index)


def _judged(folder: LogFolder, fd: int, end: LogEnd) -> tuple[int, str]:
    """How many bytes stand after the last frame of a file, and why they are damage, if they are."""
    header = end.header
    tail = look_behind(
        folder.calls,
        fd,
        end.offset,
        epoch=header.epoch,
        lineage=header.lineage,
        index=end.index,
    )
    if tail.frame_behind is not None:
        return tail.length, "a bad frame before a valid one"
    expected = FrameHeader(
        lineage=header.lineage, epoch=header.epoch, index=end.index, previous_crc=end.crc
    )
    # No frame is longer; whatever stands beyond this many bytes need not be read.
    data = read_at(folder.calls, fd, end.offset, min(tail.length, FRAME_BYTES_MAX + 1))
    if is_damaged(bytes(data), end.offset, expected):
        return tail.length, "the last frame is there as a whole, and does not match its sum"
    return tail.length, ""


def check_continues(
    folder: LogFolder, header: LogFileHeader, frame: Frame, index: int, previous_crc: int
) -> None:
    """Check that ``frame`` is the one that belongs here.

    Raises:
        CorruptDataError: it is another one.
    """
    found = (frame.index, frame.previous_crc, frame.epoch, frame.lineage)
    if found != (index, previous_crc, header.epoch, header.lineage):
        key = FileKey(header.epoch, header.number)
        raise corrupt(folder, key, "a frame that does not continue the log", index=index)


def corrupt(folder: LogFolder, key: FileKey, message: str, **facts: int) -> CorruptDataError:
    """What a file of the log is reported with."""
    return CorruptDataError(message, where=folder.file(key.name), **facts)
