"""Value compaction by itself: only where it is worth it, and when others do not need storage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from siltstone.container.models.health import HealthReason
from siltstone.core.errors import ChunkUnavailableError
from siltstone.objects import CompactionBusyError
from siltstone.objects.compaction_schedule import is_due, is_in_hours
from siltstone.objects.value_compaction import ValueCompaction
from siltstone.store.settings.objects_section import ObjectsSection
from tests.support.container.container_world import World
from tests.support.objects.compaction_life import CompactionLife, imports_into
from tests.support.objects.space_world import open_owner

pytestmark = pytest.mark.virtual_time

ROUND_S = 4.0
"""In virtual time every second costs the owner of a store some work, so a round begins soon."""

LONG_S = 40.0
"""Enough for some rounds, and for all compactions that they begin."""

LATE_S = 30.0
AUTO = ObjectsSection(compact="auto", head_checks=0)


@asynccontextmanager
async def a_life(
    patch: pytest.MonkeyPatch, settings: ObjectsSection = AUTO
) -> AsyncIterator[CompactionLife]:
    """An application of a keyspace with these settings, whose rounds come soon."""
    schedule = "siltstone.objects.compaction_schedule"
    for name, value in (("ROUND_EVERY_S", ROUND_S), ("REST_S", 0.5), ("LATE_S", LATE_S)):
        patch.setattr(f"{schedule}.{name}", value)
    async with World() as world:
        imports_into(world, patch)
        life = CompactionLife(world, settings=settings)
        await life.begin()
        yield life
        if life.opened is not None:
            await life.end(dies=False)


async def replaced(life: CompactionLife, count: int = 60) -> None:
    """Change two objects so often that most of the value log is not needed."""
    changes = [(("o", f"k{number % 2}"), b"%d" % number * 40, None) for number in range(count)]
    await life.change(list(changes))
    await life.settled()
    await life.process.store.flush()


async def segments(life: CompactionLife) -> int:
    return len((await life.space.parts.manifest.now()).rows)


async def reasons(life: CompactionLife) -> list[str]:
    (found,) = await life.process.store.health()
    return [reason.name for reason in found.reasons]


async def test_what_was_replaced_is_compacted_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_life(monkeypatch) as life:
        await replaced(life)
        before = await segments(life)
        assert before > 10
        await life.world.environment.sleep(LONG_S)
        assert await segments(life) < 5
        await life.check()
        assert await reasons(life) == []


@pytest.mark.parametrize("count", [0, 4])
async def test_an_idle_or_small_keyspace_costs_no_look(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async with a_life(monkeypatch) as life:
        looks = seen_runs(monkeypatch)
        await replaced(life, count)
        await life.world.environment.sleep(LONG_S)
        assert looks == []


async def test_looks_follow_use(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_life(monkeypatch) as life:
        await life.change([(("o", f"k{number:03}"), b"v" * 100, None) for number in range(100)])
        await life.settled()
        await life.process.store.flush()
        looks = seen_runs(monkeypatch)
        await life.world.environment.sleep(LONG_S)
        assert len(looks) == 1, "it found nothing, and is not repeated"
        await life.change([(("o", f"k{number:03}"), b"w" * 100, None) for number in range(5)])
        await life.world.environment.sleep(LONG_S)
        assert len(looks) == 1
        await life.change([(("o", f"k{number:03}"), b"x" * 100, None) for number in range(10)])
        await life.world.environment.sleep(LONG_S)
        assert len(looks) > 1


async def test_what_has_expired_counts_as_use(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_life(monkeypatch) as life:
        changes = [(("o", f"k{number:03}"), b"v" * 100, 50) for number in range(50)]
        await life.change(list(changes))
        await life.settled()
        await life.process.store.flush()
        await life.world.environment.sleep(LONG_S)
        before = await segments(life)
        await life.world.environment.sleep(60 + LONG_S)
        assert await segments(life) < before
        await life.check()


def seen_runs(patch: pytest.MonkeyPatch) -> list[object]:
    """Each compaction that begins from now on."""
    found: list[object] = []
    run = ValueCompaction.run

    async def seen(self: ValueCompaction, *arguments: Any, **more: Any) -> Any:
        found.append(self)
        return await run(self, *arguments, **more)

    patch.setattr(ValueCompaction, "run", seen)
    return found


async def test_where_it_is_manual_health_tells_that_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ObjectsSection(compact="manual", head_checks=0)
    async with a_life(monkeypatch, settings) as life:
        await replaced(life)
        before = await segments(life)
        await life.world.environment.sleep(LONG_S)
        assert await segments(life) == before
        assert await reasons(life) == [HealthReason.COMPACTION_NEEDED.name]
        while (await life.space.compact()).run:
            pass
        assert await reasons(life) == []


@pytest.mark.parametrize("away", [0, 2])
async def test_it_begins_in_the_hours_of_the_settings_alone(
    monkeypatch: pytest.MonkeyPatch, away: int
) -> None:
    async with World() as world:
        first = int(world.environment.time() // 3_600) % 24 + away
    hours = AUTO.model_copy(update={"compact_hours": f"{first % 24}-{(first + 2) % 24}"})
    async with a_life(monkeypatch, hours) as life:
        await replaced(life)
        before = await segments(life)
        await life.world.environment.sleep(LONG_S)
        if away:
            assert await segments(life) == before
        else:
            assert await segments(life) < 5


@pytest.mark.parametrize("what", ["is_pressed", "is_well"])
async def test_it_waits_while_storage_is_needed_for_something_else_and_says_so_after_some_time(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async with a_life(monkeypatch) as life:
        await replaced(life)
        before = await segments(life)

        async def ill(*_: object) -> bool:
            return False

        with monkeypatch.context() as patch:
            stand_in = (lambda *_: True) if what == "is_pressed" else ill
            patch.setattr(f"siltstone.objects.compaction_schedule.{what}", stand_in)
            await life.world.environment.sleep(LATE_S - ROUND_S)
            assert await reasons(life) == []
            await life.world.environment.sleep(3 * ROUND_S)
            assert await segments(life) == before
            assert await reasons(life) == [HealthReason.COMPACTION_NEEDED.name]
        await life.world.environment.sleep(LONG_S)
        assert await segments(life) < 5
        assert await reasons(life) == []


async def test_pieces_are_copied_when_changes_do_not_wait_and_a_minute_later_anyway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_life(monkeypatch) as life:
        monkeypatch.setattr("siltstone.objects.segment_copy.is_pressed", lambda *_: True)
        for gives_way in (False, True):
            changes = [
                (("o", f"kept{gives_way}{number}" if number % 5 == 0 else "often"), b"v" * 40, None)
                for number in range(50)
            ]
            await life.change(list(changes))
            await life.settled()
            await life.process.store.flush()
            begun_s = life.now_s
            report = await life.space.compact(gives_way=gives_way)
            assert report.kept
            assert (life.now_s - begun_s >= 60) == gives_way
        await life.check()


async def test_failures_are_logged_once_and_told_by_health_until_one_succeeds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def fails(*_: object, **__: object) -> None:
        raise ChunkUnavailableError("no answer", chunk="", operation="create")

    async with a_life(monkeypatch) as life:
        await replaced(life)
        with monkeypatch.context() as patch:
            patch.setattr(ValueCompaction, "run", fails)
            await life.world.environment.sleep(3 * ROUND_S)
            assert await reasons(life) == [HealthReason.COMPACTION_FAILS.name]
        told = [each for each in caplog.records if "are not compacted" in each.getMessage()]
        assert len(told) == 1
        await life.world.environment.sleep(LONG_S)
        assert await reasons(life) == []
        assert await segments(life) < 5


@pytest.mark.parametrize(
    ("compact", "count", "broken"),
    [("manual", 60, "value_uses.ValueUses.of"), ("auto", 4, "manifest.LiveManifest.now")],
)
async def test_a_look_that_failed_is_no_reason_once_the_next_one_succeeds(
    monkeypatch: pytest.MonkeyPatch, compact: Literal["manual", "auto"], count: int, broken: str
) -> None:
    async def fails(*_: object) -> None:
        raise ChunkUnavailableError("no answer", chunk="", operation="read")

    settings = ObjectsSection(compact=compact, head_checks=0)
    async with a_life(monkeypatch, settings) as life:
        await replaced(life, count)
        with monkeypatch.context() as patch:
            patch.setattr(f"siltstone.objects.{broken}", fails)
            await life.world.environment.sleep(3 * ROUND_S)
            assert await reasons(life) == [HealthReason.COMPACTION_FAILS.name]
        await life.world.environment.sleep(LONG_S)
        assert HealthReason.COMPACTION_FAILS.name not in await reasons(life)


async def test_one_runs_at_a_time_whoever_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    switch = ValueCompaction._switch

    async def slow(self: ValueCompaction, *arguments: Any) -> None:
        begun.set()
        await go.wait()
        await switch(self, *arguments)

    monkeypatch.setattr(ValueCompaction, "_switch", slow)
    async with a_life(monkeypatch) as life:
        await replaced(life)
        await begun.wait()
        with pytest.raises(CompactionBusyError):
            await life.space.compact()
        go.set()
        await life.world.environment.sleep(LONG_S)
        assert await segments(life) < 5
        go.clear()
        await replaced(life)
        before = await segments(life)
        mine = asyncio.ensure_future(life.space.compact())
        await life.world.environment.sleep(LONG_S)
        assert (await segments(life), await reasons(life)) == (before, [])
        go.set()
        assert (await mine).run
        await life.world.environment.sleep(LONG_S)
        assert await segments(life) < 5
        await life.check()


async def test_a_close_ends_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()
    switch = ValueCompaction._switch

    async def slow(self: ValueCompaction, *arguments: Any) -> None:
        begun.set()
        await asyncio.sleep(1_000_000)
        await switch(self, *arguments)

    async with a_life(monkeypatch) as life:
        await replaced(life)
        with monkeypatch.context() as patch:
            patch.setattr(ValueCompaction, "_switch", slow)
            await begun.wait()
            began_s = life.now_s
            await life.end(dies=False)
            assert life.now_s - began_s < 60
        life.opened = await open_owner(life.world)
        life.keyspace = await life.process.keyspace()
        await life.settled()
        await life.check()


@pytest.mark.parametrize(
    ("changes", "records", "due"),
    [(0, 0, False), (0, 5, False), (7, 0, False), (1, 8, True), (1, 9, False), (100, 9, True)],
)
def test_a_look_is_due_after_an_eighth_as_many_changes_as_records(
    changes: int, records: int, *, due: bool
) -> None:
    assert is_due(changes, records) == due


@pytest.mark.parametrize(
    ("hours", "inside"),
    [
        ((22, 6), [22, 23, 0, 5]),
        ((6, 22), [6, 21]),
        ((0, 24), [0, 12, 23]),
        ((23, 0), [23]),
        (None, [0, 23]),
    ],
)
def test_hours_may_go_through_midnight(hours: tuple[int, int] | None, inside: list[int]) -> None:
    found = [hour for hour in range(24) if is_in_hours(hours, 86_400 * 20_000 + hour * 3_600 + 1)]
    assert set(inside) <= set(found)
    begin, end = hours or (0, 24)
    assert len(found) == ((end - begin) % 24 or 24)
