"""The ordered listing of a folder tree.

Order is that of whole keys as UTF-8 bytes, which is not the order of names within a folder: ``a-b``
comes before the content of folder ``a``, since ``-`` is below ``/``. So a folder sorts as its name
with a slash after it. In memory are the names of one folder a level, never the whole tree.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from errno import ENXIO

from siltstone.bindings.nfs.kept_files import version_of
from siltstone.bindings.nfs.tree import is_missing
from siltstone.core.chunk_arguments import CHUNK_NAME_BYTES_MAX
from siltstone.core.chunk_storage import ChunkStat
from siltstone.core.drafts import DRAFTS
from siltstone.core.posix import FileCalls

# A pipe that stands where a chunk is expected would block the thread that opens it.
PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK
LITTER_BEGINS = b".nfs"
LITTER = re.compile(rb"\.nfs[0-9a-f]{8,}")
"""What an NFS client renames a file to that is removed while it is open."""
DRAFT_FOLDER = DRAFTS.encode()
"""The key of what holds no chunks."""


@dataclass(frozen=True, slots=True)
class Range:
    """Which keys are wanted: those that start with ``prefix`` and are above ``start_after``."""

    prefix: bytes
    start_after: bytes

    def has(self, key: bytes) -> bool:
        """Whether a chunk is wanted."""
        return key.startswith(self.prefix) and key > self.start_after

    def may_have_below(self, folder: bytes) -> bool:
        """Whether a folder, given with its slash, can hold a key that is wanted."""
        fits = folder.startswith(self.prefix) or self.prefix.startswith(folder)
        return fits and (folder > self.start_after or self.start_after.startswith(folder))


class _Level:
    """One folder of the way down. Names are read late, when the level is sure to be closed."""

    def __init__(self, calls: FileCalls, fd: int, base: bytes, wanted: Range) -> None:
        self.fd = fd
        self.base = base
        self._arguments = (calls, fd, base, wanted)
        self._names: Iterator[bytes] | None = None

    def next_name(self) -> bytes | None:
        """The next name in order, a folder's with a slash; ``None`` at the end."""
        if self._names is None:
            self._names = iter(_names(*self._arguments))
        return next(self._names, None)


def walk(
    calls: FileCalls, folder: int, base: bytes, wanted: Range
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield ``(folder, name, key)`` of every file in order; ``folder`` becomes the walk's own.

    What vanishes meanwhile is left out, and so is a name that is not UTF-8: it cannot be a key.
    """
    levels = [_Level(calls, folder, base, wanted)]
    try:
        while levels:
            level = levels[-1]
            name = level.next_name()
            if name is None:
                calls.close(levels.pop().fd)
            elif name.endswith(b"/"):
                below = _opened(calls, name[:-1], level.fd)
                if below is not None:
                    levels.append(_Level(calls, below, level.base + name, wanted))
            else:
                yield level.fd, name, level.base + name
    finally:
        for level in levels:
            calls.close(level.fd)


def _opened(calls: FileCalls, name: bytes, parent: int) -> int | None:
    try:
        return calls.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _names(calls: FileCalls, folder: int, base: bytes, wanted: Range) -> list[bytes]:
    found = []
    for entry in calls.scandir(folder):
        name = os.fsencode(entry.name)
        key = base + name
        if key == DRAFT_FOLDER or LITTER.fullmatch(name) or len(key) > CHUNK_NAME_BYTES_MAX:
            continue
        if not _is_text(name):
            continue
        if entry.is_dir(follow_symlinks=False):
            if wanted.may_have_below(key + b"/"):
                found.append(name + b"/")
        elif wanted.has(key) and entry.is_file(follow_symlinks=False):
            found.append(name)
    found.sort()
    return found


def _is_text(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def seen(calls: FileCalls, leaf: bytes, folder: int) -> os.stat_result | None:
    """Ask for the attributes of a file as ``stat`` does; ``None`` if there is no chunk.

    An NFS client answers ``os.stat`` from what it knew up to a minute ago. A length that is
    too short makes the end of a journal look as if it had never been written.
    """
    try:
        fd = calls.open(leaf, os.O_RDONLY | PLAIN, dir_fd=folder)
    except PermissionError:
        # A process that may not read a chunk may still know of it.
        return calls.stat(leaf, dir_fd=folder)
    except OSError as error:
        if is_missing(error) or error.errno == ENXIO:
            return None
        raise
    try:
        return calls.fstat(fd)
    finally:
        calls.close(fd)


def chunk_stat(name: str, status: os.stat_result) -> ChunkStat:
    """What the attributes of a file say of a chunk."""
    return ChunkStat(
        name=name,
        length=status.st_size,
        version=version_of(status),
        modified_s=status.st_mtime,
    )
