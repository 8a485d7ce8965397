"""A small real file system, mounted from a file: it can fill up, and its power can be cut."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SHUTDOWN = 0x8004587D
"""``EXT4_IOC_SHUTDOWN``, that is ``_IOR('X', 125, __u32)``."""
WITHOUT_FLUSHING_THE_JOURNAL = 2


class LoopMount:
    """An ext4 file system of ``size_bytes``.

    Attributes:
        folder: where it is mounted.
    """

    def __init__(self, place: Path, size_bytes: int) -> None:
        self.folder = place / "mounted"
        self._image = place / "image"
        self.folder.mkdir()
        self._image.touch()
        os.truncate(self._image, size_bytes)
        _run("mkfs.ext4", "-q", "-m", "0", str(self._image))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.folder))

    def unmount(self) -> None:
        _run("umount", str(self.folder))

    def remount_read_only(self) -> None:
        _run("mount", "-o", "remount,ro", str(self.folder))

    def cut_power(self) -> None:
        """Drop what is not on the disk; then mount again what is."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING_THE_JOURNAL))
        finally:
            os.close(fd)
        self.unmount()
        self.mount()


@contextmanager
def loop_mount(place: Path, size_bytes: int = 8 << 20) -> Iterator[LoopMount]:
    """Mount; skip where that is impossible, but fail in CI, where it must be possible."""
    if problem := _problem(place):
        if os.environ.get("CI") == "true":
            pytest.fail(f"a loop mount must work in CI: {problem}")
        pytest.skip(f"no loop mount here: {problem}")
    mounted = LoopMount(place, size_bytes)
    try:
        yield mounted
    finally:
        # Lazily: after a failed test a descriptor may still be open.
        _run("umount", "-l", str(mounted.folder))


def _problem(place: Path) -> str:
    if os.geteuid() != 0:
        return "not root"
    for command in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(command) is None:
            return f"{command} is not installed"
    probe = place / "probe"
    probe.mkdir()
    try:
        LoopMount(probe, 1 << 20).unmount()
    except subprocess.CalledProcessError as error:
        return f"{error.cmd[0]}: {error.stderr.decode(errors='replace').strip()}"
    return ""


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=30)
