"""The rules of garbage collection rounds: when, how often, in which order."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from siltstone.container.garbage.collector import NEVER_MS, RETRY_MS, RETRY_MS_MAX
from siltstone.core.chunk_names import data_chunk, data_prefix
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import (
    ChunkUnavailableError,
    Outcome,
    OutcomeUnknownError,
    SiltstoneError,
    StorageSuspendedError,
)
from siltstone.core.metrics import GARBAGE, Metric, Metrics
from siltstone.core.records.pin import Pin, encode_pin
from siltstone.core.records.task import Task, TaskStage
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from tests.support import inside
from tests.support.container.container_world import Owner, World, close_quietly, pattern
from tests.support.container.planted_garbage import (
    EPOCH,
    FIRST_ID,
    SETTINGS,
    garbage,
    left,
    now_ms,
    owned,
    put,
    tasks,
)

pytestmark = pytest.mark.virtual_time


def failing_deletes(call: StorageCall) -> Fate:
    return Fate.REFUSED if call.operation == "delete" else Fate.DONE


class Outcomes(Metrics):
    """The outcomes of deletions, one after another."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        if metric is GARBAGE:
            self.seen += labels


def outcomes(owner: Owner) -> list[str]:
    metrics = inside.parts(owner.container).collector._metrics = Outcomes()
    return metrics.seen


async def test_a_task_is_carried_out_from_its_due_time_on() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        due_ms = now_ms(made) + 5_000
        await put(owner, [garbage(made, 0, due_ms=due_ms), garbage(made, 1, due_ms=due_ms + 1)])
        made.environment.clock.now += 4.999
        assert await owner.container.collect() == 0
        assert left(made) == [0, 1]
        made.environment.clock.now += 0.001
        assert now_ms(made) == due_ms
        assert await owner.container.collect() == 1
        assert left(made) == [1]


async def test_only_what_the_flushed_table_log_covers_and_no_pin_keeps_is_deleted() -> None:
    async with owned() as (made, owner):
        container = owner.container
        await container.flush()
        covered = inside.parts(container).pipeline.replica.table_flushed
        assert covered > 2
        versions = [covered - 2, covered - 1, covered, covered + 1]
        await put(
            owner,
            [garbage(made, n, dropped_version=version) for n, version in enumerate(versions)],
        )
        pin = Pin(
            lineage=inside.parts(container).journal.lineage,
            version=covered - 1,
            expires_ms=now_ms(made) + 10_000,
        )
        made.new_storage().create("system/pins/0-mine", [encode_pin(pin)])
        assert await container.collect() == 2
        assert left(made) == [2, 3]
        assert await container.collect() == 0
        made.new_storage().delete("system/pins/0-mine")
        assert await container.collect() == 1
        assert left(made) == [3]
        await container.flush()
        assert await container.collect() == 1
        assert tasks(owner) == []


async def test_a_deletion_is_stated_and_acknowledged_in_this_epoch_before_it_begins() -> None:
    """Also when an older owner had stated it."""
    async with owned() as (made, owner):
        await owner.container.append("a", pattern(1, 1_000))
        await owner.container.flush()
        await owner.container.truncate("a", 1_000)
        await owner.container.collect()
        await owner.container.flush()
        (dropped,) = tasks(owner)
        await put(owner, [replace(garbage(made, 0), stage=TaskStage.STATED)])
        made.environment.clock.now += 11
        newer = await made.open(takeover=True, index="newer")
        begin = made.shared_log.frames[-1].index
        seen = []

        def stated(operation: str, name: str) -> None:
            if operation == "delete" and name.startswith(data_prefix(0)):
                frames = [frame for frame in made.shared_log.frames if frame.index > begin]
                (task,) = (task for task in tasks(newer) if task.name == name)
                named = [frame for frame in frames if name.encode() in frame.body]
                assert [frame.epoch for frame in named] == [newer.container.epoch]
                assert task.stage is TaskStage.STATED
                assert newer.rows.chunk(task.subject) is None
                seen.append(name)

        newer.storage.before = stated
        assert await newer.container.collect() == 2
        assert sorted(seen) == sorted([dropped.name, data_chunk(0, EPOCH, "gone", 0, FIRST_ID)])
        assert made.names(data_prefix(0)) == []
        await close_quietly(newer)


@pytest.mark.parametrize("applied", [False, True])
async def test_without_the_acknowledgement_nothing_is_deleted(applied: bool) -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        await put(owner, [garbage(made, 0)])
        owner.log.plan.fail("append", applied=applied)
        with pytest.raises(OutcomeUnknownError):
            await owner.container.collect()
        assert left(made) == [0]


async def test_each_failure_waits_twice_as_long_up_to_an_hour() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        seen = outcomes(owner)
        await put(owner, [garbage(made, 0)])
        owner.storage.plan = failing_deletes
        for attempt in range(1, 9):
            with pytest.raises(ChunkUnavailableError, match="injected") as caught:
                await owner.container.collect()
            (task,) = tasks(owner)
            wait_ms = min(60_000 * 2 ** (attempt - 1), 3_600_000)
            assert task.due_ms - now_ms(made) == wait_ms
            assert (task.attempts, task.stage) == (attempt, TaskStage.STATED)
            assert (task.dropped_version, task.reason) == (1, str(caught.value))
            made.environment.clock.now += wait_ms / 1000
        assert wait_ms == RETRY_MS_MAX
        with pytest.raises(ChunkUnavailableError) as caught:
            await owner.container.collect()
        (task,) = tasks(owner)
        assert (task.due_ms, task.attempts, task.stage) == (NEVER_MS, 9, TaskStage.FAILED)
        assert task.reason == str(caught.value)
        assert seen == ["retried"] * 8 + ["set_aside"]
        assert left(made) == [0]


async def test_a_deletion_that_was_not_sent_is_no_attempt() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        seen = outcomes(owner)
        await put(owner, [garbage(made, 0)])

        def suspended(operation: str, name: str) -> None:
            if operation == "delete":
                raise StorageSuspendedError(
                    "silent", chunk=name, operation=operation, outcome=Outcome.NOT_APPLIED
                )

        owner.storage.before = suspended
        for _ in range(SETTINGS.garbage_attempts + 1):
            with pytest.raises(StorageSuspendedError):
                await owner.container.collect()
            (task,) = tasks(owner)
            assert (task.attempts, task.due_ms - now_ms(made)) == (0, RETRY_MS)
            made.environment.clock.now += RETRY_MS / 1000
        owner.storage.before = lambda operation, name: None
        assert await owner.container.collect() == 1
        assert seen == ["not_sent"] * (SETTINGS.garbage_attempts + 1) + ["deleted"]


async def test_what_fails_keeps_nothing_else_from_its_turn() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        seen = outcomes(owner)
        planted = [garbage(made, number) for number in range(3)]
        await put(owner, planted)
        owner.storage.plan = lambda call: (
            Fate.REFUSED if call.name == planted[1].name else Fate.DONE
        )
        made.new_storage().delete(planted[2].name)
        with pytest.raises(ChunkUnavailableError):
            await owner.container.collect()
        assert left(made) == [1]
        assert [(task.name, task.attempts) for task in tasks(owner)] == [(planted[1].name, 1)]
        assert sorted(seen) == ["deleted", "deleted", "retried"]


async def test_a_chunk_whose_deletion_was_not_confirmed_is_tried_again() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        await put(owner, [garbage(made, 0), garbage(made, 1)])
        fates = iter((Fate.LOST_REPLY, Fate.LOST_CALL))
        owner.storage.plan = lambda call: next(fates) if call.operation == "delete" else Fate.DONE
        with pytest.raises(ChunkUnavailableError):
            await owner.container.collect()
        assert left(made) == [1]
        assert len(tasks(owner)) == 2
        owner.storage.plan = lambda call: Fate.DONE
        made.environment.clock.now += 60
        assert await owner.container.collect() == 2
        assert (left(made), tasks(owner)) == ([], [])


@pytest.mark.slow
async def test_more_tasks_than_a_slice_are_all_carried_out_in_one_round() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        count = ROWS_PER_SLICE + 2
        planted = [garbage(made, number) for number in range(count)]
        await put(owner, planted[:800])
        await put(owner, planted[800:])
        assert await owner.container.collect() == count
        assert (left(made), tasks(owner)) == ([], [])


def set_aside(made: World, number: int) -> Task:
    return replace(
        garbage(made, number),
        due_ms=NEVER_MS,
        stage=TaskStage.FAILED,
        attempts=SETTINGS.garbage_attempts,
        reason="why",
    )


async def test_a_replay_begins_again_with_all_that_was_set_aside_and_with_nothing_else() -> None:
    async with owned() as (made, owner):
        container = owner.container
        count = ROWS_PER_SLICE + 2
        waiting = garbage(made, count, due_ms=now_ms(made) + 5_000)
        planted = [set_aside(made, number) for number in range(count)]
        await put(owner, [waiting, *planted[:700]])
        await put(owner, planted[700:])
        owner.storage.plan = failing_deletes
        assert await container.collect() == 0
        assert await container.garbage.replay() == count
        *first, last = owner.rows.tasks(2**63, limit=2 * count)
        assert last == waiting
        again = {"due_ms": now_ms(made), "stage": TaskStage.OPEN, "attempts": 0, "reason": ""}
        assert first == [replace(task, **again) for task in planted]  # type: ignore[arg-type]
        assert await container.garbage.replay() == 0


async def test_a_replay_wakes_the_background() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        await put(owner, [set_aside(made, 0)])
        await made.environment.sleep(1)
        await owner.container.garbage.replay()
        await made.environment.sleep(1)
        assert left(made) == []


async def test_what_is_set_aside_is_told_once_and_loudly(caplog: pytest.LogCaptureFixture) -> None:
    async with owned(replace(SETTINGS, garbage_attempts=1)) as (made, owner):
        await owner.container.flush()
        task = garbage(made, 0)
        await put(owner, [task])
        owner.storage.plan = failing_deletes
        with caplog.at_level(logging.ERROR, "siltstone.container.garbage.collector"):
            with pytest.raises(ChunkUnavailableError) as caught:
                await owner.container.collect()
            assert await owner.container.collect() == 0
        told = [record.getMessage() for record in caplog.records]
        assert told == [f"chunk cannot be deleted: chunk={task.name} {caught.value}"]


async def test_the_background_works_by_itself_and_continues_after_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with owned(replace(SETTINGS, garbage_interval_s=30.0)) as (made, owner):
        container = owner.container
        await container.flush()
        await put(owner, [garbage(made, 0, due_ms=now_ms(made) + 50_000)])
        await made.environment.sleep(49)
        assert left(made) == [0]
        owner.storage.plan = failing_deletes
        await made.environment.sleep(32)
        assert left(made) == [0]
        error = container.stats().last_error
        assert "injected" in str(error)
        messages = [record.getMessage() for record in caplog.records]
        assert f"garbage collection failed: {error}" in messages
        owner.storage.plan = lambda call: Fate.DONE
        await made.environment.sleep(100)
        assert left(made) == []
        assert container.stats().last_error is None


async def test_a_failed_listing_of_pins_deletes_nothing() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        await put(owner, [garbage(made, 0)])
        owner.storage.plan = lambda call: (
            Fate.REFUSED if call.name.startswith("system/pins/") else Fate.DONE
        )
        with pytest.raises(SiltstoneError, match="injected"):
            await owner.container.collect()
        assert left(made) == [0]
        (task,) = tasks(owner)
        assert task.attempts == 0


async def test_one_round_at_a_time() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        await put(owner, [garbage(made, number) for number in range(5)])
        made.environment.latency = lambda pool, _: 1.0
        both = await asyncio.gather(owner.container.collect(), owner.container.collect())
        assert sorted(both) == [0, 5]
        deletes = [call.name for call in owner.storage.calls if call.operation == "delete"]
        assert len(deletes) == len(set(deletes)) == 5


# --- the verb -------------------------------------------------------------------------------------


async def test_a_run_deletes_what_its_own_flush_of_the_table_log_covers() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        before = inside.parts(owner.container).pipeline.replica.table_flushed
        planted = [garbage(made, 0), garbage(made, 1, dropped_version=before + 1)]
        await put(owner, planted)
        assert await owner.container.garbage.run() == 2
        assert (left(made), tasks(owner)) == ([], [])


async def test_a_run_continues_after_a_failure_and_raises_the_first_one() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        before = inside.parts(owner.container).pipeline.replica.table_flushed
        planted = [garbage(made, 0), garbage(made, 1, dropped_version=before + 1)]
        await put(owner, planted)
        owner.storage.plan = lambda call: (
            Fate.REFUSED if call.name == planted[0].name else Fate.DONE
        )
        with pytest.raises(ChunkUnavailableError, match="injected"):
            await owner.container.garbage.run()
        assert left(made) == [0]
