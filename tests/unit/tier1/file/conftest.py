"""Folders in memory, for tests that run a file log hundreds of times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory_folder import folder_in_memory


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory when there is room, else the usual one."""
    with folder_in_memory(tmp_path) as folder:
        yield folder
