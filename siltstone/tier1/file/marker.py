"""The marker: one file of two slots that says which epoch may acknowledge.

The file is made once and never renamed or replaced, so a descriptor that an owner holds always
shows what the newest claimant wrote.
"""

from __future__ import annotations

import fcntl
import os

from siltstone.core.errors import CorruptDataError
from siltstone.core.posix import read_fully, sync_folder, write_fully
from siltstone.core.records.marker_slot import (
    SLOT_BYTES,
    MarkerSlot,
    decode_marker_slot,
    encode_marker_slot,
)
from siltstone.tier1.file.folder import NOT_THERE, LogFolder, no_folder
from siltstone.tier1.file.names import MARKER

MARKER_BYTES = 2 * SLOT_BYTES


class MarkerContent:
    """Both slots as they were read.

    Attributes:
        newest: the valid slot of the higher epoch; ``None`` when there never was a claim.
        free_slot: index of the slot that the next claim writes: never the newest one's.
        never_written: both slots are empty.
    """

    def __init__(self, data: bytes | bytearray, path: str) -> None:
        parts = [data[:SLOT_BYTES], data[SLOT_BYTES:MARKER_BYTES]]
        slots = [decode_marker_slot(part) for part in parts]
        self.newest: MarkerSlot | None = None
        self.free_slot = 0
        for index, slot in enumerate(slots):
            if slot is not None and (self.newest is None or slot.epoch > self.newest.epoch):
                self.newest, self.free_slot = slot, 1 - index
        empty = [not any(part) for part in parts]
        self.never_written = all(empty)
        if self.newest is None and not any(empty):
            # One bad slot next to an empty one is the very first claim, torn. Two bad ones are
            # damage: an owner may be at work whose epoch is unknown.
            raise CorruptDataError("both slots of the marker are damaged", where=path)

    @property
    def epoch(self) -> int:
        """The higher valid epoch, else 0."""
        return 0 if self.newest is None else self.newest.epoch


class Marker:
    """An open marker. Methods raise ``OSError``, and ``CorruptDataError`` if both slots are bad."""

    def __init__(self, folder: LogFolder, fd: int) -> None:
        self._calls = folder.calls
        self._path = folder.file(MARKER)
        self.fd = fd

    @classmethod
    def open(cls, folder: LogFolder) -> Marker | None:
        """Open the marker for reading; ``None`` when there is none."""
        try:
            return cls(folder, folder.calls.open(folder.file(MARKER), os.O_RDONLY))
        except NOT_THERE:
            return None

    @classmethod
    def create(cls, folder: LogFolder) -> Marker:
        """Open the marker for a claim, and make it if need be, with its two slots and durable.

        The room is taken now, so that a later claim never meets a full disk here.
        """
        calls = folder.calls
        with no_folder(folder.file(MARKER)):
            marker = cls(folder, calls.open(folder.file(MARKER), os.O_RDWR | os.O_CREAT))
        try:
            with marker:
                size = calls.fstat(marker.fd).st_size
                if size < MARKER_BYTES:
                    # Of one that was cut the whole slot may be left, which counts.
                    write_fully(calls, marker.fd, [bytes(MARKER_BYTES - size)], size)
                # Also when it was there: its maker may have died before its syncs.
                calls.fsync(marker.fd)
                sync_folder(calls, folder.path)
        except BaseException:
            marker.close()
            raise
        return marker

    def __enter__(self) -> None:
        """Take the short lock of claims."""
        self._calls.flock(self.fd, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        """Free it."""
        self._calls.flock(self.fd, fcntl.LOCK_UN)

    def data(self) -> bytearray:
        """Both slots as they are."""
        data = bytearray(MARKER_BYTES)
        with no_folder(self._path):
            count = read_fully(self._calls, self.fd, data, 0)
        del data[count:]
        return data

    def content(self) -> MarkerContent:
        """Both slots, decoded."""
        return self.decode(self.data())

    def decode(self, data: bytes | bytearray) -> MarkerContent:
        """Slots that were read before, decoded; what is missing counts as empty."""
        return MarkerContent(data.ljust(MARKER_BYTES, b"\0"), self._path)

    def write(self, content: MarkerContent, slot: MarkerSlot) -> bytearray:
        """Write ``slot`` durably where ``content`` has a free one; return both as they are then."""
        offset = content.free_slot * SLOT_BYTES
        write_fully(self._calls, self.fd, [encode_marker_slot(slot)], offset)
        self._calls.fdatasync(self.fd)
        return self.data()

    def sync(self) -> None:
        """Make durable whatever the slots show: their writer may have died before its sync."""
        self._calls.fdatasync(self.fd)

    def close(self) -> None:
        """Close the descriptor."""
        self._calls.close(self.fd)


def marker_epoch(folder: LogFolder) -> int:
    """The epoch that may acknowledge, as the marker says; 0 when there is none."""
    marker = Marker.open(folder)
    if marker is None:
        return 0
    try:
        return marker.content().epoch
    finally:
        marker.close()


def told_epoch(folder: LogFolder) -> int:
    """The epoch that may acknowledge, or 0 where no marker can be read: none is as good as gone.

    For callers that acknowledge nothing and remove nothing because of it.
    """
    try:
        return marker_epoch(folder)
    except CorruptDataError:
        return 0


def newest_epoch(folder: LogFolder) -> int:
    """The highest epoch of the marker and of any file's name."""
    return _with_files(folder, marker_epoch(folder))


def newest_told_epoch(folder: LogFolder) -> int:
    """The highest epoch of any file's name, and of the marker where that can be read."""
    return _with_files(folder, told_epoch(folder))


def _with_files(folder: LogFolder, epoch: int) -> int:
    return max([epoch, *(key.epoch for key in folder.log_files())])
