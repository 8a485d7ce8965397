"""A folder for tests that test nothing of a disk but would wait for it all the time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 256 << 20


def memory_folder(room_bytes: int = _ROOM_BYTES) -> Path | None:
    """Return a folder in memory, or ``None`` where there is none or it has less room."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < room_bytes:
        return None
    return _MEMORY


@contextmanager
def folder_in_memory(otherwise: Path) -> Iterator[Path]:
    """Make a folder in memory and remove it at the end; where there is none, use the other one."""
    memory = memory_folder()
    if memory is None:
        yield otherwise
        return
    with TemporaryDirectory(dir=memory, prefix="siltstone-") as folder:
        yield Path(folder)
