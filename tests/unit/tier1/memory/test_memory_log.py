"""What only the memory log has: a name, dropped handles, truncation to the frame."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import forget_logs

LINEAGE = bytes(range(16))


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    forget_logs("here")


def _claimed(container: int = 0, *, new: bool = True) -> MemoryFencedLog:
    log = MemoryFencedLog("here", container)
    log.claim(lineage=LINEAGE, new=new, above=0, takeover=False, owner="a")
    return log


def test_equal_names_and_containers_share_a_log() -> None:
    _claimed(0).append([b"a"], count=1)
    assert MemoryFencedLog("here", 0).open_read().end() == 1
    assert MemoryFencedLog("here", 1).open_read().end() == 0
    assert MemoryFencedLog("there", 0).open_read().end() == 0


@pytest.mark.slow
def test_a_handle_that_is_dropped_holds_nothing() -> None:
    log = _claimed()
    log.append([b"a"], count=1)
    del log
    gc.collect()
    assert _claimed(new=False).end() == 1


def test_a_forgotten_log_is_empty() -> None:
    _claimed().append([b"a"], count=1)
    forget_logs("here")
    assert _claimed().end() == 0


def test_truncation_is_exact() -> None:
    log = _claimed()
    for _ in range(5):
        log.append([b"a"], count=1)
    log.truncate(3)
    assert log.first() == 3
