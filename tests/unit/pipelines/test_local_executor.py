"""How many packs a local executor runs at a time, depending on what they wait for."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

import pytest

from siltstone.core.constants import KIB, MIB
from siltstone.core.environment import SystemEnvironment
from siltstone.pipelines import local_executor
from siltstone.pipelines.local_executor import LocalExecutor
from siltstone.pipelines.work import OK, ItemOutcome, Step

BYTES = bytes(64 * KIB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """An item."""

    value: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """Work that does the same for each item."""

    step: Callable[[Number], None]
    rate: int | None = None

    @contextmanager
    def open(self, openings: int = 1) -> Iterator[Step]:
        def step(item: Number) -> ItemOutcome:
            self.step(item)
            return ItemOutcome(subject=str(item.value), status=OK, length=item.size)

        yield step


def packs(size: int, count: int = 8, items: int = 50) -> list[list[Number]]:
    return [[Number(value=items * p + n, size=size) for n in range(items)] for p in range(count)]


class Meeting:
    """A step at which threads wait for each other, for a moment at most."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2)
        self.met = 0

    def __call__(self, item: Number) -> None:
        try:
            self.barrier.wait(0.001)
        except threading.BrokenBarrierError:
            self.barrier.reset()
        else:
            self.met += 1


def test_packs_that_wait_are_done_side_by_side() -> None:
    meeting = Meeting()
    found = list(LocalExecutor(2).run(Doing(step=meeting), packs(16 * KIB)))
    assert len(found) == len({outcome.subject for outcome in found}) == 400
    assert meeting.met > 0


@pytest.mark.parametrize(("size", "alone"), [(16 * KIB, True), (4 * MIB, False)])
def test_small_items_without_waits_are_done_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch, size: int, alone: bool
) -> None:
    if alone:
        # A short pause of the machine does not count as waiting for storage.
        monkeypatch.setattr(local_executor, "_PATIENCE_S", 3_600.0)
    inside: set[int] = set()
    most = [0]
    started = threading.Event()

    def step(item: Number) -> None:
        inside.add(threading.get_ident())
        sha256(BYTES)  # lets other threads have the interpreter
        most[0] = max(most[0], len(inside))
        if not alone and not started.is_set() and len(inside) < 2:
            started.wait(60)  # other threads begin large packs meanwhile
        started.set()
        if item.value % 50 in (31, 49):
            inside.discard(threading.get_ident())

    found = list(LocalExecutor(4).run(Doing(step=step), packs(size)))
    assert len({outcome.subject for outcome in found}) == 400
    assert (most[0] == 1) is alone


@pytest.mark.parametrize("waits", [False, True])
def test_more_threads_than_cores_do_large_items_once_storage_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(local_executor, "_PATIENCE_S", 3_600.0)
    # On a machine that is busy with other work, the two cannot be told apart.
    monkeypatch.setattr(time, "thread_time", lambda: 0.0 if waits else time.monotonic())
    inside: set[int] = set()
    most = [0]
    both = threading.Event()

    def step(item: Number) -> None:
        inside.add(item.value)
        most[0] = max(most[0], len(inside))
        if len(inside) > 1:
            both.set()
        if waits and item.value:
            assert both.wait(30)
        sha256(BYTES)
        inside.discard(item.value)

    work = [[Number(value=value, size=8 * MIB)] for value in range(20)]
    assert len(list(LocalExecutor(4).run(Doing(step=step), work))) == 20
    assert (most[0] > 1) is waits


def test_a_large_pack_that_takes_long_is_not_waited_for_before_the_others_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    all_of_them = threading.Barrier(4, timeout=30)

    def step(_: Number) -> None:
        all_of_them.wait()

    work = [[Number(value=value, size=8 * MIB)] for value in range(4)]
    assert len(list(LocalExecutor(4).run(Doing(step=step), work))) == 4


LONG_S = 3_600.0
"""Far longer than a test may take."""


@pytest.mark.parametrize("size", [1, 8 * MIB], ids=["small", "large"])
def test_a_caller_that_stops_early_waits_for_no_pause(size: int) -> None:
    """Such as a pause for a rate: begun items end there, and others are never begun."""
    environment = SystemEnvironment()
    begun: list[int] = []
    ended: list[int] = []

    def step(item: Number) -> None:
        begun.append(item.value)
        if item.value:
            environment.pause(LONG_S)
        ended.append(item.value)

    work = [[Number(value=value, size=size)] for value in range(20)]
    found = LocalExecutor(2).run(Doing(step=step), work)
    assert isinstance(found, Generator)
    assert next(found).subject == "0"
    found.close()
    assert ended == [0]
    assert len(begun) <= 1 + 2, "no more than the threads"


@pytest.mark.slow
def test_of_packs_that_fail_at_once_the_first_error_is_all_that_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk fails all packs; asyncio prints a traceback of each one that is not awaited."""

    def failed(*_: object) -> asyncio.Future[list[ItemOutcome]]:
        future: asyncio.Future[list[ItemOutcome]] = asyncio.get_running_loop().create_future()
        future.set_exception(OSError("no space"))
        return future

    monkeypatch.setattr(SystemEnvironment, "run_blocking", failed)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(OSError, match="no space"):
        list(LocalExecutor(2).run(Doing(step=lambda _: None), packs(MIB)))
    gc.collect()
    assert "never retrieved" not in caplog.text
