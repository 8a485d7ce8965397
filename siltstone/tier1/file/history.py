"""Reading the frames of a chain, file by file, each checked against the one before."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from siltstone.core.constants import MIB
from siltstone.core.errors import CorruptDataError, LogTruncatedError
from siltstone.core.records.frame import Frame, decode_frame
from siltstone.core.records.log_file_header import FRAMES_OFFSET, LogFileHeader
from siltstone.tier1.file.chain import FileRange, LogView
from siltstone.tier1.file.errors import translated
from siltstone.tier1.file.folder import LogFolder, read_at
from siltstone.tier1.file.frames import scan_frames
from siltstone.tier1.file.names import FileKey
from siltstone.tier1.file.newest_file import check_continues

MARK_BYTES: Final = MIB
"""The distance of the places that are kept: a read begins at most this far before its frame."""


class FramePlace(NamedTuple):
    """Where a frame is in a file.

    Attributes:
        frame: its index.
        crc: of the frame before it.
        offset: where it begins, in bytes.
    """

    frame: int
    crc: int
    offset: int


class Bookmarks:
    """Where reads came by, so that the next one does not read a file from its start. Thread-safe.

    A follower of the log continues where the last read ended; a reader of an older frame begins at
    the last place before it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[FileKey, FramePlace] | None = None
        self._places: dict[FileKey, list[FramePlace]] = {}

    def note(self, key: FileKey, place: FramePlace) -> None:
        """Keep a place, if there is none near it."""
        self._last = key, place
        places = self._places.get(key)
        if places is None or place.offset - places[-1].offset >= MARK_BYTES:
            with self._lock:
                places = self._places.setdefault(key, [])
                if not places or place.offset > places[-1].offset:
                    places.append(place)

    def find(self, key: FileKey, index: int) -> FramePlace | None:
        """The last known place at or before frame ``index`` of a file."""
        with self._lock:
            places = self._places.get(key, [])
            position = bisect_right(places, index, key=lambda place: place.frame)
            found = places[position - 1] if position else None
        last = self._last
        if last is None or last[0] != key or last[1].frame > index:
            return found
        return last[1] if found is None or last[1].frame > found.frame else found

    def forget(self, kept: Sequence[FileKey]) -> None:
        """Forget files that were truncated."""
        with self._lock:
            for key in self._places.keys() - set(kept):
                del self._places[key]


def read_frames(
    folder: LogFolder,
    ranges: Sequence[FileRange],
    from_index: int,
    bookmarks: Bookmarks | None = None,
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
                for frame in _file_frames(folder, part, from_index, bookmarks):
                    if frame.index >= from_index:
                        yield frame
            except FileNotFoundError as error:
                raise LogTruncatedError(index=from_index, first=part.end_index) from error
            except CorruptDataError as error:
                # A file that was truncated from the log is written again, also while it is read.
                if part.key in folder.log_files():
                    raise
                raise LogTruncatedError(index=from_index, first=part.end_index) from error


def _file_frames(
    folder: LogFolder, part: FileRange, from_index: int, bookmarks: Bookmarks | None
) -> Iterator[Frame]:
    header = part.header
    index, crc, offset = header.first_index, header.previous_crc, header.frames_offset
    place = None if bookmarks is None else bookmarks.find(part.key, from_index)
    if place is not None and index <= place.frame:
        index, crc, offset = place
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
                if bookmarks is not None:
                    bookmarks.note(part.key, FramePlace(index, crc, offset))
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
