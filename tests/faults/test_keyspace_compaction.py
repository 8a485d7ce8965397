"""Every call of a value compaction meets every fault, and an owner is overtaken at every one.

What may fail: one call to long-term storage or the log, of a compaction, of what it leaves to be
deleted, or of the opening after it: refused; lost; applied with its reply lost; applied by half;
answered too late; no room; or the process dies before the call or after it. Or another owner takes
over just before the call. What must hold: every value is there, and nothing that was deleted;
records alone give the same; a compaction that is repeated reaches its end; then no value segment
lies there that no row names.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from siltstone.core.environment import Pool
from siltstone.core.errors import CorruptDataError, SiltstoneError
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from tests.support.container.container_world import World, world
from tests.support.faults.failing_calls import SETTINGS, Faults, fates_of, run_watched
from tests.support.objects.compaction_life import CompactionLife, check_lying, imports_into
from tests.support.objects.space_world import open_owner
from tests.support.soak import shared

SAMPLE = 24
ATTEMPTS_MAX = 12
RUNS_MAX = 20
LATE_S = 300.0
"""Longer than any call is late, and than two rounds of upkeep."""


async def some_to_compact(life: CompactionLife, plan: FaultPlan | None = None) -> None:
    """Objects that stay and objects that go, deleted and expired ones, in many segments."""
    await life.begin(plan)
    await life.change([(("o", f"k{number}"), b"%d" % number * 60, None) for number in range(8)])
    await life.change([(("o", "ends"), b"e" * 50, 20), (("x", "kept"), b"x" * 100, None)])
    for number in range(6):
        await life.change([(("o", f"k{key}"), b"%d" % number * 80, None) for key in (1, 2, 5)])
        await life.change([(("o", f"large{number % 2}"), b"%d" % number * 2_000, None)])
    await life.change([(("o", "k0"), None, None), (("x", "kept"), b"y", None)])
    await life.change([(("o", "last"), b"%d" % number * 40, None) for number in range(14)])
    await life.world.environment.sleep(60)
    await life.space.reap()
    await life.settled()
    await life.process.store.flush()


async def again(life: CompactionLife, faults: Faults) -> None:
    """Compact until nothing is worth it, in the next process when one has died."""
    failure: SiltstoneError | None = None
    for _ in range(ATTEMPTS_MAX):
        try:
            await living(life, faults)
            for _ in range(RUNS_MAX):
                if not (await life.space.compact()).run:
                    return
            raise AssertionError("compaction does not come to an end")
        except CorruptDataError:
            raise  # no byte is damaged
        except SiltstoneError as error:
            failure = error
            await life.world.environment.sleep(2)
    raise AssertionError("the step never succeeds") from failure


async def living(life: CompactionLife, faults: Faults) -> None:
    """A process whose keyspace is open."""
    if faults.dying:
        if life.opened is not None:
            await life.end(dies=True)
        for log in faults.logs:
            log.abandon()
        faults.dying = False
    if life.opened is None:
        life.opened = await open_owner(life.world, plan=faults.log_plan)
    if life.keyspace is None:
        life.keyspace = await life.opened.keyspace()


async def compact(life: CompactionLife, faults: Faults) -> None:
    await again(life, faults)


async def reopen(life: CompactionLife, faults: Faults) -> None:
    """The owner after one whose last compaction was never named, and whose tasks are not done."""
    await again(life, faults)


async def unnamed(life: CompactionLife, plan: FaultPlan) -> None:
    """Leave a process whose compaction ended between its two commits."""
    await some_to_compact(life, plan)

    async def fails(*_: object) -> None:
        raise SiltstoneError("the process is dead")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("siltstone.objects.value_compaction.ValueCompaction._switch", fails)
        with pytest.raises(SiltstoneError, match="dead"):
            await life.space.compact(2)
    await life.end(dies=True)


OPERATIONS = {"compact": (some_to_compact, compact), "reopen": (unnamed, reopen)}


def play(name: str, number: int = 0, fate: str = "") -> Faults:
    """Play an operation with one of its calls failing, and look at what came of it."""
    before, act = OPERATIONS[name]
    faults = Faults(number, fate)

    async def operated(made: World) -> None:
        life = CompactionLife(made)
        made.storage_hook = faults.watch
        await before(life, faults.log_plan)
        faults.armed = True
        await act(life, faults)
        faults.armed = False
        await living(life, faults)
        await life.world.environment.sleep(LATE_S)
        await life.check()
        await life.reopen(dies=False)
        await life.change([(("o", "after"), b"after", None), (("o", "k3"), None, None)])
        await again(life, faults)
        await life.world.environment.sleep(LATE_S)
        seen = await life.check()
        assert not seen.tasks
        await check_lying(life.space, seen)

    with world(settings=SETTINGS) as made, pytest.MonkeyPatch.context() as patch:
        imports_into(made, patch)

        run_watched(made, faults, operated(made))
    return faults


def cases(name: str) -> list[tuple[int, str]]:
    """Every call of an operation with every fate that it may have."""
    return fates_of(play(name))


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_some_calls_fail(name: str) -> None:
    every = cases(name)
    for number, fate in Random(name).sample(every, min(SAMPLE, len(every))):
        play(name, number, fate)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_call_fails(name: str) -> None:
    for number, fate in shared(cases(name)):
        play(name, number, fate)


# --- another owner in the middle ------------------------------------------------------------------


def overtake(number: int) -> int:
    """Let another owner take over before a call of a compaction; return how many calls it has.

    It changes, compacts and reads; then the old one continues.
    """
    calls = 0

    async def operated(made: World) -> None:
        nonlocal calls
        life, newer = CompactionLife(made), CompactionLife(made)
        await some_to_compact(life)
        newer.model = life.model
        run_blocking = made.environment.run_blocking

        async def counting(pool: Pool, call: Callable[[], Any]) -> Any:
            nonlocal calls
            if newer.opened is None:
                calls += 1
                if calls == number:
                    await take_over()
            return await run_blocking(pool, call)

        async def take_over() -> None:
            newer.opened = await open_owner(made, takeover=True, index="newer")
            newer.keyspace = await newer.opened.keyspace()
            await newer.change([(("o", "k3"), None, None), (("o", "new"), b"new", None)])
            await newer.compact(8)

        made.environment.run_blocking = counting  # type: ignore[method-assign]
        try:
            await life.space.compact()
        except SiltstoneError:
            assert newer.opened is not None, "nothing else failed"
        made.environment.run_blocking = run_blocking  # type: ignore[method-assign]
        if newer.opened is None:
            return
        await newer.check()
        await life.world.environment.sleep(LATE_S)
        await life.end(dies=True)
        await check_lying(newer.space, await newer.check())
        await again(newer, Faults())
        await check_lying(newer.space, await newer.check())

    with world(settings=SETTINGS) as made, pytest.MonkeyPatch.context() as patch:
        imports_into(made, patch)
        try:
            made.run(operated(made))
        except BaseException as error:
            error.add_note(f"overtaken at call {number}")
            raise
    return calls


def test_an_owner_that_is_overtaken_at_some_calls_changes_nothing() -> None:
    every = range(1, overtake(0) + 1)
    for number in Random(1).sample(every, min(SAMPLE, len(every))):
        overtake(number)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_an_owner_that_is_overtaken_at_any_call_changes_nothing() -> None:
    for number in shared(range(1, overtake(0) + 1)):
        overtake(number)
