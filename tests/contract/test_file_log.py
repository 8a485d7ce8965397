"""The file log keeps the contract of tier-1 logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone.core.constants import KIB
from siltstone.core.fenced_log import FencedLog
from siltstone.testing.fenced_log_contract import FencedLogContract
from siltstone.tier1.file.fenced_log import FileFencedLog


class TestFileLog(FencedLogContract):
    @pytest.fixture(autouse=True)
    def _folder(self, disk_path: Path) -> None:
        self.path = disk_path / "log"

    def open_log(self) -> FencedLog:
        return FileFencedLog(str(self.path), 3, file_bytes=64 * KIB)

    def crash(self, log: FencedLog) -> None:
        assert isinstance(log, FileFencedLog)
        log.abandon()

    def truncation_step(self) -> int:
        return 64 * KIB


class TestFileLogOfTheUsualSize(TestFileLog):
    """With files that hold the largest frame of all."""

    def open_log(self) -> FencedLog:
        return FileFencedLog(str(self.path), 3, file_bytes=9 * KIB * KIB)

    def fill(self, log: FencedLog, *, length: int = 1000, step: int | None = None) -> int:
        return super().fill(log, length=1000 * KIB, step=step)

    def truncation_step(self) -> int:
        return 9 * KIB * KIB
