"""Walking from the root folder to a chunk's folder, one part at a time, never through a link.

Every step is relative to the descriptor of the folder above and refuses symbolic links, so no name
leads out of the root, whatever is in the folders. Nothing here knows chunks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import ELOOP, ENAMETOOLONG, ENOENT, ENOSYS, ENOTDIR
from typing import TypeVar

from siltstone.core.errors import ClosedError
from siltstone.core.open_files import LACK
from siltstone.core.posix import FileCalls, PathName, sync_folder

T = TypeVar("T")

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
DURABLE_MAX = 10_000
"""Names of folders that are remembered."""
RACES_MAX = 16
"""How often a folder that others remove while we make it is made again."""


class Tree:
    """The root folder, open from its first use until the last call after ``close`` has left.

    A descriptor is kept because its number may belong to another folder as soon as it is closed,
    and because a share that is unmounted under a running store must not turn into a local folder.
    """

    _root: int | None = None

    def __init__(self, path: str, calls: FileCalls) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self._calls = calls
        self._lock = threading.Lock()
        self._is_root_durable = False
        self._users = 0
        self._is_closed = False
        self._walks_only = False
        self._durable: set[tuple[tuple[int, ...] | None, tuple[int, ...] | None]] = set()

    def check_open(self) -> None:
        """Raise ``ClosedError`` after ``close``."""
        if self._is_closed:
            raise ClosedError("the chunk storage was closed")

    def __del__(self) -> None:
        # Of a storage that was never closed.
        if self._root is not None:
            with suppress(OSError):
                self._calls.close(self._root)

    def close(self) -> None:
        """Let no call in any more. Idempotent; calls in progress end as they would."""
        with self._lock:
            self._is_closed = True
            self._release()

    @contextmanager
    def folders(self, parts: Sequence[bytes], *, make: bool = False) -> Iterator[list[int]]:
        """Yield the descriptors of the root and of each folder in ``parts`` below it.

        Raises:
            OSError: ``ENOENT`` or ``ENOTDIR``/``ELOOP`` where a part is missing or no folder.
        """
        with self._lock:
            self.check_open()
            self._users += 1
        opened: list[int] = []
        try:
            chain = [self._open_root(make=make)]
            for part in parts:
                fd = (self._make if make else self._open)(part, chain[-1])
                opened.append(fd)
                chain.append(fd)
            yield chain
        finally:
            for fd in opened:
                # Nothing was written through it, so its closing tells nothing of the call.
                with suppress(OSError):
                    self._calls.close(fd)
            with self._lock:
                self._users -= 1
                self._release()

    def open_file(self, path: bytes, flags: int) -> int | None:
        """Open what lies below the root by one call, through no link.

        ``None`` says nothing: a walk to it finds it, or learns what is in the way. An NFS client
        that knows the name from memory asks its server for the file anyway, as it is opened; one
        that knows it as missing may be wrong, and only a walk makes it ask.
        """
        if self._walks_only:
            return None
        with self._lock:
            self.check_open()
            self._users += 1
        try:
            return self._calls.open_below(path, flags, dir_fd=self._open_root(make=False))
        except OSError as error:
            self._walks_only = error.errno == ENOSYS
            return None
        finally:
            with self._lock:
                self._users -= 1
                self._release()

    def sync(self, chain: Sequence[int]) -> None:
        """Make what is in the last folder of a chain durable, and the names of the folders.

        A name that this object made durable before is left out, as long as it leads to the same
        folder: each sync makes a disk write out what it has in memory, also where nothing changed.
        """
        self._calls.fsync(chain[-1])
        known = [self._calls.identity(folder) for folder in chain]
        for depth in range(len(chain) - 2, -1, -1):
            name = known[depth], known[depth + 1]
            if name in self._durable:
                continue
            self._calls.fsync(chain[depth])
            if None not in name:
                if len(self._durable) >= DURABLE_MAX:
                    self._durable.clear()
                self._durable.add(name)

    def fresh(self, look: Callable[[], T], folder: int) -> T:
        """Return what ``look`` finds in ``folder``, and look twice where it finds nothing.

        An NFS client remembers for up to a minute which names are missing. When a folder is
        opened it asks whether that changed, and forgets them if so.
        """
        try:
            return look()
        except FileNotFoundError:
            self._ask(b".", folder)
            return look()

    def prune(self, chain: Sequence[int], parts: Sequence[bytes]) -> None:
        """Remove the folders of ``parts`` from the end on, as far as they are empty.

        Best effort and not made durable: an empty folder that comes back does no harm. A create
        that runs meanwhile notices that its folder is gone and makes it again.
        """
        with suppress(OSError):
            for parent, part in zip(reversed(chain[:-1]), reversed(parts), strict=True):
                self._calls.rmdir(part, dir_fd=parent)

    def _ask(self, path: PathName, folder: int | None = None) -> None:
        try:
            self._calls.close(self._calls.open(path, FOLDER, dir_fd=folder))
        except OSError as error:
            # A folder that is gone or closed to us cannot tell anything new. One that there was
            # no descriptor for was not asked, and what seems to be missing may be there.
            if error.errno in LACK:
                raise

    def _release(self) -> None:
        if self._is_closed and self._users == 0 and self._root is not None:
            root, self._root = self._root, None
            self._calls.close(root)

    def _open_root(self, *, make: bool) -> int:
        # The root itself may be a link: a person chose it, not a name.
        flags = os.O_RDONLY | os.O_DIRECTORY
        with self._lock:
            if self._root is None:
                try:
                    self._root = self._calls.open(self.path, flags)
                except FileNotFoundError:
                    if make:
                        self._root = self._make_root()
                    else:
                        self._ask(os.path.dirname(self.path))
                        self._root = self._calls.open(self.path, flags)
            if make and not self._is_root_durable:
                self._sync_above_root()
                self._is_root_durable = True
            return self._root

    def _sync_above_root(self) -> None:
        """Make the root's own name durable: the process that made it may have died before that."""
        # A process that may not read the folder above cannot have made the root either.
        with suppress(PermissionError):
            sync_folder(self._calls, os.path.dirname(self.path))

    def _make_root(self) -> int:
        """Make the root with its parents, durably, and open it."""
        path, missing = self.path, []
        while True:
            try:
                fd = self._calls.open(path, os.O_RDONLY | os.O_DIRECTORY)
                break
            except FileNotFoundError:
                path, part = os.path.split(path)
                missing.append(os.fsencode(part))
        while missing:
            child = self._make(missing.pop(), fd)
            if missing:
                self._calls.fsync(fd)
            self._calls.close(fd)
            fd = child
        return fd

    def _open(self, part: bytes, parent: int) -> int:
        return self.fresh(lambda: self._calls.open(part, FOLDER, dir_fd=parent), parent)

    def _make(self, part: bytes, parent: int) -> int:
        for _ in range(RACES_MAX):
            with suppress(FileNotFoundError):
                return self._calls.open(part, FOLDER, dir_fd=parent)
            with suppress(FileExistsError):
                # ENOENT is not suppressed: the parent was removed, and the walk starts again.
                self._calls.mkdir(part, 0o777, dir_fd=parent)
        raise OSError(ENOENT, "the folder is removed again and again")


def is_blocked(error: OSError) -> bool:
    """Whether a part of a path is there but is no folder."""
    return error.errno in (ENOTDIR, ELOOP)


def is_missing(error: OSError) -> bool:
    """Whether nothing can be at the end of a path."""
    return is_blocked(error) or error.errno in (ENOENT, ENAMETOOLONG)
