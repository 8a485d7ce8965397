"""Reading the frames of a chain, file by file, each checked against the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from siltstone.core.errors import CorruptDataError, LogTruncatedError
from siltstone.core.records.frame import Frame, decode_frame
from siltstone.core.records.log_file_header import FRAMES_OFFSET, LogFileHeader
from siltstone.tier1.file.chain import FileRange, LogView
from siltstone.tier1.file.errors import translated
from siltstone.tier1.file.folder import LogFolder, read_at
from siltstone.tier1.file.frames import scan_frames
from siltstone.tier1.file.names import FileKey
from siltstone.tier1.file.newest_file import check_continues


class Bookmark:
    """Where the last read stopped, so that whoever follows does not read a file from its start.

    Attributes:
        place: file, index of the next frame, crc of the frame before it, and where it stands in
            bytes; replaced as a whole, for several threads may read. ``None`` before a first read.
    """

    def __init__(self) -> None:
        self.place: tuple[FileKey, int, int, int] | None = None


def read_frames(
    folder: LogFolder,
    ranges: Sequence[FileRange],
    from_index: int,
    bookmark: Bookmark | None = None,
) -> Iterator[Frame]:
    """Yield the frames of ``ranges`` from ``from_index`` on.

    Raises:
        LogTruncatedError: a file was taken out of the log meanwhile.
        CorruptDataError: a frame is missing, damaged or not the one that belongs there.
        LogError: a call failed.
    """
    for part in ranges:
        if part.end_index <= from_index:
            continue
        with translated("read", folder.path):
            try:
                for frame in _file_frames(folder, part, from_index, bookmark):
                    if frame.index >= from_index:
                        yield frame
            except FileNotFoundError as error:
                raise LogTruncatedError(index=from_index, first=part.end_index) from error
            except CorruptDataError as error:
                # A file that was truncated from the log is written anew, also while it is read.
                if part.key in folder.log_files():
                    raise
                raise LogTruncatedError(index=from_index, first=part.end_index) from error


def _file_frames(
    folder: LogFolder, part: FileRange, from_index: int, bookmark: Bookmark | None
) -> Iterator[Frame]:
    header = part.header
    index, crc, offset = header.first_index, header.previous_crc, header.frames_offset
    place = None if bookmark is None else bookmark.place
    if place is not None and place[0] == part.key and index <= place[1] <= from_index:
        _, index, crc, offset = place
    last = None
    if part.copy is not None:
        # Of this one frame the copy is what surely reached the disk; its own file may lack it.
        last = read_copy(folder, part.copy)
    stop = part.end_index - (last is not None)
    with folder.reading(part.key.name) as fd:
        if index < stop:
            for frame, behind in scan_frames(folder.calls, fd, offset):
                check_continues(folder, header, frame, index, crc)
                index, crc, offset = index + 1, frame.crc, behind
                yield frame
                if bookmark is not None:
                    bookmark.place = (part.key, index, crc, offset)
                if index == stop:
                    break
    if index != stop:
        raise CorruptDataError(
            "a frame is missing or damaged", where=folder.file(part.key.name), index=index
        )
    if last is not None:
        check_continues(folder, header, last, index, crc)
        crc = last.crc
        yield last
    if crc != part.end_crc:
        raise CorruptDataError(
            "frames do not end as stated", where=folder.file(part.key.name), index=part.end_index
        )


def read_copy(folder: LogFolder, header: LogFileHeader) -> Frame | None:
    """The copy of the predecessor's last frame; ``None`` if it is damaged: the original may do."""
    key = FileKey(header.epoch, header.number)
    with folder.reading(key.name) as fd:
        frame = decode_frame(read_at(folder.calls, fd, FRAMES_OFFSET, header.copy_length))
    if frame is None or frame.crc != header.predecessor_crc:
        return None
    return frame


def last_frame(folder: LogFolder, view: LogView) -> Frame | None:
    """The newest frame that the view holds; ``None`` when it holds none."""
    if view.end_of is not None and view.end_of.last is not None:
        return view.end_of.last
    found = None
    if view.end > view.first:
        for frame in read_frames(folder, view.ranges, view.end - 1):
            found = frame
    return found
