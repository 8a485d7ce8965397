"""Folders in memory, for tests that run a file log hundreds of times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.tier1.file import writer
from tests.memory_folder import folder_in_memory


@pytest.fixture(autouse=True)
def many_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """In files as small as these, so that they are used again after a few frames."""
    monkeypatch.setattr(writer, "_ZEROS_FOR_BYTE", 8)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory when there is room, else the usual one."""
    with folder_in_memory(tmp_path) as folder:
        yield folder
