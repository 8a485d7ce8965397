"""A file system whose power can be cut: what was not synced may be gone.

The model, stricter than most disks and as strict as POSIX allows:

- Bytes and length of a file are volatile until its ``fsync`` or ``fdatasync``, page by page.
- The mode bits of a file are volatile until its ``fsync``.
- An entry of a folder (made, removed, renamed, linked) is volatile until ``fsync`` of the folder; a
  sync of the file does not help its name, nor that of the folder the folder's own name.
- One rename is kept or lost as a whole; all other volatile changes are kept or lost on their own.
- After a sync that failed, the pages it should have written are lost unless they are written again.

What may not fail: a sync that returned, and what it synced. The layer works on a real folder, which
shows the volatile state to every reader, and keeps the durable one in memory: for small data.
Symbolic links, sparse tricks and ``mmap`` are outside of the model.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat as modes
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from siltstone.core.chunk_storage import Buffer
from siltstone.core.posix import FileCalls, PathName, SystemFileCalls
from siltstone.testing.faults.disk_state import (
    PAGE_BYTES,
    Chance,
    DurableFile,
    Survivor,
    build,
    pages_of,
    surviving_content,
)
from siltstone.testing.faults.file_layer import FileLayer

T = TypeVar("T")


class PowerCut(FileLayer):
    """The layer. Use one object for a folder and for all that write below it.

    After ``cut`` every call fails with ``EIO``; after ``restart`` new descriptors work, and those
    of before the cut answer ``EIO`` until they are closed. Hooks run under the layer's lock: to
    pause a thread, put a ``FileLayer`` above.

    Args:
        root: the folder below which the model holds; what it holds already is durable.
        inner: the calls underneath.
    """

    def __init__(self, root: str | os.PathLike[str], inner: FileCalls | None = None) -> None:
        super().__init__(inner or _Unsynced())
        self.root = Path(root).absolute()
        self._is_down = False
        self._fds: set[int] = set()
        self._stale: set[int] = set()
        self._disk: dict[int, DurableFile] = {}
        self._inside: set[int] = set()
        self._pins: dict[int, int] = {}
        self._generations: dict[int, int] = {}
        self._learned = 0
        self._renames: dict[tuple[int, str], int] = {}
        self._rename_count = 0
        weakref.finalize(self, _close_all, self._pins)
        self._load()

    # --- the power ---

    def cut(self, *, keep: float = 0.0, seed: int = 0) -> None:
        """Cut the power: put the folder into a state that the disk may be in.

        Args:
            keep: the chance of each volatile change to survive, 0 for none and 1 for all; the
                latter is what killing the process alone does.
            seed: chooses which ones survive.
        """
        with self._guard:
            tree = self._survivors(Chance(keep, seed))
            self._is_down = True
            null = os.open(os.devnull, os.O_RDWR)
            for fd in self._fds:
                # Frees locks and inodes as a restart would; the number stays taken until its owner
                # closes it, so no later descriptor is confused with it.
                os.dup2(null, fd, inheritable=False)
            os.close(null)
            self._stale |= self._fds
            self._fds, self._inside = set(), set()
            self._rebuild(tree)

    def restart(self) -> None:
        """Switch the power on again; what the folder holds is durable."""
        with self._guard:
            self._is_down = False
            self._load()

    def release(self) -> None:
        """Forget the disk, and close what the model holds open to know it. The last call."""
        with self._guard:
            self._disk, self._renames = {}, {}
            _close_all(self._pins)

    def lose_unsynced(self, fd: int) -> None:
        """Let the pages of ``fd`` that are not durable be lost, whatever is synced later."""
        with self._guard:
            if fd in self._inside and not self._record(fd).is_folder:
                record = self._record(fd)
                record.lost |= record.dirty

    # --- looking at every call ---

    def _call(
        self, kind: str, on: PathName | int, action: Callable[[], T], *folders: int | None
    ) -> T:
        if kind == "flock":  # It may wait for another thread, which needs the guard to continue.
            self._check(kind, on)
            return super()._call(kind, on, action)
        with self._guard:
            self._check(kind, on, *folders)
            return super()._call(kind, on, action, *folders)

    def _check(self, kind: str, *ons: PathName | int | None) -> None:
        stale = self._stale.intersection(ons)
        if kind == "close" and stale:
            return
        if stale or self._is_down:
            raise OSError(errno.EIO, "the power was cut")

    def open(
        self, path: PathName, flags: int, mode: int = 0o666, *, dir_fd: int | None = None
    ) -> int:
        """Open, and learn what is new."""
        with self._guard:
            fd = super().open(path, flags, mode, dir_fd=dir_fd)
            self._fds.add(fd)
            if self._is_inside(path, dir_fd):
                self._inside.add(fd)
                self._learn(f"/proc/self/fd/{fd}", is_new=bool(flags & os.O_CREAT))
            return fd

    def close(self, fd: int) -> None:
        """Close; also what the power cut left over."""
        with self._guard:
            try:
                super().close(fd)
            finally:
                for known in (self._fds, self._stale, self._inside):
                    known.discard(fd)

    def mkdir(self, path: PathName, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """Make a folder whose name and content are volatile."""
        with self._guard:
            super().mkdir(path, mode, dir_fd=dir_fd)
            if self._is_inside(path, dir_fd):
                fd = os.open(path, os.O_PATH, dir_fd=dir_fd)
                self._learn(f"/proc/self/fd/{fd}", is_new=True)
                os.close(fd)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        """Write to volatile pages."""
        with self._guard:
            count = super().pwritev(fd, buffers, offset)
            if fd in self._inside:
                self._mark_dirty(self._record(fd), offset, offset + count)
            return count

    def ftruncate(self, fd: int, length: int) -> None:
        """Change the length, volatile; what comes after it is gone, even if it grows again."""
        with self._guard:
            before = os.fstat(fd).st_size
            super().ftruncate(fd, length)
            if fd in self._inside:
                self._mark_dirty(self._record(fd), min(length, before), max(length, before))

    def _mark_dirty(self, record: DurableFile, start: int, end: int) -> None:
        pages = pages_of(start, end)
        record.dirty |= pages
        record.lost -= pages

    def fdatasync(self, fd: int) -> None:
        """Make content and length durable, not the mode."""
        with self._guard:
            super().fdatasync(fd)
            if fd in self._inside:
                self._sync(fd)

    def fsync(self, fd: int) -> None:
        """Make a file or the entries of a folder durable."""
        with self._guard:
            super().fsync(fd)
            if fd in self._inside:
                self._sync(fd)
                self._record(fd).mode = modes.S_IMODE(os.fstat(fd).st_mode)

    def identity(self, fd: int) -> tuple[int, ...] | None:
        """The number, and a generation of the model's own: a number may be used again."""
        with self._guard:
            super().identity(fd)
            status = os.fstat(fd)
            if fd not in self._inside:
                return None
            return status.st_dev, status.st_ino, self._generations[status.st_ino]

    def rename(
        self,
        source: PathName,
        target: PathName,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        """Rename; both names are kept or lost together."""
        with self._guard:
            places = {_place(source, src_dir_fd), _place(target, dst_dir_fd)}
            super().rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            self._rename_count += 1
            joined = {self._renames[place] for place in places if place in self._renames}
            places |= {place for place, number in self._renames.items() if number in joined}
            self._renames.update(dict.fromkeys(places, self._rename_count))

    # --- what the disk holds ---

    def _is_inside(self, path: PathName, dir_fd: int | None) -> bool:
        if dir_fd is not None:
            return dir_fd in self._inside
        return self.root in (Path(os.fsdecode(path)) / "x").absolute().parents

    def _record(self, fd: int) -> DurableFile:
        return self._disk[os.fstat(fd).st_ino]

    def _learn(self, path: str, *, is_new: bool) -> int:
        """Know a file or folder by its inode, which stays open so that its number is not reused."""
        pin = os.open(path, os.O_PATH)
        status = os.fstat(pin)
        if status.st_ino in self._disk:
            os.close(pin)
            return status.st_ino
        self._pins[status.st_ino] = pin
        self._learned += 1
        self._generations[status.st_ino] = self._learned
        record = DurableFile(
            is_folder=modes.S_ISDIR(status.st_mode), mode=modes.S_IMODE(status.st_mode)
        )
        self._disk[status.st_ino] = record
        if not is_new:
            # It was there before, or another process made it: durable as it is.
            record.dirty = pages_of(0, status.st_size)
            self._store(record, pin)
        return status.st_ino

    def _sync(self, fd: int) -> None:
        record = self._record(fd)
        self._store(record, fd)
        if record.is_folder:
            folder = os.fstat(fd).st_ino
            self._renames = {
                place: number for place, number in self._renames.items() if place[0] != folder
            }
            self._forget_removed()

    def _forget_removed(self) -> None:
        """Let go of what no durable name, no present name and no descriptor leads to."""
        used = {os.fstat(fd).st_ino for fd in self._inside}
        for record in self._disk.values():
            used.update(record.entries.values())
        for number, pin in list(self._pins.items()):
            if number not in used and os.fstat(pin).st_nlink == 0:
                os.close(self._pins.pop(number))
                del self._disk[number]
                del self._generations[number]

    def _store(self, record: DurableFile, fd: int) -> None:
        """Write what is dirty to the disk; a page that a failed sync lost counts as clean."""
        if record.is_folder:
            record.entries = self._entries(fd)
            return
        size = os.fstat(fd).st_size
        del record.content[size:]
        record.content.extend(bytes(size - len(record.content)))
        if dirty := record.dirty - record.lost:
            # The descriptor may be write-only, so the file is read by a path to it.
            with Path(f"/proc/self/fd/{fd}").open("rb") as file:
                for page in dirty:
                    file.seek(page * PAGE_BYTES)
                    part = file.read(PAGE_BYTES)
                    start = page * PAGE_BYTES
                    record.content[start : start + len(part)] = part
        record.dirty &= record.lost

    def _entries(self, fd: int) -> dict[str, int]:
        folder = f"/proc/self/fd/{fd}"
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return {}  # The folder was removed; only the model still knows it.
        return {name: self._learn(f"{folder}/{name}", is_new=False) for name in names}

    def _load(self) -> None:
        _close_all(self._pins)
        self._disk, self._renames = {}, {}
        self._learn(str(self.root), is_new=False)

    # --- what survives ---

    def _survivors(self, chance: Chance) -> Survivor:
        root = self.root.stat().st_ino
        seen: dict[int, Survivor] = {}

        def node(number: int, path: str) -> Survivor | None:
            record, pin = self._disk[number], self._pins[number]
            if number in seen:
                return None if record.is_folder else seen[number]
            mode = modes.S_IMODE(os.fstat(pin).st_mode)
            made = Survivor(mode=mode if chance.keeps("mode", path) else record.mode)
            seen[number] = made
            if not record.is_folder:
                made.content = surviving_content(record, _content(pin), chance, path)
                return made
            volatile = self._entries(pin)
            for name in sorted(record.entries.keys() | volatile.keys()):
                change = self._renames.get((number, name), f"{path}/{name}")
                entries = volatile if chance.keeps("entry", change) else record.entries
                if name in entries and (child := node(entries[name], f"{path}/{name}")):
                    made.children[name] = child
            return made

        tree = node(root, "")
        assert tree is not None
        return tree

    def _rebuild(self, tree: Survivor) -> None:
        for entry in list(os.scandir(self.root)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        build(self.root, tree, {})


def _close_all(pins: dict[int, int]) -> None:
    while pins:
        os.close(pins.popitem()[1])


def _place(path: PathName, dir_fd: int | None) -> tuple[int, str]:
    parent, name = os.path.split(os.fsdecode(path))
    status = os.stat(parent or ".", dir_fd=dir_fd)
    return status.st_ino, name


def _content(fd: int) -> bytes:
    return Path(f"/proc/self/fd/{fd}").read_bytes()


class _Unsynced(SystemFileCalls):
    """The model holds what is durable, so a real sync would only take time."""

    def fdatasync(self, fd: int) -> None:
        os.fstat(fd)

    def fsync(self, fd: int) -> None:
        os.fstat(fd)
