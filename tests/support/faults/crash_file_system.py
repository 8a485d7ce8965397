"""A real file system whose power can be cut: ext4 in an image, mounted through a loop device.

The kernel's own shutdown call stops the file system without writing its journal: what was not
synced is gone, as after a power cut. It needs root, ``mkfs.ext4`` and loop devices.

A mount is copied into every namespace that is made while it is there, and a file system lives until
the last of them releases it. So after a cut the image is copied, and the copy is mounted: the same
image would be the same device, and that one the dead file system.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

_SHUTDOWN = 0x8004587D
"""``EXT4_IOC_SHUTDOWN``: ``_IOR('X', 125, __u32)``."""
_NO_LOG_FLUSH = 2
_UNMOUNT = 'read -r _; exec umount -l "$0"'
"""Lazily, for a failed test may have left a file open; the device goes with the last one."""


def why_not() -> str | None:
    """Why there can be no such file system here; ``None`` when there can."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount") if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    return None


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


class CrashFileSystem:
    """One image, mounted while the object is used as a context, or until this process dies.

    Attributes:
        folder: where it is mounted.
    """

    def __init__(self, folder: Path, *, mebibytes: int = 64) -> None:
        self.folder = folder / "mounted"
        self._image = folder / "image"
        self.folder.mkdir()
        with self._image.open("wb") as file:
            file.truncate(mebibytes << 20)
        _run("mkfs.ext4", "-q", str(self._image))

    def __enter__(self) -> CrashFileSystem:
        self._mount()
        # It unmounts when its input ends, however this process does.
        self._end = subprocess.Popen(
            ["sh", "-c", _UNMOUNT, str(self.folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._end.communicate()
        assert self._end.returncode == 0, f"{self.folder} is no longer mounted"

    def cut(self) -> None:
        """Cut the power: every call on an open file fails from here on."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def restart(self) -> None:
        """Mount what is there after a cut."""
        copy = self._image.with_name("copy")
        device = os.open(self._device(), os.O_RDONLY)
        try:
            _run("umount", "-l", str(self.folder))
            os.fsync(device)  # From here on nothing writes to the image.
            _run("cp", "--sparse=always", str(self._image), str(copy))
        finally:
            os.close(device)
        copy.replace(self._image)
        self._mount()

    def remount_read_only(self) -> None:
        """Allow no more writes."""
        _run("mount", "-o", "remount,ro", str(self.folder))

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.folder))

    def _device(self) -> Path:
        number = self.folder.stat().st_dev
        link = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
        return Path("/dev") / link.resolve().name
