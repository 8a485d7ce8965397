"""Which folder of the local index an owner may use: one that no other living owner has open.

The folder of a container is ``c<index>``. A fenced owner that is still alive keeps it, so the owner
that took the container over works in ``c<index>-1`` and so on: an index is a cache, and each
folder is checked against the table log before it is used.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from siltstone.core.errors import StoreError, StoreInUseError

FOLDERS_MAX: Final = 16
"""More fenced owners of one container on one machine than there will ever be."""


class IndexFolders:
    """The index folders of one open store, locked until ``close``. Used by one thread at a time.

    Args:
        root: the folder of all indexes; made when it is missing.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._locked: dict[int, tuple[Path, int]] = {}

    def of_reader(self, index: int) -> tuple[Path, ...]:
        """Return where an owner on this machine may have its index, the usual place first."""
        return tuple(self._folder(index, number) for number in range(FOLDERS_MAX))

    def of_owner(self, index: int) -> Path:
        """Return a folder that is this store's alone; the same one whenever it asks again.

        Raises:
            StoreInUseError: every folder is in use.
            StoreError: the folder cannot be written.
        """
        if index in self._locked:
            return self._locked[index][0]
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            for number in range(FOLDERS_MAX):
                folder = self._folder(index, number)
                descriptor = _locked(folder.with_name(f"{folder.name}.lock"))
                if descriptor is not None:
                    self._locked[index] = (folder, descriptor)
                    return folder
        except OSError as error:
            raise StoreError(
                f"the index folder cannot be used: {error.strerror}", path=self._root
            ) from error
        raise StoreInUseError("every index folder is in use", owner="unknown", path=self._root)

    def _folder(self, index: int, number: int) -> Path:
        return self._root / (f"c{index}-{number}" if number else f"c{index}")

    def close(self) -> None:
        """Free the folders. Idempotent."""
        while self._locked:
            _, (_, descriptor) = self._locked.popitem()
            os.close(descriptor)


def _locked(path: Path) -> int | None:
    """Return a descriptor that holds the lock ``path``; ``None`` when another one does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
