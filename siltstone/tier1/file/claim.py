"""Taking the log over: the order of these steps is what makes the fence hold.

1. The marker shows the new epoch, durably: from here on no older owner acknowledges a frame.
2. The older files are read to their end: whatever was acknowledged is there.
3. They are synced.
4. A copy of the newest older frame, then the header that states where the older epochs end, are
   durable in a file of the new epoch. The copy is there because after a failed sync that frame may
   be in the page cache and not on the disk, whatever a later sync says; with one frame in flight no
   other frame can be in doubt. It comes before the header, so a valid header has its copy.
5. Only then anything is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from siltstone.core.constants import KIB
from siltstone.core.errors import (
    CapabilityError,
    CorruptDataError,
    FencedError,
    LogLostError,
    LogTruncatedError,
    SiltstoneError,
    StorageFullError,
)
from siltstone.core.open_files import LogOpenFilesError
from siltstone.core.posix import write_fully
from siltstone.core.records.frame import Frame, encode_frame
from siltstone.core.records.log_file_header import FRAMES_OFFSET, LogFileHeader
from siltstone.core.records.marker_slot import MarkerSlot
from siltstone.tier1.file.chain import FileRange, LogView, build_view
from siltstone.tier1.file.claimed import ClaimedFolder
from siltstone.tier1.file.folder import BLOCK_BYTES, LogFolder, OpenFile
from siltstone.tier1.file.history import last_frame
from siltstone.tier1.file.in_use import InUseLock
from siltstone.tier1.file.marker import Marker, MarkerContent
from siltstone.tier1.file.names import LOCK, FileKey
from siltstone.tier1.file.network import FileSystemOf, refuse_network
from siltstone.tier1.file.writer import write_header

_TRIES = 5
"""Looks before a file that is missing is believed."""

FIRST_FILE_BYTES_MIN: Final = 16 * KIB
"""This much of a first file holds what flushes write to the log, which then frees older files."""


def check_lineage(folder: LogFolder, view: LogView, lineage: bytes, *, new: bool) -> None:
    """Check that this is the log that the container means.

    Raises:
        LogLostError: it is not.
    """
    holds_frames = view.end > view.first
    if new:
        if holds_frames:
            raise LogLostError("the log of a new container holds frames", path=folder.path)
        return
    if lineage not in view.headers_seen:
        message = "the log is of another lineage" if view.headers_seen else "the log is empty"
        raise LogLostError(message, path=folder.path)
    if holds_frames and view.lineage != lineage:
        raise LogLostError("the newest frame is of another lineage", path=folder.path)


def damage_of_marker(folder: LogFolder) -> str:
    """Why the marker that there is allows no claim; empty when it allows one.

    Raises:
        OSError: a call failed.
    """
    marker = Marker.open(folder)
    try:
        content = MarkerContent(b"", "") if marker is None else marker.content()
        _check_found(folder, content)
    except CorruptDataError as error:
        return str(error)
    finally:
        if marker is not None:
            marker.close()
    return ""


def refusals_of(folder: LogFolder, file_system: FileSystemOf) -> tuple[str, ...]:
    """Why a claim would be refused until something changes about the place of the log.

    Raises:
        OSError: a call failed.
    """
    refusals = []
    try:
        refuse_network(folder.path, file_system)
    except CapabilityError as error:
        refusals.append(str(error))
    if not InUseLock(folder).is_usable():
        refusals.append(f"a folder is in the place of the lock, remove it: {folder.file(LOCK)}")
    return tuple(refusals)


def _check_found(folder: LogFolder, content: MarkerContent) -> None:
    """Refuse a new marker next to older files: an owner of the lost marker would see no claim."""
    if content.never_written:
        keys = folder.log_files()
        if any(folder.header(key) is not None for key in keys):
            raise CorruptDataError("the marker was lost", where=folder.path)


def claim_marker(
    folder: LogFolder, marker: Marker, *, above: int, nonce: bytes
) -> tuple[MarkerSlot, bytearray]:
    """Step 1. The lock is held for read, write and sync only: nothing waits for a stopped owner."""
    with marker:
        marker.sync()
        content = marker.content()
        keys = folder.log_files()
        _check_found(folder, content)
        newest = max([above, content.epoch, *(key.epoch for key in keys)])
        slot = MarkerSlot(epoch=newest + 1, nonce=nonce)
        return slot, marker.write(content, slot)


@contextmanager
def told_if_overtaken(marker: Marker, slot: MarkerSlot) -> Iterator[None]:
    """Around the steps after the marker: whatever fails there, a later claim is why, if any is.

    Its owner removes files that a slower claimant still reads or makes.

    Raises:
        FencedError: a later claim was faster.
    """
    try:
        yield
    except (OSError, SiltstoneError) as error:
        newest = None
        with suppress(OSError, SiltstoneError):
            newest = marker.content().newest
        if newest is None or newest.epoch <= slot.epoch:
            raise
        raise overtaken(slot, newest.epoch) from error


def overtaken(slot: MarkerSlot, newer: int) -> FencedError:
    """The error of a claim after which a newer epoch was claimed."""
    return FencedError("a later claim was faster", epoch=slot.epoch, newer=newer)


def create_first_file(folder: LogFolder, marker: Marker, slot: MarkerSlot, size: int) -> OpenFile:
    """Make the first file of the epoch, if need be in the room of files that were never used.

    On a full disk it may be smaller: a file system can keep some of what was just unlinked.

    Raises:
        StorageFullError: there is no room, even so.
    """
    key = FileKey(slot.epoch, 0)
    try:
        return folder.create(key, size)
    except LogOpenFilesError:
        raise  # A smaller file would not help.
    except StorageFullError:
        if not _unlink_unused(folder, marker, slot):
            raise
    while True:
        try:
            return folder.create(key, size)
        except StorageFullError:
            if size <= FIRST_FILE_BYTES_MIN:
                raise
            size = max(FIRST_FILE_BYTES_MIN, size // 2 // BLOCK_BYTES * BLOCK_BYTES)


def _unlink_unused(folder: LogFolder, marker: Marker, slot: MarkerSlot) -> bool:
    """Unlink older epochs' files without a header, such as their spares.

    Under the marker's lock, and only while this claim is the newest, which is what it returns: a
    later claimant then reads after it, and cannot have counted on a frame that a fenced owner put
    there in between.
    """
    with marker:
        if marker.content().newest != slot:
            return False
        folder.unlink_old(slot.epoch)
        # The last one first: a claimant that dies in between leaves no gap.
        for key in reversed(folder.log_files()):
            if key.epoch < slot.epoch and folder.header(key) is None:
                folder.unlink(key)
        return True


def take_over(
    folder: LogFolder,
    marker: Marker,
    claimed: tuple[MarkerSlot, bytearray],
    file: OpenFile,
    *,
    lineage: bytes,
    new: bool,
) -> ClaimedFolder:
    """Steps 2 to 4.

    Raises:
        OSError: a call failed.
        FencedError: a later claim was faster.
        LogLostError: between the first look and the marker the log became another one.
        CorruptDataError: the older files are damaged.
        StorageFullError: there is no room for the copy.
    """
    slot, marker_data = claimed
    view, copy, size = _synced(folder, slot, file.key, lineage, new=new)
    epoch, end, crc = view.statement
    if copy is not None:
        file = _with_room(folder, marker, slot, file, FRAMES_OFFSET + copy.size)
        _write_copy(folder, file, copy)
    header = LogFileHeader(
        lineage=lineage,
        nonce=slot.nonce,
        container=folder.container,
        number=0,
        epoch=slot.epoch,
        predecessor_epoch=epoch,
        predecessor_end=end,
        predecessor_crc=crc,
        copy_length=0 if copy is None else copy.size,
        first_index=end,
        previous_crc=crc,
    )
    write_header(folder, file, header)
    return ClaimedFolder(
        slot=slot,
        marker_data=marker_data,
        older=_older(view, header),
        older_bytes=size,
        dropped_tail=view.dropped_tail,
        file=file,
        header=header,
    )


def _synced(
    folder: LogFolder, slot: MarkerSlot, own: FileKey, lineage: bytes, *, new: bool
) -> tuple[LogView, Frame | None, int]:
    """Steps 2 and 3: the log, with its newest frame, and the size of its files.

    An older owner that looked at the marker just before the claim may still remove truncated files.
    """
    for left in reversed(range(_TRIES)):
        view = build_view(folder, own)
        if view.epoch > slot.epoch:
            raise overtaken(slot, view.epoch)
        check_lineage(folder, view, lineage, new=new)
        try:
            size = 0
            for part in view.ranges:
                with folder.reading(part.key.name) as fd:
                    folder.calls.fdatasync(fd)
                    size += folder.calls.fstat(fd).st_size
            return view, last_frame(folder, view), size
        except (FileNotFoundError, LogTruncatedError):
            if not left:
                raise
    raise AssertionError("the last look ends this")


def _older(view: LogView, header: LogFileHeader) -> tuple[FileRange, ...]:
    """The chain below ``header``: without files that got no frame, and with the copy."""
    end = header.predecessor_end
    ranges = [part for part in view.ranges if part.header.first_index < end]
    if ranges and header.copy_length:
        ranges[-1] = replace(ranges[-1], copy=header)
    return tuple(ranges)


def _with_room(
    folder: LogFolder, marker: Marker, slot: MarkerSlot, file: OpenFile, size: int
) -> OpenFile:
    """Make the first file larger if the copy needs that, in unused room if there is no other."""
    try:
        return folder.enlarge(file, size)
    except StorageFullError:
        if not _unlink_unused(folder, marker, slot):
            raise
        return folder.enlarge(file, size)


def _write_copy(folder: LogFolder, file: OpenFile, frame: Frame) -> None:
    encoded = encode_frame(
        [frame.body],
        kind=frame.kind,
        lineage=frame.lineage,
        epoch=frame.epoch,
        index=frame.index,
        previous_crc=frame.previous_crc,
        count=frame.count,
    )
    assert encoded.crc == frame.crc, "a frame is its bytes"
    write_fully(folder.calls, file.fd, encoded.buffers, FRAMES_OFFSET)
    folder.calls.fdatasync(file.fd)


def sweep(folder: LogFolder, older: Iterable[FileRange], epoch: int) -> None:
    """Unlink files of older epochs that are off the chain or were never used.

    Only after a frame of ``epoch`` was acknowledged: every later claimant has read it, so every
    later chain goes through this epoch's statement, and what that leaves out is void for ever.
    """
    folder.unlink_old(epoch)
    kept = {part.key for part in older}
    for key in folder.log_files():
        if key.epoch < epoch and key not in kept:
            folder.unlink(key)
