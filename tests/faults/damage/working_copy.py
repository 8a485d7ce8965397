"""One copy of an image that is used again and again: only what changed is written again."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_LONG_AGO_NS = 10**18
"""Time stamp of every restored file: a write, however quick, gives it another one."""


@dataclass(frozen=True)
class _Kept:
    """How a restored file looks from outside; a write or a replacement changes that."""

    inode: int
    length: int
    modified_ns: int
    links: int


class WorkingCopy:
    """A copy of a folder.

    Attributes:
        folder: where it lies.

    Args:
        source: what to copy; it may change later.
        folder: made by the first ``restore``; its parent exists.
        without: names directly below ``source`` that are left out.
    """

    def __init__(self, source: Path, folder: Path, without: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self._contents: dict[str, bytes] = {}
        self._folders: set[str] = {""}
        self._kept: dict[str, _Kept] = {}
        for path in sorted(source.rglob("*")):
            name = str(path.relative_to(source))
            if name.partition("/")[0] in without:
                continue
            if path.is_dir():
                self._folders.add(name)
            else:
                self._contents[name] = path.read_bytes()

    def restore(self) -> None:
        """Bring the copy back to what the source was; its permission bits are not looked at."""
        self.folder.mkdir(exist_ok=True)
        untouched = self._clear("")
        for name in sorted(self._folders):
            (self.folder / name).mkdir(exist_ok=True)
        for name, content in self._contents.items():
            if name not in untouched:
                path = self.folder / name
                path.write_bytes(content)
                os.utime(path, ns=(_LONG_AGO_NS, _LONG_AGO_NS))
                self._kept[name] = _kept(path.stat())

    def _clear(self, folder: str) -> set[str]:
        """Remove what does not belong there or was written to; return the files that stay."""
        untouched = set()
        with os.scandir(self.folder / folder) as entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if name in self._folders:
                        untouched |= self._clear(name)
                    else:
                        shutil.rmtree(entry.path)
                elif self._kept.get(name) == _kept(os.lstat(entry.path)):
                    untouched.add(name)
                else:
                    os.unlink(entry.path)
        return untouched


def _kept(status: os.stat_result) -> _Kept:
    return _Kept(status.st_ino, status.st_size, status.st_mtime_ns, status.st_nlink)
