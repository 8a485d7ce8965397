"""Putting a log aside that must not be continued: fence its writer, then rename its folder.

Nothing in it is read, so it may be damaged. An owner that has its files open finds the newer epoch
in the marker, which went with them, and acknowledges nothing more.
"""

from __future__ import annotations

from contextlib import suppress

from siltstone.core.environment import Environment
from siltstone.core.errors import CorruptDataError
from siltstone.core.posix import sync_folder, write_fully
from siltstone.core.records.marker_slot import NONCE_BYTES, MarkerSlot, encode_marker_slot
from siltstone.tier1.file.folder import NOT_THERE, LogFolder
from siltstone.tier1.file.marker import Marker


def fence_all(folder: LogFolder, environment: Environment) -> int:
    """Let no handle acknowledge any more, durably; return the epoch that says so, 0 without a log.

    Raises ``OSError``.
    """
    if not folder.exists():
        return 0
    try:
        marker = Marker.create(folder)
    except CorruptDataError:
        return 0  # No owner has a folder open as a marker, and it is put aside with all the rest.
    try:
        with marker:
            newest = [key.epoch for key in folder.log_files()]
            with suppress(CorruptDataError):
                newest.append(marker.content().epoch)
            epoch = 1 + max(newest, default=0)
            slot = MarkerSlot(epoch=epoch, nonce=environment.random_bytes(NONCE_BYTES))
            try:
                marker.write(marker.content(), slot)
            except CorruptDataError:
                # It is unknown whose it was; any change of it stops an owner.
                write_fully(folder.calls, marker.fd, [encode_marker_slot(slot)], 0)
                folder.calls.fdatasync(marker.fd)
            return epoch
    finally:
        marker.close()


def set_folder_aside(folder: LogFolder) -> str | None:
    """Rename the folder, or what is in its place, durably; return its new path, if it had one.

    Raises:
        OSError: a call failed.
    """
    if not _exists(folder, folder.path):
        return None
    number = 1
    while _exists(folder, path := f"{folder.path}-aside-{number}"):
        number += 1
    folder.calls.rename(folder.path, path)
    sync_folder(folder.calls, folder.path.rpartition("/")[0])
    return path


def _exists(folder: LogFolder, path: str) -> bool:
    try:
        folder.calls.stat(path)
    except NOT_THERE:
        return False
    return True
