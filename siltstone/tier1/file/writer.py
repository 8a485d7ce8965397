"""Writing the files of one epoch: append, roll to the next file, keep one file in reserve."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from siltstone.core.constants import Buffer
from siltstone.core.errors import CorruptDataError, FencedError, LogError, StorageFullError
from siltstone.core.open_files import LACK
from siltstone.core.posix import IOV_MAX, write_fully
from siltstone.core.records.frame import EncodedFrame
from siltstone.core.records.log_file_header import (
    FRAMES_OFFSET,
    LogFileHeader,
    encode_log_file_header,
)
from siltstone.tier1.file.chain import FileRange
from siltstone.tier1.file.claimed import ClaimedFolder
from siltstone.tier1.file.direct import DIRECT_BYTES_MIN, DirectWriter
from siltstone.tier1.file.folder import BLOCK_BYTES, LogFolder, OpenFile
from siltstone.tier1.file.growth import Growth
from siltstone.tier1.file.marker import MARKER_BYTES, Marker
from siltstone.tier1.file.names import MARKER, FileKey
from siltstone.tier1.file.spares import SLICE_BYTES, Spares

_ZEROS_FOR_BYTE = 1.25
"""Zeros that may be written for each byte of files that was used, but for an eighth of a file.

Bytes that went past the page cache do not count: zeros cost them more than they save.
"""


class _Named(NamedTuple):
    """A file that is open, and the name that it was opened by."""

    name: str
    status: os.stat_result

    def stands(self, folder: LogFolder) -> bool:
        """Whether it still has that name."""
        try:
            return os.path.samestat(folder.calls.stat(folder.file(self.name)), self.status)
        except FileNotFoundError:
            return False


class EpochWriter:
    """The files of the claimed epoch. Not thread-safe but for ``tend``; the handle has the lock.

    ``write``, ``make_room``, ``tend`` and ``drop_below`` raise ``OSError`` besides what they say.
    After anything but ``StorageFullError`` the writer must never be used again.

    Attributes:
        index: of the next frame.
        crc: of the newest frame.
        headers: of this epoch's files, oldest first; a truncation takes them from the front.
    """

    def __init__(
        self,
        folder: LogFolder,
        marker: Marker,
        claimed: ClaimedFolder,
        growth: Growth,
        *,
        on_second_frame: Callable[[], None],
        fills: bool,
    ) -> None:
        file, header = claimed.file, claimed.header
        self.index = header.first_index
        self.crc = header.previous_crc
        self.headers = [header]
        self._folder = folder
        self._pwritev = folder.calls.pwritev
        self._fdatasync = folder.calls.fdatasync
        self._preadv = folder.calls.preadv
        self._links = folder.calls.links
        self._marker = marker
        self._marker_fd = marker.fd
        self._slot = claimed.slot
        self._marker_data = claimed.marker_data
        self._marker_now = bytearray(MARKER_BYTES)
        self._marker_buffers = [self._marker_now]
        self._claimed = self._named(MARKER, marker.fd)
        self._written = self._named(file.key.name, file.fd)
        self._file = file
        self._fd = file.fd
        self._offset = header.frames_offset
        self._growth = growth
        self._growth.held_bytes = claimed.older_bytes + file.size
        self._spares = Spares(folder, file, growth, fills=fills)
        self._is_filled = not fills
        # Where a block moves when it is written again, the cost of such a write is unknown.
        self._direct = DirectWriter(folder) if fills else None
        self._direct_bytes = 0
        self._used_bytes = 0
        self._appended = 0
        self._zeros = 0
        self._on_second_frame: Callable[[], None] | None = on_second_frame
        # Below the real room until the second frame, so that the slow path sees it.
        self._limit = 0

    def write(self, frame: EncodedFrame, *, reserve: bool) -> None:
        """Write one frame, make it durable, and see that there was no claim meanwhile.

        Raises:
            StorageFullError: no room; nothing was written.
            FencedError: a newer epoch was claimed.
            LogError: the marker is damaged, or a write was cut short.
        """
        size = frame.size
        end = self._offset + size
        if end > self._limit:
            self.make_room(size, reserve=reserve)
            end = self._offset + size
        if size < DIRECT_BYTES_MIN or not self._write_direct(frame):
            buffers: Sequence[Buffer] = frame.buffers
            if len(buffers) > IOV_MAX:
                write_fully(self._folder.calls, self._fd, buffers, self._offset)
            elif self._pwritev(self._fd, buffers, self._offset) != size:
                raise LogError("a write was cut short", path=self._folder.path, index=self.index)
        self._fdatasync(self._fd)
        # Only now: an owner that claims from here on reads this frame.
        count = self._preadv(self._marker_fd, self._marker_buffers, 0)
        if count != MARKER_BYTES or self._marker_now != self._marker_data:
            self._check_marker()
        if not self._links(self._fd):
            raise LogError(
                "the file of the log was removed or replaced while it was written",
                path=self._folder.file(self._file.key.name),
                index=self.index,
            )
        self._offset = end
        self.index += 1
        self.crc = frame.crc

    def _write_direct(self, frame: EncodedFrame) -> bool:
        if self._direct is None or not self._direct.write(self._file, frame, self._offset):
            return False
        self._direct_bytes += frame.size
        return True

    def make_room(self, size: int, *, reserve: bool) -> None:
        """See to it that a frame of ``size`` bytes fits into the current file.

        A frame without ``reserve`` is let in only while a spare file is left after it.

        Raises:
            StorageFullError: there is no room for it.
        """
        if self._on_second_frame is not None and self.index > self.headers[0].first_index:
            self._sweep(self._on_second_frame)
        fits = self._offset + size <= self._file.size
        if fits and not self._is_filled and len(self._spares) > 1 and self._spares.is_ready:
            fits = False  # Every sync is quicker in a file that was written before.
        self._growth.note(self._appended + self._offset + size)
        if not fits:
            self._spares.have(1, must=not reserve)
            if not self._spares:
                raise StorageFullError("the reserve is used up", path=self._folder.path)
            self._spares.fit(FRAMES_OFFSET + size)
        if not (reserve and fits):
            self._spares.have(1 if fits else 2, must=not reserve)
        if not fits:
            self._roll()
        self._limit = self._file.size if self._spares and self._on_second_frame is None else 0

    def _sweep(self, sweep: Callable[[], None]) -> None:
        try:
            sweep()
        except OSError as error:
            if error.errno not in LACK:
                raise
            return  # What it removes is void for ever, so the next frame does as well.
        self._on_second_frame = None

    def prepare_spare(self) -> None:
        """Preallocate the spare file if there is room for one."""
        self._spares.have(1, must=False)

    def tend(self) -> bool:
        """Make files ready before they are missed; return whether there was something to write.

        Any thread, at the same time as all else, but one at a time.
        """
        is_late = 2 * self._offset > self._file.size
        self._growth.look(self._appended + self._offset)
        used_bytes = self._used_bytes + self._offset - self._direct_bytes
        allowed = _ZEROS_FOR_BYTE * used_bytes - self._growth.free_of_zeros
        if self._zeros + min(SLICE_BYTES, self._file.size) > allowed:
            if is_late:
                self._spares.have(2, must=False)
            return False
        self._spares.have(2 if is_late or not self._is_filled else 1, must=False)
        count = self._spares.work()
        self._zeros += count
        if not self._is_filled and self._spares.is_ready:
            self._limit = 0  # The next frame takes the slow path, which leaves the file.
        return count > 0

    def check_names(self) -> None:
        """Look whether marker and log file still stand under their names; any thread.

        An append notices a file that has no name any more. One that was moved away has another
        one, and to look each time for what stands under the old one would cost too much.

        Raises:
            LogError: one was taken away, or another one was put in its place.
        """
        written = self._written
        for named in (self._claimed, written):
            if not named.stands(self._folder) and written is self._written:
                path = self._folder.file(named.name)
                raise LogError("a file of the log was moved or replaced while in use", path=path)

    def drop_below(self, oldest: FileKey) -> FileKey:
        """Take files out of the log, durably, and return the oldest that is left: ``oldest``.

        In the order of their age, and with what is void among them, so that at any moment the files
        are a suffix of what they were. Where there is no descriptor for one it ends there.
        """
        for key in self._folder.log_files():
            if key < oldest:
                try:
                    self._drop(key)
                except OSError as error:
                    if error.errno not in LACK:
                        raise
                    return key
        return oldest

    def _drop(self, key: FileKey) -> None:
        size = self._folder.size(key)
        if key.epoch != self._file.key.epoch or not self._spares.keep(key):
            self._folder.unlink(key)
        self._growth.forget(size)

    def own_ranges(self) -> list[FileRange]:
        """The frames of this epoch by file, up to the newest."""
        ends = [(after.first_index, after.previous_crc) for after in self.headers[1:]]
        ends.append((self.index, self.crc))
        return [
            FileRange(header=header, end_index=end, end_crc=crc)
            for header, (end, crc) in zip(self.headers, ends, strict=True)
        ]

    def leave(self) -> None:
        """Free room that is not used, when the last frame of the epoch is durable.

        What it cuts off is zeros, and it does not matter whether they are there.
        """
        self._spares.leave()
        size = -(-self._offset // BLOCK_BYTES) * BLOCK_BYTES
        if size < self._file.size:
            self._folder.calls.ftruncate(self._fd, size)

    def close(self) -> None:
        """Close all descriptors."""
        self._spares.close()
        if self._direct is not None:
            self._direct.close()
        self._folder.calls.close(self._fd)

    def _roll(self) -> None:
        """Continue in the oldest spare file. Its header is durable before its first frame."""
        file, self._is_filled = self._spares.take()
        self._used_bytes += self._file.size
        self._appended += self._offset
        self._growth.held_bytes += file.size
        header = replace(
            self.headers[-1],
            number=file.key.number,
            copy_length=0,
            first_index=self.index,
            previous_crc=self.crc,
        )
        write_header(self._folder, file, header)
        self._written = self._named(file.key.name, file.fd)
        self._folder.calls.close(self._fd)
        self._file, self._fd = file, file.fd
        self._offset = header.frames_offset
        self.headers.append(header)

    def _named(self, name: str, fd: int) -> _Named:
        return _Named(name, self._folder.calls.fstat(fd))

    def _check_marker(self) -> None:
        data = self._marker.data()
        try:
            newest = self._marker.decode(data).newest
        except CorruptDataError as error:
            raise LogError("the marker is damaged", epoch=self._slot.epoch) from error
        if newest != self._slot:
            if newest is None or newest.epoch < self._slot.epoch:
                raise LogError("the marker does not show this epoch", epoch=self._slot.epoch)
            raise FencedError(
                "a newer epoch was claimed", epoch=self._slot.epoch, newer=newest.epoch
            )
        # The other slot changed: a claim began to write it and died. This epoch is the newest.
        self._marker_data = data


def write_header(folder: LogFolder, file: OpenFile, header: LogFileHeader) -> None:
    """Write the header of a file that has none, durably."""
    write_fully(folder.calls, file.fd, [encode_log_file_header(header)], 0)
    folder.calls.fdatasync(file.fd)
