"""The layer of faults gives each of the four outcomes, and poisons like a real log."""

from __future__ import annotations

import pytest

from siltstone.core.errors import LogError, Outcome, StorageFullError, StoreInUseError
from siltstone.core.records.frame import KIND_BATCH
from siltstone.testing.faults.faulty_fenced_log import FaultPlan, FaultyFencedLog
from siltstone.tier1.memory.fenced_log import MemoryFencedLog
from siltstone.tier1.memory.shared_log import SharedLog

LINEAGE = bytes(range(16))


def _log(plan: FaultPlan) -> tuple[FaultyFencedLog, SharedLog]:
    shared = SharedLog()
    return FaultyFencedLog(MemoryFencedLog("x", 0, shared=shared), plan), shared


def _claim(log: FaultyFencedLog) -> int:
    return log.claim(lineage=LINEAGE, new=True, above=0, takeover=False, owner="a")


@pytest.mark.parametrize("applied", [True, False])
def test_an_append_of_unknown_outcome_poisons(applied: bool) -> None:
    plan = FaultPlan()
    log, shared = _log(plan)
    _claim(log)
    log.append([b"a"], count=1)
    plan.fail("append", applied=applied)
    with pytest.raises(LogError) as caught:
        log.append([b"b"], count=1)
    assert caught.value.outcome is Outcome.UNKNOWN
    assert shared.end == (2 if applied else 1)
    for call in (log.end, log.first, lambda: log.append([b"c"], count=1)):
        with pytest.raises(LogError, match="poisoned"):
            call()
    log.close()
    log.close()
    assert {frame.kind for frame in shared.frames} == {KIND_BATCH}
    assert not shared.is_held


def test_a_full_disk_poisons_nothing() -> None:
    plan = FaultPlan()
    log, shared = _log(plan)
    _claim(log)
    plan.fail("append", applied=False, error=StorageFullError("injected"))
    with pytest.raises(StorageFullError):
        log.append([b"a"], count=1)
    assert log.append([b"a"], count=1) == 0
    assert shared.end == 1


def test_a_refused_claim_poisons_nothing() -> None:
    plan = FaultPlan()
    log, _ = _log(plan)
    plan.fail("claim", applied=False, error=StoreInUseError("injected", owner="b"))
    with pytest.raises(StoreInUseError):
        _claim(log)
    assert _claim(log) == 1


@pytest.mark.parametrize("applied", [True, False])
def test_a_claim_or_truncation_of_unknown_outcome_poisons(applied: bool) -> None:
    plan = FaultPlan()
    log, shared = _log(plan)
    plan.fail("claim", applied=applied)
    with pytest.raises(LogError):
        _claim(log)
    assert shared.epoch == int(applied)
    with pytest.raises(LogError, match="poisoned"):
        _claim(log)

    log, shared = _log(plan)
    _claim(log)
    log.append([b"a"], count=1)
    plan.fail("truncate", applied=applied)
    with pytest.raises(LogError):
        log.truncate(1)
    assert shared.first == int(applied)
    with pytest.raises(LogError, match="poisoned"):
        log.end()


def test_a_log_may_lie() -> None:
    plan = FaultPlan()
    log, shared = _log(plan)
    _claim(log)
    plan.lie("append", answer=0)
    assert log.append([b"a"], count=1) == 0
    assert shared.end == 0


def test_calls_are_counted_and_hooks_run_around_the_effect() -> None:
    plan = FaultPlan()
    log, shared = _log(plan)
    seen: list[tuple[str, str, int, int]] = []
    plan.before = lambda method, number: seen.append(("before", method, number, shared.end))
    plan.after = lambda method, number: seen.append(("after", method, number, shared.end))
    _claim(log)
    log.append([b"a"], count=1)
    plan.fail("append", 2, applied=True)
    log.append([b"b"], count=1)
    with pytest.raises(LogError):
        log.append([b"c"], count=1)
    assert seen == [
        ("before", "claim", 1, 0),
        ("after", "claim", 1, 0),
        ("before", "append", 1, 0),
        ("after", "append", 1, 1),
        ("before", "append", 2, 1),
        ("after", "append", 2, 2),
        ("before", "append", 3, 2),
        ("after", "append", 3, 3),
    ]
    assert plan.counts == {"claim": 1, "append": 3}
