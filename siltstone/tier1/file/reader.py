"""Reading the log without a claim: nothing is shown that may vanish."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

from siltstone.core.errors import ClosedError, CorruptDataError, LogLostError, LogTruncatedError
from siltstone.core.records.frame import Frame, decode_frame
from siltstone.core.records.log_file_header import (
    FRAMES_OFFSET,
    HEADER_BYTES,
    decode_log_file_header,
)
from siltstone.tier1.file.chain import LogView, build_view
from siltstone.tier1.file.errors import translated
from siltstone.tier1.file.folder import LogFolder
from siltstone.tier1.file.frames import read_past_cache
from siltstone.tier1.file.history import Bookmarks, read_frames
from siltstone.tier1.file.in_use import InUseLock
from siltstone.tier1.file.marker import told_epoch
from siltstone.tier1.file.names import FileKey
from siltstone.tier1.file.newest_file import LogEnd, read_end

_TRIES = 5
"""Looks before a file that is missing is believed: an owner may truncate meanwhile."""


class FileLogReader:
    """A ``LogReader`` on a container's folder. Thread-safe; it writes nothing.

    Args:
        folder: of the container.
        fenced: the epoch that fenced all owners that might acknowledge; 0 if there is none. It is
            no claim, so the last frame counts: it may have been acknowledged.
        to_damage: see ``DamagedLog.open_to_damage``.
    """

    def __init__(self, folder: LogFolder, *, fenced: int = 0, to_damage: bool = False) -> None:
        self._folder = folder
        self._fenced = fenced
        self._to_damage = to_damage
        self._lock = threading.Lock()
        self._view = LogView()
        self._end = 0
        self._surely: LogEnd | None = None
        self._bookmarks = Bookmarks()
        self._is_closed = False

    def epoch(self) -> int:
        """See ``LogReader.epoch``. A claim counts as soon as its file says so.

        The marker does so earlier; but a file that is missing has to be missed.
        """
        return self._refreshed()[0].epoch

    def lineage(self) -> bytes | None:
        """See ``LogReader.lineage``."""
        return self._refreshed()[0].lineage

    def first(self) -> int:
        """See ``LogReader.first``."""
        return self._refreshed()[0].first

    def end(self) -> int:
        """See ``LogReader.end``."""
        return self._refreshed()[1]

    def read(self, from_index: int) -> Iterator[Frame]:
        """See ``LogReader.read``."""
        view, end = self._refreshed()
        if from_index < view.first:
            raise LogTruncatedError(index=from_index, first=view.first)
        self._bookmarks.forget([part.key for part in view.ranges])
        frames = read_frames(self._folder, view.ranges, from_index, self._bookmarks)
        return _below(frames, from_index, end, view.damage)

    def dropped_tail(self) -> int:
        """See ``LogReader.dropped_tail``. It is 0 while a live owner may be writing."""
        with self._lock, translated("read", self._folder.path):
            self._check_open()
            lock = InUseLock(self._folder)
            if lock.is_alive():
                return 0
            tail = self._built().dropped_tail
            # An owner may have come since, and may be gone again.
            if not tail or lock.is_alive():
                return 0
            return min(tail, self._built().dropped_tail)

    def close(self) -> None:
        """See ``LogReader.close``."""
        with self._lock:
            self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the reader was closed")

    # --- what may be shown ---

    def _refreshed(self) -> tuple[LogView, int]:
        """The log now, and the end that may be shown of it."""
        with self._lock, translated("read", self._folder.path):
            self._check_open()
            for _ in range(_TRIES - 1):
                try:
                    return self._refresh()
                except FileNotFoundError:
                    continue
            return self._refresh()

    def _refresh(self) -> tuple[LogView, int]:
        view = self._look()
        if self._view.lineage not in (None, view.lineage):
            what = "the log was begun again since it was opened here, as by recover: open it again"
            raise LogLostError(what, path=self._folder.path)
        is_sure = self._is_durable(view)
        # The marker comes last, as for a writer: an owner that claims now reads what was seen.
        is_sure = is_sure and told_epoch(self._folder) <= max(view.epoch, self._fenced)
        # A frame is begun only when the one before it is acknowledged.
        if not is_sure and view.damage is None:
            # The next owner decides about the last frame. Every other one has a successor, so it
            # was acknowledged; and what was shown once was sure then.
            shown = max(self._end, view.end - 1 if view.end > view.first else view.end)
        else:
            shown = view.end
        if view.end < self._end:
            raise CorruptDataError(
                "the log became shorter", where=self._folder.path, end=view.end, shown=self._end
            )
        self._view, self._end = view, shown
        return view, shown

    def _look(self) -> LogView:
        view = self._view
        end = view.end_of
        keys = self._folder.log_files()
        is_new = end is None or tuple(keys) != view.keys or self._to_damage
        if is_new or end is None or self._has_newer_header(keys, end):
            return self._built()
        try:
            now, _ = read_end(self._folder, end.header, end)
        except CorruptDataError:
            # It was truncated meanwhile and is written again, or it is damaged: a whole look tells.
            return self._built()
        newest = replace(view.ranges[-1], end_index=now.index, end_crc=now.crc)
        return replace(view, end_of=now, ranges=(*view.ranges[:-1], newest))

    def _built(self) -> LogView:
        return build_view(self._folder, to_damage=self._to_damage)

    def _has_newer_header(self, keys: list[FileKey], end: LogEnd) -> bool:
        return any(
            key > (end.header.epoch, end.header.number) and self._folder.header(key) is not None
            for key in keys
        )

    def _is_durable(self, view: LogView) -> bool:
        """Sync what is newest, and see that it is on the disk."""
        end = view.end_of
        if end is None or end == self._surely:
            return True
        if end.last is None and end.has_own_frames:
            return True  # A file is begun only when the last frame before it was acknowledged.
        key = FileKey(end.header.epoch, end.header.number)
        with self._folder.reading(key.name) as fd:
            self._folder.calls.fdatasync(fd)
        if end.last is not None:
            is_there = self._is_frame(key, end.offset - end.last.size, end.last.size, end.crc)
        else:
            is_there = self._is_header(key, end)
        if is_there:
            self._surely = end
        return is_there

    def _is_header(self, key: FileKey, end: LogEnd) -> bool:
        header = end.header
        data = read_past_cache(self._folder, key, 0, HEADER_BYTES)
        if decode_log_file_header(data) != header:
            return False
        if not header.copy_length:
            return True
        return self._is_frame(key, FRAMES_OFFSET, header.copy_length, header.predecessor_crc)

    def _is_frame(self, key: FileKey, offset: int, size: int, crc: int) -> bool:
        frame = decode_frame(read_past_cache(self._folder, key, offset, size))
        return frame is not None and frame.crc == crc


def _below(
    frames: Iterator[Frame], from_index: int, end: int, damage: CorruptDataError | None
) -> Iterator[Frame]:
    if from_index < end:
        for frame in frames:
            yield frame
            if frame.index + 1 >= end:
                break
    if damage is not None:
        raise damage
