"""What a round of garbage collection does to the rows of segments: which go and which stay."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from siltstone.container.commit.concat_guard import undo_task
from siltstone.core.records.task import Task, TaskKind
from siltstone.core.records.time_row import TimeRow
from siltstone.core.records.tombstone import Tombstone
from siltstone.metadata.changes import put_task, put_time, put_tombstone
from siltstone.metadata.time_index import times_below
from siltstone.segments.trim import plan_trim
from tests.support import inside
from tests.support.container.container_world import pattern
from tests.support.container.planted_garbage import SETTINGS, garbage, now_ms, owned, put, tasks

pytestmark = pytest.mark.virtual_time


async def test_a_trim_drops_what_lies_below_the_start_and_its_times() -> None:
    async with owned() as (made, owner):
        container = owner.container
        trimmed: list[int] = []
        inside.parts(container).collector._on_trimmed = trimmed.append
        await container.create("b")
        for name in ("a", "b"):
            for number in range(3):
                await container.append(name, pattern(number, 16_384))
                await container.flush(name)
                made.environment.clock.now += 20
        await container.append("a", pattern(3, 100))
        await container.truncate("a", 2 * 16_384)
        await container.collect()
        segment_id, other = owner.rows.find("a"), owner.rows.find("b")
        assert segment_id is not None
        assert other is not None
        assert [chunk.start for chunk in await container.chunks("a")] == [2 * 16_384]
        tables = owner.rows._tables
        assert [row.offset for row in times_below(tables, segment_id, 2**63)] == [
            2 * 16_384,
            3 * 16_384,
        ]
        assert len(times_below(tables, other, 2**63)) == 3
        assert [task.kind for task in tasks(owner)] == [TaskKind.DELETE_CHUNK] * 2
        assert segment_id in trimmed
        assert other not in trimmed
        assert await container.read("a", 3 * 16_384, 100) == pattern(3, 100)


async def test_a_trim_lets_the_flushed_length_pass_bytes_that_were_never_flushed() -> None:
    async with owned() as (_, owner):
        container = owner.container
        await container.append("a", pattern(1, 1_000))
        await container.truncate("a", 900)
        await container.collect()
        segment_id = owner.rows.find("a")
        assert segment_id is not None
        assert owner.rows.layout(segment_id).storage_length >= 900
        assert await container.read("a", 900, 100) == pattern(1, 1_000)[900:]
        assert tasks(owner) == []


async def test_a_removal_leaves_no_row_of_its_segment_and_all_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    monkeypatch.setattr("siltstone.container.garbage.collector.WRITERS_PER_SLICE", 2)
    async with owned(replace(SETTINGS, pack_bytes=1)) as (_, owner):
        container = owner.container
        await container.create("b")
        ids = {}
        for name in ("a", "b"):
            await container.append(name, pattern(1, 1_000))
            for number in range(5):
                await container.register_writer(name, f"writer {number}")
            segment_id = owner.rows.find(name)
            assert segment_id is not None
            ids[name] = segment_id
            times = [TimeRow(segment_id=segment_id, offset=n, time_ms=n) for n in (1, 2)]
            await inside.parts(container).pipeline.update([put_time(row) for row in times])
        await container.flush()
        await container.delete("a")
        await container.collect()
        rows, tables = owner.rows, owner.rows._tables
        assert rows.state(ids["a"]) is None
        assert rows.writers(ids["a"]) == []
        assert [
            rows.pending_writer_number(ids["a"], f"writer {number}") for number in range(5)
        ] == [None] * 5
        assert times_below(tables, ids["a"], 2**64 - 1) == []
        assert len(rows.writers(ids["b"])) == 5
        assert len(times_below(tables, ids["b"], 2**64 - 1)) == 3
        assert [task.kind for task in tasks(owner)] == [TaskKind.DELETE_CHUNK]


@pytest.mark.parametrize("same", [True, False])
async def test_a_tombstone_goes_with_its_own_task_alone(same: bool) -> None:
    async with owned() as (made, owner):
        tombstone = Tombstone(name="gone", source_id=70, target_id=1, offset=0, length=1, made_ms=1)
        task = Task(
            due_ms=now_ms(made) + 1_000,
            kind=TaskKind.FORGET_TOMBSTONE,
            subject=70 if same else 69,
            name="gone",
        )
        entries = [put_tombstone(tombstone), put_task(task)]
        await inside.parts(owner.container).pipeline.update(entries)
        await owner.container.collect()
        assert owner.rows.tombstone("gone") == tombstone
        made.environment.clock.now += 1
        await owner.container.collect()
        assert owner.rows.tombstone("gone") == (None if same else tombstone)
        assert tasks(owner) == []
        await put(owner, [replace(task, due_ms=1, name="never was")])
        await owner.container.collect()
        assert tasks(owner) == []


async def test_how_far_a_background_round_has_come_is_left_alone() -> None:
    async with owned() as (made, owner):
        await owner.container.flush()
        cursors = [
            Task(due_ms=1, kind=kind, subject=0, name="x", dropped_version=1)
            for kind in (TaskKind.RETAIN, TaskKind.SWEEP)
        ]
        await put(owner, [*cursors, garbage(made, 0)])
        assert await owner.container.collect() == 1
        assert tasks(owner) == cursors


async def test_what_is_left_of_a_concat_is_undone() -> None:
    async with owned() as (_, owner):
        segment_id = owner.rows.find("a")
        assert segment_id is not None
        await put(owner, [undo_task(segment_id)])
        await owner.container.collect()
        assert tasks(owner) == []


async def test_a_trim_of_many_slices_ends_with_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    sliced = partial(plan_trim, rows_max=4)
    monkeypatch.setattr("siltstone.segments.trim.plan_trim", sliced)
    async with owned(replace(SETTINGS, chunk_bytes=1_000)) as (_, owner):
        container = owner.container
        for number in range(7):
            await container.append("a", pattern(number, 1_000))
            await container.flush("a")
        await container.truncate("a", 6_000)
        await container.collect()
        assert [chunk.start for chunk in await container.chunks("a")] == [6_000]
        assert [task.kind for task in tasks(owner)] == [TaskKind.DELETE_CHUNK] * 6


async def test_a_task_of_a_segment_that_is_gone_goes_without_counting_as_a_deletion() -> None:
    async with owned() as (_, owner):
        kinds = (TaskKind.TRIM_SEGMENT, TaskKind.REMOVE_SEGMENT)
        await put(owner, [Task(due_ms=0, kind=kind, subject=999) for kind in kinds])
        assert await owner.container.collect() == 0
        assert tasks(owner) == []


async def test_the_rows_of_many_segments_go_in_few_frames() -> None:
    async with owned() as (_, owner):
        container = owner.container
        parts = inside.parts(container)
        names = [f"s{number}" for number in range(100)]
        for name in names:
            await container.create(name)
            await container.append(name, pattern(1, 100))
        ids = [owner.rows.find(name) for name in names]
        async with parts.collector.lock:
            for name in names:
                await container.delete(name)
        before = parts.pipeline.replica.newest_index
        await container.collect()
        assert tasks(owner) == []
        assert all(number is not None and owner.rows.state(number) is None for number in ids)
        assert owner.rows.find("a") is not None
        assert parts.pipeline.replica.newest_index - before <= len(names) // 10
