"""Folders in memory, for tests that run a file log hundreds of times, and logs made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.core.constants import GIB
from siltstone.tier1.file import growth, writer
from tests.support.file_log.chain_world import Frames, Log
from tests.support.memory_folder import folder_in_memory


@pytest.fixture(autouse=True)
def many_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many zeros for each byte, so that such small files are used again after a few frames."""
    monkeypatch.setattr(writer, "_ZEROS_FOR_BYTE", 8)


@pytest.fixture
def whole_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file, also the first one, has the largest size."""
    monkeypatch.setattr(growth, "FIRST_BYTES", GIB)
    monkeypatch.setattr(growth, "SPARE_BYTES_MIN", GIB)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory if there is room, otherwise the usual one."""
    with folder_in_memory(tmp_path) as folder:
        yield folder


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A log whose files are made by hand."""
    return Log(tmp_path)


@pytest.fixture
def frames() -> Frames:
    """Frames for this log."""
    return Frames()
