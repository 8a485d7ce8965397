"""What a user is told about garbage: each task under one heading, counted once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from siltstone.container.garbage.collector import NEVER_MS
from siltstone.container.garbage.status import FAILED_SHOWN_MAX
from siltstone.container.models.garbage import FailedDeletion, GarbageStatus, PinStatus
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import ReadOnlyError
from siltstone.core.records.pin import Pin, encode_pin
from siltstone.core.records.task import Task, TaskKind, TaskStage
from tests.support import inside
from tests.support.container.container_world import Owner, World, close_quietly
from tests.support.container.planted_garbage import garbage, now_ms, owned, put

pytestmark = pytest.mark.virtual_time

EMPTY = GarbageStatus(
    container=0,
    due=0,
    delayed=0,
    uncovered=0,
    held=0,
    kept=0,
    next_due_ms=None,
    failed_count=0,
    failed=(),
    pins=(),
)


async def status(owner: Owner) -> GarbageStatus:
    return await owner.container.garbage.status()


def plant_pin(made: World, owner: Owner, name: str, version: int, *, ends_in_ms: int) -> PinStatus:
    expires_ms = now_ms(made) + ends_in_ms
    lineage = inside.parts(owner.container).journal.lineage
    pin = Pin(lineage=lineage, version=version, expires_ms=expires_ms)
    made.new_storage().create(f"system/pins/{name}", [encode_pin(pin)])
    return PinStatus(name=f"system/pins/{name}", version=version, expires_ms=expires_ms, holds=0)


async def test_every_task_is_told_under_the_heading_of_what_it_waits_for() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        covered = inside.parts(owner.container).pipeline.replica.table_flushed
        assert covered > 2
        now = now_ms(made)
        assert await status(owner) == EMPTY
        first = plant_pin(made, owner, "0-a", covered - 1, ends_in_ms=10_000)
        second = plant_pin(made, owner, "0-b", covered, ends_in_ms=10_000)
        plant_pin(made, owner, "0-c", 1, ends_in_ms=0)
        plant_pin(made, owner, "1-a", 1, ends_in_ms=10_000)
        failed = replace(
            garbage(made, 8, due_ms=NEVER_MS, dropped_version=covered + 1),
            stage=TaskStage.FAILED,
            attempts=5,
            reason="why",
        )
        await put(
            owner,
            [
                # Due: two deletions that nothing holds, and work that is no deletion.
                garbage(made, 0, due_ms=now, dropped_version=covered - 1),
                garbage(made, 1, due_ms=now, dropped_version=covered - 2),
                Task(due_ms=0, kind=TaskKind.REMOVE_SEGMENT, subject=77, dropped_version=2**40),
                # Held by the older of the pins.
                garbage(made, 2, due_ms=now, dropped_version=covered),
                garbage(made, 9, due_ms=now, dropped_version=covered),
                Task(due_ms=now, kind=TaskKind.FORGET_TOMBSTONE, subject=2, name="y"),
                # Not covered.
                garbage(made, 3, due_ms=now, dropped_version=covered + 1),
                garbage(made, 4, due_ms=now, dropped_version=covered + 2),
                # Later.
                garbage(made, 5, due_ms=now + 1, dropped_version=covered),
                garbage(made, 6, due_ms=now + 2, dropped_version=1),
                garbage(made, 7, due_ms=now + 3, dropped_version=1),
                Task(due_ms=now + 1, kind=TaskKind.FORGET_TOMBSTONE, subject=1, name="x"),
                # Left to a person, and what is no garbage at all.
                failed,
                Task(due_ms=now, kind=TaskKind.SWEEP, subject=0, name="x"),
                Task(due_ms=now + 9, kind=TaskKind.RETAIN, subject=0, name="x"),
            ],
        )
        told = FailedDeletion(chunk=failed.name, chunk_id=failed.subject, attempts=5, reason="why")
        expected = replace(
            EMPTY,
            due=4,
            held=2,
            uncovered=2,
            delayed=4,
            next_due_ms=now + 1,
            failed_count=1,
            failed=(told,),
            pins=(replace(first, holds=5), replace(second, holds=2)),
        )
        assert await status(owner) == expected
        made.environment.clock.now += 0.002
        found = await status(owner)
        assert (found.delayed, found.next_due_ms) == (1, now + 3)
        made.environment.clock.now += 10
        assert (await status(owner)).pins == ()


@pytest.mark.parametrize("count", [FAILED_SHOWN_MAX, FAILED_SHOWN_MAX + 1])
async def test_failures_are_counted_to_the_last_and_told_up_to_a_bound(count: int) -> None:

    assert FAILED_SHOWN_MAX == ROWS_PER_SLICE, "more than a slice of rows is read"
    async with owned() as (made, owner):
        tasks = [
            replace(garbage(made, number, due_ms=NEVER_MS), stage=TaskStage.FAILED)
            for number in range(count)
        ]
        await put(owner, tasks[:700])
        await put(owner, tasks[700:])
        found = await status(owner)
        assert found.failed_count == count
        assert [each.chunk for each in found.failed] == [
            task.name for task in tasks[:FAILED_SHOWN_MAX]
        ]


async def test_a_reader_tells_the_same_and_refuses_what_changes_anything() -> None:
    async with owned() as (made, owner):
        await put(owner, [garbage(made, 0), garbage(made, 1, due_ms=now_ms(made) + 60_000)])
        await owner.container.flush()
        plant_pin(made, owner, "0-a", 0, ends_in_ms=10_000)
        expected = await status(owner)
        assert (expected.held, expected.delayed) == (1, 1)
        await close_quietly(owner)
        reader = await made.open_reader()
        assert await reader.garbage.status() == expected
        verbs = {"collect": reader.garbage.run, "replay": reader.garbage.replay}
        for verb, refused in verbs.items():
            with pytest.raises(ReadOnlyError, match=f"opened read-only verb={verb}"):
                await refused()
        with pytest.raises(ReadOnlyError, match="opened read-only verb=sweep"):
            async for _ in reader.garbage.sweep(delete=True):
                pass
        await reader.close()
        assert len(made.names("data/c0/")) == 2
