"""The memory log keeps the contract of tier-1 logs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from siltstone.core.fenced_log import FencedLog
from siltstone.testing.fenced_log_contract import FencedLogContract
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import forget_logs


class TestMemoryLog(FencedLogContract):
    @pytest.fixture(autouse=True)
    def _forget(self) -> Iterator[None]:
        yield
        forget_logs("contract")

    def open_log(self) -> FencedLog:
        return MemoryFencedLog("contract", 3)

    def crash(self, log: FencedLog) -> None:
        assert isinstance(log, MemoryFencedLog)
        log.abandon()
