"""What the tests of faults share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.faults.canary import Show
from tests.support.memory_folder import folder_in_memory


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: for soaks, and for tests that use a model of the disk.

    The folder of every test is there if there is room for a whole run.
    """
    with folder_in_memory(tmp_path) as folder:
        yield folder


@pytest.fixture
def show(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> Show:
    """A whole store that shows all there is to see."""
    return Show(tmp_path, monkeypatch, caplog, capfd)
