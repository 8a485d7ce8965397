"""The rules of the sweep: what gets a task, what is stated first, when it works, its report."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from siltstone.container.garbage.collector import NEVER_MS
from siltstone.container.garbage.sweeper import FAILED_S, ROUND_S, START_S
from siltstone.container.models.garbage import SweepFinding
from siltstone.core.chunk_names import claim_file, data_prefix
from siltstone.core.constants import ROWS_PER_SLICE
from siltstone.core.errors import CorruptDataError, FencedError
from siltstone.core.records.claim import Claim, encode_claim
from siltstone.core.records.task import Task, TaskKind, TaskStage
from siltstone.testing.faults.faulty_chunk_storage import Fate
from tests.support import inside
from tests.support.container.container_world import (
    Owner,
    close_quietly,
    pattern,
    world,
)
from tests.support.container.planted_garbage import now_ms, put, tasks
from tests.support.container.sweeps import DAY_S, SETTINGS, lost, second_owner, swept, told

pytestmark = pytest.mark.virtual_time

PAUSE_S = 60.0


def to_delete(owner: Owner) -> list[str]:
    return [task.name for task in tasks(owner) if task.kind is TaskKind.DELETE_CHUNK]


def listings(owner: Owner) -> int:
    return sum(
        call.operation == "list" and call.name == data_prefix(0) for call in owner.storage.calls
    )


async def test_what_nothing_names_gets_a_task_of_now_and_of_its_name() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        names = lost(made, 500, 501)
        made.environment.clock.now += DAY_S
        assert await swept(owner, delete=False) == [f"garbage {name}" for name in names]
        assert tasks(owner) == []
        assert await swept(owner) == [f"garbage {name}" for name in names]
        found = [(task.due_ms, task.kind, task.subject, task.name) for task in tasks(owner)]
        assert found == [
            (now_ms(made), TaskKind.DELETE_CHUNK, chunk_id, name)
            for chunk_id, name in zip((500, 501), names, strict=True)
        ]
        before = tasks(owner)
        made.environment.clock.now += 1
        assert await swept(owner) == [f"waiting {name}" for name in names]
        assert tasks(owner) == before
        await close_quietly(owner)


async def test_only_a_task_to_delete_it_is_a_reason_to_wait() -> None:
    """A task of another kind with the same number does not count; a failed task does."""
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        names = lost(made, 500, 501, 502)
        made.environment.clock.now += DAY_S
        far_ms = now_ms(made) + 10**9
        others = [
            Task(due_ms=far_ms, kind=TaskKind.FORGET_TOMBSTONE, subject=number, name="x")
            for number in range(499, 499 + ROWS_PER_SLICE)
        ]
        failed = Task(
            due_ms=NEVER_MS,
            kind=TaskKind.DELETE_CHUNK,
            subject=501,
            name=names[1],
            stage=TaskStage.FAILED,
        )
        soon = replace(failed, due_ms=far_ms - 1, subject=502, name=names[2], stage=TaskStage.OPEN)
        await put(owner, [soon, *others, failed])
        expected = [f"garbage {names[0]}", *(f"waiting {name}" for name in names[1:])]
        assert await swept(owner) == expected
        assert sorted(to_delete(owner)) == sorted([names[0], names[2]]), "of the first page"
        await owner.container.garbage.run()
        assert [name in made.names() for name in names] == [False, True, True]
        await close_quietly(owner)


async def test_a_round_of_many_pages_finds_everything_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.container.garbage.sweeper.PAGE", 2)
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        await owner.container.append("a", pattern(2, 1_000))
        await owner.container.flush()
        await owner.container.close()
        owner = await made.open()
        names = lost(made, 500, 501, 502) + lost(made, 503, 504, 505, epoch=2)
        made.environment.clock.now += DAY_S
        assert await swept(owner, delete=False) == [f"garbage {name}" for name in names]
        assert await swept(owner) == [f"garbage {name}" for name in names]
        assert to_delete(owner) == names
        epochs = [owner.rows.epoch(number) for number in (1, 2)]
        assert [(row.clean, row.found) for row in epochs if row] == [(0, False), (0, False)]
        await owner.container.garbage.run()
        await swept(owner)
        epochs = [owner.rows.epoch(number) for number in (1, 2)]
        assert [row.clean for row in epochs if row] == [1, 1]
        await close_quietly(owner)


async def test_the_background_takes_the_same_pages_with_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("siltstone.container.garbage.sweeper.PAGE", 2)
    caplog.set_level(logging.INFO, "siltstone.container.garbage.sweeper")
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        names = lost(made, 500, 501, 502)
        foreign = f"{data_prefix(0)}e{1:020d}/note"
        made.new_storage().create(foreign, [b"x"])
        made.new_storage().create("system/c0/note", [b"x"])
        made.environment.clock.now += DAY_S
        await made.environment.sleep(START_S - 1)
        assert listings(owner) == 0
        await made.environment.sleep(2)
        counts = []
        for _ in range(4):
            counts.append(listings(owner))
            await made.environment.sleep(PAUSE_S)
        assert counts[0] == 1
        assert counts[1:] == [2, 3, 3], "five names in pages of two, then the round is over"
        assert sorted(to_delete(owner)) == names
        assert len(tasks(owner)) == len(names), "how far the round came is no longer on record"
        row = owner.rows.epoch(1)
        assert row is not None
        assert (row.clean, row.found) == (0, False), "the findings of its first pages count"
        assert row.listed_ms > row.closed_ms
        messages = [record.getMessage() for record in caplog.records]
        assert messages.count(f"foreign name: {foreign}: not the name of a chunk") == 1
        assert "foreign name: system/c0/note: not the name of a system file" in messages
        found = [m for m in messages if m.startswith("sweep found")]
        assert found in (
            [f"sweep found {n} chunks that nothing names" for n in (1, 2)],
            [f"sweep found {n} chunks that nothing names" for n in (2, 1)],
        )
        made.environment.clock.now += ROUND_S - 10 * PAUSE_S
        await made.environment.sleep(1)
        assert listings(owner) == 3
        made.environment.clock.now += 10 * PAUSE_S
        await made.environment.sleep(1)
        assert listings(owner) == 4
        await close_quietly(owner)


@pytest.mark.slow
async def test_a_failed_round_is_told_and_comes_again_after_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        owner.storage.plan = lambda call: (
            Fate.REFUSED if call.operation == "list" and call.name == data_prefix(0) else Fate.DONE
        )
        await made.environment.sleep(START_S + 30)
        failed = listings(owner)
        assert failed >= 1
        error = owner.container.stats().last_error
        assert "injected" in str(error)
        messages = [record.getMessage() for record in caplog.records]
        assert f"sweep failed: {error}" in messages
        owner.storage.plan = lambda call: Fate.DONE
        await made.environment.sleep(FAILED_S - 60)
        assert listings(owner) == failed
        await made.environment.sleep(60)
        assert listings(owner) == failed + 1
        assert owner.container.stats().last_error is None
        await close_quietly(owner)


async def test_a_swept_epoch_is_looked_into_on_request_alone() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        await swept(owner)
        made.environment.clock.now += 7 * DAY_S
        await swept(owner)
        row = owner.rows.epoch(1)
        assert row is not None
        assert row.swept
        (late,) = lost(made, 500)
        made.environment.clock.now += DAY_S
        assert await swept(owner) == []
        assert [finding async for finding in owner.container.garbage.sweep()] == []
        assert to_delete(owner) == []
        found = owner.container.garbage.sweep(all_epochs=True)
        assert [finding.name async for finding in found] == [late]
        assert to_delete(owner) == []
        assert await swept(owner, all_epochs=True) == [f"garbage {late}"]
        assert to_delete(owner) == [late]
        assert owner.rows.epoch(1) == replace(row, listed_ms=now_ms(made), clean=0)
        await close_quietly(owner)


async def test_foreign_system_files_are_told_however_many_there_are() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        names = [f"system/c0/x{number:04}" for number in range(1_001)]
        for name in names:
            made.new_storage().create(name, [b"abc"])
        made.new_storage().create("system/c1/note", [b"x"])
        found = await told(owner)
        assert [each.name for each in found] == names
        modified_ms = int(made.new_storage().stat(names[0]).modified_s * 1000)
        assert modified_ms > 0
        assert found[0] == SweepFinding(
            kind="foreign",
            name=names[0],
            length=3,
            modified_ms=modified_ms,
            reason="not the name of a system file",
        )
        assert await told(owner, False) == found
        assert set(names) <= set(made.names())
        await close_quietly(owner)


# --- whose storage it is --------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["gone", "lineage", "epoch"])
async def test_a_storage_that_was_not_claimed_by_this_owner_is_not_swept(change: str) -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        (late,) = lost(made, 500)
        made.environment.clock.now += DAY_S
        name = claim_file(0, owner.container.epoch)
        storage = made.new_storage()
        storage.delete(name)
        claim = Claim(
            lineage=inside.parts(owner.container).journal.lineage,
            epoch=owner.container.epoch,
            owner="x",
            claimed_ms=1,
        )
        others = {"lineage": replace(claim, lineage=bytes(16)), "epoch": replace(claim, epoch=1)}
        if change in others:
            storage.create(name, [encode_claim(others[change])])
        told = "that of another owner" if change in others else "not the storage that was claimed"
        with pytest.raises(CorruptDataError, match=f"{told}.*{name}"):
            await swept(owner)
        assert tasks(owner) == []
        if change in others:
            storage.delete(name)
        storage.create(name, [encode_claim(claim)])
        assert await swept(owner) == [f"garbage {late}"]
        await close_quietly(owner)


async def test_an_overtaken_owner_hears_that_it_is_fenced_and_sweeps_nothing() -> None:
    async with world(settings=SETTINGS) as made:
        owner = await second_owner(made)
        lost(made, 500)
        made.environment.clock.now += DAY_S
        newer = await made.open(takeover=True, index="newer")
        made.new_storage().delete(claim_file(0, owner.container.epoch))
        with pytest.raises(FencedError):
            await swept(owner)
        assert to_delete(newer) == []
        await close_quietly(owner)
        await close_quietly(newer)
