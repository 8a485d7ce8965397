"""The logs of many containers are looked at in parallel, but not all at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import LogError
from siltstone.store.admin.inspection import Inspection

CONTAINERS = 40
AT_A_TIME = 16

Looking = Callable[[Callable[[int], int]], list[Any]]


@pytest.fixture
def environment() -> Iterator[SystemEnvironment]:
    made = SystemEnvironment()
    yield made
    made.close()


@pytest.fixture
def heads(environment: SystemEnvironment, monkeypatch: pytest.MonkeyPatch) -> Looking:
    """Looks at the logs of a store; the test supplies the look at each log."""
    manifest = SimpleNamespace(container_count=CONTAINERS)
    assembly: Any = SimpleNamespace(environment=environment, manifest=manifest)
    storage: Any = None

    def look(ask: Callable[[int], int]) -> list[Any]:
        monkeypatch.setattr(Inspection, "log_head", lambda _, container: ask(container))
        return Inspection(assembly, storage).log_heads()

    return look


def test_as_many_are_asked_at_a_time_as_there_may_be(heads: Looking) -> None:
    guard, busy, most = threading.Lock(), 0, 0
    together = threading.Barrier(AT_A_TIME)

    def ask(container: int) -> int:
        nonlocal busy, most
        with guard:
            busy += 1
            most = max(most, busy)
        if container < AT_A_TIME:
            together.wait(30)
        with guard:
            busy -= 1
        return container

    assert heads(ask) == list(range(CONTAINERS))
    assert most == AT_A_TIME


def test_when_one_fails_those_that_wait_are_not_asked(
    environment: SystemEnvironment, heads: Looking
) -> None:
    asked: list[int] = []
    proceed = threading.Event()

    def ask(container: int) -> int:
        asked.append(container)
        if container:
            proceed.wait(30)
            return container
        raise LogError("gone")

    with pytest.raises(LogError, match="gone"):
        heads(ask)
    proceed.set()
    environment.close()
    assert len(asked) <= AT_A_TIME + 1, "the thread that failed may have begun another one"
