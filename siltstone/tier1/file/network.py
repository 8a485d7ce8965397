"""File systems that a file log must not lie on, told by what ``statfs`` says.

The fence needs one page cache that all owners share and syncs that reach a disk. A network file
system has neither, so it is refused, and no setting says otherwise.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

from siltstone.core.errors import CapabilityError

FUSE = 0x65735546
NETWORK = {
    0x6969: "nfs",
    0x517B: "smb",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x00C36400: "ceph",
    0x0BD00BD0: "lustre",
    0x47504653: "gpfs",
    0x19830326: "beegfs",
    0x20030528: "orangefs",
    0x5346414F: "afs",
    0x6B414653: "kafs",
    0x73757245: "coda",
    0x564C: "ncp",
    0x01021997: "9p",
    0x7461636F: "ocfs2",
    0x01161970: "gfs2",
    0xAAD7AAEA: "panfs",
    0x786F4256: "vboxsf",
    0xBACBACBC: "vmhgfs",
}
LOCAL_FUSE = frozenset({"fuseblk", "fuse.fuse-overlayfs"})
"""Known to end on a local disk; of the many others it is unknown what a sync does."""

_STATFS_BYTES = 256  # Larger than struct statfs anywhere; the type is its first machine word.


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    """What a folder lies on.

    Attributes:
        number: ``f_type`` of ``statfs``.
        name: as the table of mounts has it; empty when it is not there.
    """

    number: int
    name: str


FileSystemOf = Callable[[str], FileSystem]
"""Tells what a path lies on; raises ``OSError``."""


def file_system_of(path: str) -> FileSystem:
    """Ask the kernel what ``path`` lies on."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if libc.statfs(os.fsencode(path), buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    word = ctypes.sizeof(ctypes.c_long)
    kind = int.from_bytes(buffer.raw[:word], sys.byteorder) & 0xFFFFFFFF
    return FileSystem(number=kind, name=_mount_name(os.stat(path).st_dev))


def _mount_name(device: int) -> str:
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                left, _, right = line.partition(" - ")
                if left.split()[2] == wanted:
                    return right.split()[0]
    except FileNotFoundError:
        pass  # No /proc: a name only matters for FUSE, which is refused without one.
    return ""


def refuse_network(path: str, file_system: FileSystemOf) -> None:
    """Refuse a path on a network file system; of a path that is missing the folder above it counts.

    Raises:
        CapabilityError: the file system is a network one, or one that may be.
    """
    while not os.path.exists(path):
        path = os.path.dirname(path)
    found = file_system(path)
    name = NETWORK.get(found.number)
    if name is None and found.number == FUSE and found.name not in LOCAL_FUSE:
        name = found.name or "fuse"
    if name is not None:
        raise CapabilityError("a file log needs a local file system", path=path, file_system=name)
