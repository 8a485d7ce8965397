"""Garbage: attempts, reasons, what is set aside, what holds it, slices; all on virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest

from siltstone.container.models.garbage import GarbageStatus
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.chunk_names import data_prefix
from siltstone.core.errors import ChunkError, CorruptDataError
from siltstone.core.records.keys import METADATA_TABLE, RowKind
from siltstone.core.records.pin import Pin, encode_pin
from siltstone.core.records.table_record import TableEntry
from siltstone.core.records.task import Task, TaskKind, TaskStage
from siltstone.metadata.assigned_update import AssignedUpdate
from siltstone.metadata.changes import put_task
from siltstone.metadata.tables import Tables
from siltstone.segments.trim import plan_remove
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from tests.support import inside
from tests.support.container import planted_garbage as collecting
from tests.support.container.container_world import (
    Owner,
    World,
    all_chunks,
    pattern,
    with_settings,
    world,
)

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(garbage_delay_s=10.0, garbage_interval_s=1e6, garbage_attempts=3)


@asynccontextmanager
async def owned(settings: ContainerSettings = SETTINGS) -> AsyncIterator[tuple[World, Owner]]:
    async with world(settings=settings) as made:
        owner = await made.open()
        await owner.container.create("a")
        yield made, owner
        assert owner.container.failure is None
        await made.check(owner)
        await owner.container.close()


async def dropped_chunk(owner: Owner) -> None:
    """Leave one chunk with a task."""
    container = owner.container
    await container.append("a", pattern(1, 9_000))
    await container.flush()
    await container.truncate("a", 9_000)
    await container.collect()
    await container.flush()


async def status(owner: Owner) -> GarbageStatus:
    return await owner.container.garbage.status()


def no_deletes(call: StorageCall) -> Fate:
    return Fate.REFUSED if call.operation == "delete" else Fate.DONE


async def failing_round(owner: Owner) -> None:
    with pytest.raises(ChunkError, match="injected"):
        await owner.container.garbage.run()


def deletions(owner: Owner) -> int:
    calls = owner.storage.calls
    return sum(c.operation == "delete" and c.name.startswith(data_prefix(0)) for c in calls)


async def test_what_waits_is_told_with_its_reason() -> None:
    async with owned() as (made, owner):
        await dropped_chunk(owner)
        found = await status(owner)
        assert (found.delayed, found.due, found.uncovered, found.held) == (1, 0, 0, 0)
        assert found.next_due_ms is not None
        await made.environment.sleep(11)
        assert (await status(owner)).due == 1
        assert await owner.container.garbage.run() == 1
        found = await status(owner)
        assert (found.delayed, found.due) == (0, 0)
        assert not made.names(data_prefix(0))


async def test_a_pin_holds_what_was_dropped_after_it() -> None:
    async with owned() as (made, owner):
        container = owner.container
        pin = Pin(
            lineage=inside.parts(container).journal.lineage,
            version=container.stats().table_version,
            expires_ms=int((made.environment.time() + 100) * 1000),
        )
        made.new_storage().create("system/pins/0-mine", [encode_pin(pin)])
        await dropped_chunk(owner)
        await made.environment.sleep(20)
        found = await status(owner)
        assert found.held == 1
        assert [(p.name, p.holds) for p in found.pins] == [("system/pins/0-mine", 1)]
        assert await container.garbage.run() == 0
        await made.environment.sleep(100)
        assert await container.garbage.run() == 1


@pytest.mark.slow
async def test_every_pin_counts_however_many_there_are() -> None:
    async with owned() as (made, owner):
        container = owner.container
        storage = made.new_storage()
        expires_ms = int((made.environment.time() + 1e6) * 1000)
        lineage = inside.parts(container).journal.lineage
        later = Pin(lineage=lineage, version=2**40, expires_ms=expires_ms)
        for number in range(1_100):
            storage.create(f"system/pins/0-{number:06d}", [encode_pin(later)])
        oldest = Pin(lineage=lineage, version=0, expires_ms=expires_ms)
        storage.create("system/pins/0-z", [encode_pin(oldest)])
        await dropped_chunk(owner)
        await made.environment.sleep(20)
        assert await container.garbage.run() == 0
        assert (await status(owner)).held == 1


async def test_attempts_are_bounded_and_each_wait_is_longer() -> None:
    async with owned() as (made, owner):
        await dropped_chunk(owner)
        await made.environment.sleep(11)
        owner.storage.plan = no_deletes
        waits = []
        for _ in range(SETTINGS.garbage_attempts):
            found = await status(owner)
            if found.next_due_ms is not None:
                wait_s = found.next_due_ms / 1000 - made.environment.time()
                waits.append(wait_s)
                await made.environment.sleep(wait_s + 0.01)
            await failing_round(owner)
        assert len(waits) == 2
        assert waits[1] > 1.5 * waits[0]
        found = await status(owner)
        assert (found.failed_count, found.due, found.delayed) == (1, 0, 0)
        (failed,) = found.failed
        assert failed.attempts == 3
        assert "injected: refused" in failed.reason
        tried = deletions(owner)
        made.environment.clock.now += 1e6
        await made.environment.sleep(1)
        assert await owner.container.garbage.run() == 0
        assert deletions(owner) == tried


@pytest.mark.slow
async def test_what_was_set_aside_is_replayed_by_a_later_owner() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("a")
        await dropped_chunk(owner)
        await made.environment.sleep(11)
        owner.storage.plan = no_deletes
        for _ in range(SETTINGS.garbage_attempts):
            await failing_round(owner)
            await made.environment.sleep(400)
        assert (await status(owner)).failed_count == 1
        newer = await made.open(takeover=True, index="newer")
        assert (await status(newer)).failed[0].attempts == 3
        assert await newer.container.garbage.replay() == 1
        assert await newer.container.garbage.run() == 1
        assert await newer.container.garbage.replay() == 0
        assert not made.names(data_prefix(0))
        await newer.container.close()
        await owner.container.close()


async def test_a_task_for_a_living_chunk_is_set_aside_and_stops_no_other() -> None:
    async with owned() as (made, owner):
        container = owner.container
        await dropped_chunk(owner)
        await container.append("a", pattern(2, 9_000))
        await container.flush()
        rows = owner.rows
        segment_id = rows.find("a")
        assert segment_id is not None
        chunk = rows.chunk(rows.layout(segment_id).last_chunk_id)
        assert chunk is not None
        wrong = Task(due_ms=1, kind=TaskKind.DELETE_CHUNK, subject=chunk.chunk_id, name=chunk.name)
        await inside.parts(container).pipeline.update([put_task(wrong)])
        await container.flush()
        await made.environment.sleep(11)
        with pytest.raises(CorruptDataError, match="I17"):
            await container.garbage.run()
        (failed,) = (await status(owner)).failed
        assert "I17" in failed.reason
        assert made.names(data_prefix(0)) == [chunk.name]
        assert await container.read("a", 9_000, 9_000) == pattern(2, 9_000)


@pytest.mark.slow
async def test_a_huge_segment_goes_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    assign = Tables.assign_encoded

    def counted(tables: Tables, entries: Sequence[TableEntry], encoded: bytes) -> AssignedUpdate:
        sizes.append(sum(entry.key[0] == RowKind.EXTENT for entry in entries))
        return assign(tables, entries, encoded)

    monkeypatch.setattr(Tables, "assign_encoded", counted)
    sliced = partial(plan_remove, rows_max=10)
    monkeypatch.setattr("siltstone.segments.trim.plan_remove", sliced)
    async with owned(with_settings(garbage_delay_s=0.0, chunk_bytes=2_000)) as (made, owner):
        container = owner.container
        for number in range(60):
            await container.append("a", pattern(number, 2_000))
            await container.flush("a")
        await container.delete("a")
        sizes.clear()
        await container.garbage.run()
        await made.environment.sleep(11)
        assert not made.names(data_prefix(0))
        low, high = bytes((RowKind.CHUNK,)), bytes((RowKind.CHUNK + 1,))
        assert not owner.rows._tables.scan(METADATA_TABLE, low, high)
    assert [size for size in sizes if size] == [5] * 12


async def test_a_contradiction_keeps_no_other_chunk_from_being_stated_and_deleted() -> None:
    async with owned() as (made, owner):
        container = owner.container
        await container.append("a", pattern(2, 9_000))
        await container.flush()
        (chunk,) = all_chunks(owner.rows).values()
        wrong = Task(due_ms=2, kind=TaskKind.DELETE_CHUNK, subject=chunk.chunk_id, name=chunk.name)
        around = [collecting.garbage(made, number, due_ms=due) for number, due in ((0, 1), (1, 3))]
        await inside.parts(container).pipeline.update([put_task(task) for task in (wrong, *around)])
        await container.flush()

        def stated(operation: str, name: str) -> None:
            if operation == "delete":
                found = [task for task in owner.rows.tasks(2**62) if task.name == name]
                assert [task.stage for task in found] == [TaskStage.STATED]

        owner.storage.before = stated
        told = f"I17: a chunk with a deletion task is referenced where={chunk.name}"
        with pytest.raises(CorruptDataError, match=f"^{told}$"):
            await container.collect()
        assert made.names(data_prefix(0)) == [chunk.name]
        assert [task.name for task in owner.rows.tasks(2**62)] == [chunk.name]
