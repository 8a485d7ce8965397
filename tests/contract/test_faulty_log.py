"""A log wrapped in the layer of faults keeps the contract while nothing is made to fail."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from siltstone.core.fenced_log import FencedLog, ReplaceableLog
from siltstone.testing.faults.faulty_fenced_log import METHODS, FaultyFencedLog
from siltstone.testing.fenced_log_contract import FencedLogContract
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import forget_logs


class TestFaultyLog(FencedLogContract):
    @pytest.fixture(autouse=True)
    def _forget(self) -> Iterator[None]:
        yield
        forget_logs("faulty")

    def open_log(self) -> FencedLog:
        return FaultyFencedLog(MemoryFencedLog("faulty", 3))

    def crash(self, log: FencedLog) -> None:
        assert isinstance(log, FaultyFencedLog)
        assert isinstance(log.inner, MemoryFencedLog)
        log.inner.abandon()


def test_every_method_of_the_contract_is_passed_on() -> None:
    names = {name for name in vars(FencedLog) if not name.startswith("_")}
    own = vars(FaultyFencedLog)
    assert names <= set(own)
    for name in names:
        wanted = inspect.getattr_static(FencedLog, name)
        if inspect.isfunction(wanted):
            assert inspect.signature(own[name]) == inspect.signature(wanted), name
    calls = {name for name in names if callable(getattr(FencedLog, name))}
    more = {name for name in vars(ReplaceableLog) if not name.startswith("_")}
    assert calls | more == METHODS
    assert set(own) >= METHODS
