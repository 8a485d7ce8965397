"""Rounds of independent acts: one that fails does not stop the others.

What fails: single calls to long-term storage, for as long as the test wants. What must hold: every
other act of the round takes place, the failure is reported, the act is repeated and then succeeds,
and a fence ends everything at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from siltstone.container.models.settings import ContainerSettings
from siltstone.core.chunk_names import data_prefix, system_prefix
from siltstone.core.errors import (
    ChunkError,
    ChunkUnavailableError,
    CorruptDataError,
    FencedError,
)
from siltstone.core.records.task import TaskKind
from siltstone.metadata.changes import put_chunk
from siltstone.testing.faults.faulty_chunk_storage import Fate, Plan, StorageCall
from tests.support import inside
from tests.support.container.container_world import Owner, World, pattern, with_settings, world
from tests.support.container.newer_claim import claim
from tests.support.recorder import Recorder

pytestmark = pytest.mark.virtual_time

NEVER = 1e6
NAMES = ("a", "b", "c")
SETTINGS = with_settings(
    flush_bytes=1 << 40,
    flush_age_s=NEVER,
    table_flush_age_s=NEVER,
    checkpoint_age_s=NEVER,
    garbage_interval_s=NEVER,
    garbage_delay_s=0.0,
)


@asynccontextmanager
async def owned(settings: ContainerSettings = SETTINGS) -> AsyncIterator[tuple[World, Owner]]:
    async with world(settings=settings) as made:
        owner = await made.open()
        for name in NAMES:
            await owner.container.create(name)
            await owner.container.append(name, pattern(ord(name), 9_000))
        await owner.container.flush()
        yield made, owner
        await owner.container.close()


def data_of(made: World, name: str) -> list[str]:
    return [chunk for chunk in made.names(data_prefix(0)) if f"/{name}/" in chunk]


def trims(owner: Owner) -> list[str]:
    """Segments that wait for a trim."""
    tasks = [task for task in owner.rows.tasks(2**62) if task.kind is TaskKind.TRIM_SEGMENT]
    states = [owner.rows.state(task.subject) for task in tasks]
    return [state.name for state in states if state is not None]


def refused(*words: str) -> Plan:
    """Refuse every change of a chunk whose name holds all of ``words``."""

    def plan(call: StorageCall) -> Fate:
        changes = call.operation in ("create", "write", "delete")
        return Fate.REFUSED if changes and all(w in call.name for w in words) else Fate.DONE

    return plan


async def test_a_trim_that_fails_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async with owned() as (made, owner):
        container, collector = owner.container, inside.parts(owner.container).collector
        segments, failing = inside.parts(container).segments, owner.rows.find("a")
        trim = segments.trim

        async def trim_or_fail(segment_id: int, start: int, *, keep_last: bool) -> bool:
            if segment_id == failing:
                raise ChunkUnavailableError("injected", chunk="c", operation="read_into")
            return await trim(segment_id, start, keep_last=keep_last)

        monkeypatch.setattr(segments, "trim", trim_or_fail)
        async with collector.lock:
            for name in NAMES:
                await container.truncate(name, 5_000)
        await made.environment.sleep(0.1)
        assert trims(owner) == ["a"]
        assert isinstance(collector.backoff.error, ChunkError)
        with pytest.raises(ChunkError):
            await container.collect()
        monkeypatch.undo()
        await container.collect()
        assert trims(owner) == []


async def test_a_deletion_that_fails_keeps_no_other_waiting_and_is_told() -> None:
    async with owned() as (made, owner):
        container = owner.container
        for name in NAMES:
            await container.delete(name)
        await made.environment.sleep(1)
        await container.flush()
        owner.storage.plan = refused("/a/")
        inside.parts(container).collector.wake()
        await made.environment.sleep(1)
        assert data_of(made, "a")
        assert not data_of(made, "b") + data_of(made, "c")
        assert container.stats().last_error is not None
        owner.storage.plan = lambda call: Fate.DONE
        await made.environment.sleep(120)
        inside.parts(container).collector.wake()
        await made.environment.sleep(60)
        assert not data_of(made, "a")
        assert container.stats().last_error is None


async def test_a_chunk_that_is_still_referenced_keeps_only_itself() -> None:
    async with owned() as (made, owner):
        container = owner.container
        (kept,) = {chunk.chunk for chunk in await container.chunks("a")}
        for name in NAMES:
            await container.delete(name)
        await made.environment.sleep(1)
        await container.flush()
        rows, pipeline = owner.rows, inside.parts(container).pipeline
        task = next(t for t in rows.tasks(2**62) if t.name == kept)
        chunk = rows.chunk(task.subject)
        assert chunk is not None
        assert not chunk.references
        await pipeline.update([put_chunk(replace(chunk, references=1))])
        with pytest.raises(CorruptDataError, match="I17"):
            await container.collect()
        assert made.names(data_prefix(0)) == [kept]


@pytest.mark.slow
@pytest.mark.parametrize("word", ["tables-", "index-", "journal-"])
async def test_a_system_file_that_cannot_be_deleted_fails_no_checkpoint_and_keeps_no_other(
    word: str,
) -> None:
    async with owned(replace(SETTINGS, chunk_bytes=1_000)) as (made, owner):
        container, parts = owner.container, inside.parts(owner.container)
        recorder = Recorder()
        parts.storage.metrics = recorder

        async def checkpoints(count: int) -> None:
            for _ in range(count):
                await container.append("a", bytes(9_000))
                await container.flush()
                before = container.stats().checkpoint_version
                await container.checkpoint()
                assert container.stats().checkpoint_version > before

        def count(part: str) -> int:
            """Number of files; of the index, only leftover ones, since it may have any number."""
            checkpoints = parts.checkpointer.cleanup._journal.checkpoints
            index = {
                file.chunk_name for kept in checkpoints for file in kept.checkpoint.index_files
            }
            return sum(part in name and name not in index for name in made.names(system_prefix(0)))

        def plan(call: StorageCall) -> Fate:
            is_it = call.operation == "delete" and word in call.name
            return Fate.REFUSED if is_it else Fate.DONE

        await checkpoints(6)
        assert container.stats().last_error is None
        assert not recorder.sums[("siltstone_tidying_failed_total",)]
        before = {part: count(part) for part in ("tables-", "index-", "journal-")}
        owner.storage.plan = plan
        await checkpoints(12)
        first = owner.log.inner.first()
        for part, few in before.items():
            assert (count(part) > few + 2) is (part == word), (part, few, count(part))
        stats = container.stats()
        assert stats.log_first == first > 0
        assert word in str(stats.last_error)
        assert recorder.sums[("siltstone_tidying_failed_total",)] >= 12
        # No other checkpoint is needed: it is retried on its own, seldom while calls fail.
        tries = recorder.sums[("siltstone_tidying_failed_total",)]
        await made.environment.sleep(600)
        assert 5 <= recorder.sums[("siltstone_tidying_failed_total",)] - tries <= 40
        owner.storage.plan = lambda call: Fate.DONE
        await made.environment.sleep(60)
        assert count(word) <= before[word] + 2
        assert container.stats().last_error is None
        assert container.stats().checkpoint_version == stats.checkpoint_version
        await made.check(owner)


async def test_what_is_tidied_again_is_not_what_an_upload_brings() -> None:
    async with owned() as (made, owner):
        container, cleanup = owner.container, inside.parts(owner.container).checkpointer.cleanup

        def uploaded(operation: str, name: str) -> None:
            if operation == "create" and "index-" in name and cleanup.backoff.error is None:
                cleanup.backoff.failed(CorruptDataError("injected", where="c"))

        for _ in range(4):
            await container.append("a", bytes(9_000))
            await container.flush()
            await container.checkpoint()
        await container.append("a", bytes(9_000))
        await container.flush()
        owner.storage.after = uploaded
        made.environment.latency = lambda pool, chance: 20.0 if "chunks" in pool.name else 0.0
        await container.checkpoint()
        newest = inside.parts(container).journal.checkpoints[-1].checkpoint
        there = set(made.names(system_prefix(0)))
        assert {file.chunk_name for file in newest.index_files} <= there


async def test_a_fence_ends_the_round_at_once() -> None:
    async with owned() as (made, owner):
        container = owner.container
        for name in NAMES:
            await container.delete(name)
        await made.environment.sleep(1)
        await container.flush()
        chunks = set(made.names(data_prefix(0)))
        claim(made, owner)
        frames = made.shared_log.end
        with pytest.raises(FencedError):
            await container.collect()
        assert set(made.names(data_prefix(0))) == chunks
        assert made.shared_log.end == frames
        assert isinstance(container.failure, FencedError)
