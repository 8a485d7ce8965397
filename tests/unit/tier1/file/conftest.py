"""Folders in memory, for tests that run a file log hundreds of times."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
ROOM_BYTES = 256 << 20


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory when there is room, else the usual one."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield tmp_path
        return
    try:
        folder = tempfile.TemporaryDirectory(dir=MEMORY)
    except OSError:
        yield tmp_path
        return
    with folder as name:
        yield Path(name)
