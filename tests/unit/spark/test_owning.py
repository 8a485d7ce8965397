"""How long a write waits for a container: long for other writes, less for a lasting owner."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

import siltstone
from siltstone.spark import ownership
from siltstone.spark.ownership import END_WAIT_S, PLAN_WAIT_S, TURNS_WAIT_S, owned


class Clock:
    """Time that passes while a caller waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(ownership, "SystemEnvironment", lambda: made)
    return made


def held(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, owner: Callable[[float], str | None]
) -> None:
    """Let ``owner`` name the owner this many seconds from now; ``None`` for no owner."""
    begun = clock.now

    def opened(path: str, *, containers: list[int]) -> siltstone.Store:
        if name := owner(clock.now - begun):
            raise siltstone.StoreInUseError("the log is in use", owner=name)
        return siltstone.open(path, containers=containers)

    monkeypatch.setattr(ownership, "open_store", opened)


@pytest.mark.parametrize("wait_s", [PLAN_WAIT_S, END_WAIT_S])
def test_an_owner_who_stays_is_named_soon(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, wait_s: float
) -> None:
    held(monkeypatch, clock, lambda _: "somebody")
    begun = clock.now
    with pytest.raises(siltstone.StoreInUseError, match="somebody"), owned("s", 0, wait_s):
        pass
    assert wait_s <= clock.now - begun <= wait_s + 1


def test_other_writes_may_go_first_for_longer_than_one_owner_may_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    siltstone.init(tmp_path)
    busy_s = 10 * PLAN_WAIT_S
    held(monkeypatch, clock, lambda now: f"write {now // 1}" if now < busy_s else None)
    with owned(str(tmp_path), 0, PLAN_WAIT_S) as store:
        store.create("s")


def test_turns_of_others_have_an_end(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    names = count()
    held(monkeypatch, clock, lambda _: f"write {next(names)}")
    begun = clock.now
    with pytest.raises(siltstone.StoreInUseError, match="write"), owned("s", 0, PLAN_WAIT_S):
        pass
    assert TURNS_WAIT_S <= clock.now - begun <= TURNS_WAIT_S + 1
