"""A real file system whose power can be cut: ext4 in an image, mounted through a loop device.

The kernel's own shutdown call stops the file system without writing its journal: what was not
synced is gone, as after a power cut. It needs root, ``mkfs.ext4`` and loop devices.
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
    """One image, mounted while the object is used as a context.

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
        return self

    def __exit__(self, *_: object) -> None:
        _run("umount", str(self.folder))

    def cut(self) -> None:
        """Cut the power: every call on an open file fails from here on."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def restart(self) -> None:
        """Mount it again; all files must be closed."""
        _run("umount", str(self.folder))
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.folder))
