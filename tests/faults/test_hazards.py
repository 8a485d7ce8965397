"""Named ways to lose data, each played as a story of one or two owners on virtual time.

What may fail differs from story to story and is said there. What must hold is the same in all of
them: no acknowledged byte is lost, no caller is told a thing that did not happen, and what looks
like loss is refused and not taken for health.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from siltstone.container.models.segments import Append, Put
from siltstone.core.chunk_names import data_prefix, system_prefix
from siltstone.core.errors import (
    BackPressureError,
    ChunkError,
    FencedError,
    LogError,
    LogLostError,
    OutcomeUnknownError,
    SegmentNotFoundError,
    SegmentTruncatedError,
    SiltstoneError,
    StoreInUseError,
)
from siltstone.core.records.keys import METADATA_TABLE, RowKind, task_of
from siltstone.core.records.piece import ControlKind, ControlPiece, TablePiece, decode_pieces
from siltstone.core.records.table_record import decode_table_record
from siltstone.core.records.task import TaskKind, TaskStage, decode_task
from siltstone.testing.faults.faulty_chunk_storage import Fate, StorageCall
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from siltstone.testing.virtual_time import jittered
from siltstone.tier1.memory.shared_log import SharedLog
from tests.support.container.container_world import (
    Owner,
    World,
    pattern,
    with_settings,
    world,
)
from tests.support.faults.zombie import PausingEnvironment

pytestmark = pytest.mark.virtual_time

QUIET = with_settings(
    flush_age_s=1e6, table_flush_age_s=1e6, checkpoint_age_s=1e6, garbage_interval_s=1e6
)
"""Nothing happens in the background but what a test asks for."""


async def filled(made: World, **choices: Any) -> Owner:
    owner = await made.open(**choices)
    await owner.container.create("a", exist_ok=True)
    await owner.container.append("a", pattern(1, 5_000))
    await owner.container.flush()
    return owner


async def everything(owner: Owner, name: str = "a") -> bytes:
    info = await owner.container.info(name)
    length = info.length - info.start_offset
    return await owner.container.read(name, info.start_offset, length)


def statements(made: World) -> set[str]:
    """Names of all chunks whose deletion the log states so far."""
    found = set()
    for frame in made.shared_log.frames:
        for piece in decode_pieces(frame.body, frame.count, where="frame"):
            if isinstance(piece, ControlPiece):
                if piece.control is ControlKind.JOURNAL_DELETION:
                    found |= set(piece.payload.decode().split("\n"))
            elif isinstance(piece, TablePiece):
                for entry in decode_table_record(piece.record, where="record").entries:
                    if entry.table_id != METADATA_TABLE or entry.key[0] != RowKind.TASK:
                        continue
                    if entry.value is None:
                        continue
                    task = decode_task(*task_of(entry.key), entry.value)
                    if task.stage is TaskStage.STATED:
                        found.add(task.name)
    return found


# --- H1: destruction is fenced --------------------------------------------------------------------


@pytest.mark.parametrize("applied", [True, False])
async def test_h1a_flush_whose_commit_is_unknown_lets_nothing_be_deleted(applied: bool) -> None:
    async with world() as made:
        plan = FaultPlan()
        old = await made.open(plan=plan)
        await old.container.create("a")
        await old.container.append("a", pattern(1, 5_000))
        plan.fail("append", 2, applied=applied)  # the first one reserves chunk ids
        with pytest.raises((LogError, OutcomeUnknownError)):
            await old.container.flush()
        chunks = set(made.names(data_prefix(0)))
        assert len(chunks) == 1
        new = await made.open(takeover=True, index="newer")
        assert bool(await new.container.chunks("a")) is applied
        await made.environment.sleep(600)
        assert set(made.names(data_prefix(0))) >= chunks
        assert not [call for call in old.storage.calls if call.operation == "delete"]
        assert await everything(new) == pattern(1, 5_000)
        await new.container.close()


async def test_h1b_truncation_by_an_owner_that_was_overtaken() -> None:
    """It stated the truncation, was paused, and truncates without the newer owner's knowledge."""
    async with world(settings=QUIET) as made:
        environment = PausingEnvironment(made, 10**9, after=False)
        old = await filled(made, environment=environment)
        await old.container.append("a", b"kept in tier 1")
        await old.container.checkpoint()
        logged = old.log.plan
        logged.before = lambda method, number: (
            environment.stop_now() if method == "append" else None
        )
        flushing = asyncio.create_task(old.container.flush())
        await environment.reached.wait()
        new = await made.open(takeover=True, index="newer")
        await new.container.append("a", b" and this")
        first = made.shared_log.first
        environment.resume.set()
        with pytest.raises(SiltstoneError):
            await flushing
        assert made.shared_log.first == first, "the older owner truncated"
        assert (await everything(new)).endswith(b"kept in tier 1 and this")
        await made.crash(new, keep_index=False)
        new = await made.open(index="newer")
        assert (await everything(new)).endswith(b"kept in tier 1 and this")
        await new.container.close()


async def test_h1_every_deletion_was_stated_before() -> None:
    async with world() as made:
        owner = await made.open()

        def stated(operation: str, name: str) -> None:
            if operation == "delete":
                seen.append(name)
                assert name in everything_stated | statements(made), f"{name} was not stated"

        seen: list[str] = []
        everything_stated: set[str] = set()
        owner.storage.before = stated
        container = owner.container
        for round_ in range(6):
            await container.create("a", exist_ok=True)
            await container.append("a", pattern(round_, 30_000))
            await container.flush()
            await container.truncate("a", 20_000 * (round_ + 1))
            await container.checkpoint()
            everything_stated |= statements(made)
            await made.environment.sleep(20)
        assert [name for name in seen if name.startswith(data_prefix(0))]
        assert [name for name in seen if name.startswith(system_prefix(0))]
        await container.close()


# --- H2, H5: what long-term storage alone still needs ---------------------------------------------


async def test_h2_chunks_stay_until_the_table_log_covers_their_drop() -> None:
    async with world(settings=QUIET) as made:
        owner = await filled(made)
        container = owner.container
        chunks = set(made.names(data_prefix(0)))
        await container.truncate("a", 5_000)
        await made.environment.sleep(30)
        # The first round drops the chunk; its deletion waits for a table log that says so.
        assert await container.collect() == 0
        await made.environment.sleep(30)
        assert await container.collect() == 0
        assert set(made.names(data_prefix(0))) == chunks
        await container.flush()
        assert await container.collect() == 1
        assert not set(made.names(data_prefix(0)))
        await container.close()


async def test_h5_system_files_go_without_tasks() -> None:
    async with world(settings=QUIET) as made:
        owner = await filled(made)
        for number in range(8):
            await owner.container.append("a", pattern(number, 20_000))
            await owner.container.flush()
            await owner.container.checkpoint()
        names = made.names(system_prefix(0))
        assert len([name for name in names if "/journal-" in name]) < 8
        assert len([name for name in names if "/tables-" in name]) < 5
        tasks = [task for task in owner.rows.tasks(2**62) if task.kind is TaskKind.DELETE_CHUNK]
        assert not [task for task in tasks if task.name.startswith(system_prefix(0))]
        await made.check(owner)
        await owner.container.close()


# --- H7, H8: what is lost, and what is stale ------------------------------------------------------


@pytest.mark.parametrize("loss", ["emptied", "yesterday", "other lineage", "head cut"])
async def test_h7_a_lost_log_is_not_taken_for_a_healthy_one(loss: str) -> None:
    async with world(settings=QUIET) as made:
        owner = await filled(made)
        yesterday = list(made.shared_log.frames), made.shared_log.end
        for number in range(3):
            await owner.container.append("a", pattern(number, 900))
            await owner.container.flush()
        await owner.container.append("a", b"only in tier 1")
        await made.crash(owner)
        lost = made.shared_log
        if loss in ("emptied", "other lineage"):
            made.shared_log = SharedLog()
        if loss == "yesterday":
            lost.frames, lost.end = yesterday
        if loss == "head cut":
            del lost.frames[:-1]
        if loss == "other lineage":
            stranger = made.new_log()
            stranger.claim(lineage=b"o" * 16, new=True, above=0, takeover=False, owner="stranger")
            stranger.append([], count=0)
            stranger.close()
        names, frames = made.names(), list(made.shared_log.frames)
        with pytest.raises(LogLostError):
            await made.open()
        written = set(made.names()) - set(names)
        assert not [name for name in written if not name.endswith("claim")]
        if loss in ("emptied", "other lineage"):
            assert made.shared_log.frames == frames


@pytest.mark.parametrize("index", ["older", "foreign", "damaged", "none"])
async def test_h8_an_index_of_another_history_is_built_again(index: str) -> None:
    """Two histories continue from one point; ``foreign`` is an index of the one that is gone."""

    async def grow(name: str, data: bytes) -> None:
        owner = await made.open()
        await owner.container.create(name)
        await owner.container.append(name, data)
        await owner.container.close()

    async with world(settings=QUIET) as made:
        owner = await filled(made)
        await owner.container.close()
        shutil.copytree(owner.folder, made.folder / "older")
        fork = deepcopy((made.bucket.chunks, made.bucket.keys))
        log = made.shared_log
        kept = (list(log.frames), log.end, log.crc, log.epoch)
        await grow("ghost", b"never")
        shutil.move(owner.folder, made.folder / "foreign")
        made.bucket.chunks, made.bucket.keys = fork
        log.frames, log.end, log.crc, log.epoch = kept
        shutil.copytree(made.folder / "older", owner.folder)
        await grow("other", b"bytes")
        shutil.rmtree(owner.folder)
        if index == "damaged":
            shutil.copytree(made.folder / "older", owner.folder)
            for file in owner.folder.glob("MANIFEST*"):
                file.write_bytes(b"not a manifest")
        elif index != "none":
            shutil.copytree(made.folder / index, owner.folder)
        owner = await made.open()
        assert [info.name for info in await owner.container.list_segments()] == ["a", "other"]
        assert await everything(owner, "other") == b"bytes"
        assert await everything(owner) == pattern(1, 5_000)
        await made.check(owner)
        await owner.container.close()


# --- H9, H10: truncation of the log, and journals of zombies --------------------------------------


async def test_h9_the_log_is_kept_for_the_oldest_unflushed_byte() -> None:
    async with world(settings=QUIET) as made:
        owner = await filled(made)
        container = owner.container
        await container.create("idle")
        await container.append("idle", b"unflushed")
        held = made.shared_log.end - 1
        for number in range(5):
            await container.append("a", pattern(number, 3_000))
            await container.flush("a")
            await container.checkpoint()
        assert made.shared_log.first <= held
        await container.flush("idle")
        await container.checkpoint()
        await container.flush()
        assert made.shared_log.first > held
        await made.crash(owner, keep_index=False)
        owner = await made.open()
        assert await everything(owner, "idle") == b"unflushed"
        await owner.container.close()


@pytest.mark.parametrize("duty", ["flush", "checkpoint"])
async def test_h10_journal_write_of_an_owner_that_was_overtaken(duty: str) -> None:
    async with world(settings=QUIET) as made:
        environment = PausingEnvironment(made, 10**9, after=False)
        old = await filled(made, environment=environment)
        await old.container.append("a", pattern(2, 700))

        def stop(operation: str, name: str) -> None:
            if "/journal-" in name:
                stopped.append(name)

        stopped: list[str] = []
        old.storage.before = stop
        # Stop before the call that writes the journal: count them in a run that goes through.
        work = old.container.flush if duty == "flush" else old.container.checkpoint
        before = environment.calls
        await work()
        assert stopped
        needed = environment.calls - before
        await old.container.append("a", pattern(3, 700))
        environment._number = environment.calls + max(1, needed - 3)
        working = asyncio.create_task(work())
        await environment.reached.wait()
        new = await made.open(takeover=True, index="newer")
        await new.container.append("a", b"newer")
        await new.container.flush()
        environment.resume.set()
        with suppress(SiltstoneError):
            await working
        with pytest.raises((FencedError, LogError, OutcomeUnknownError)):
            await old.container.append("a", b"late")
        await old.container.close()
        wanted = pattern(1, 5_000) + pattern(2, 700) + pattern(3, 700) + b"newer"
        for _ in range(2):
            assert await everything(new) == wanted
            await made.crash(new, keep_index=False)
            new = await made.open(index="newer")
        await made.check(new, strict=False)
        await new.container.close()


# --- H12, H13: concat, truncation, deletion against what is on its way ----------------------------


@pytest.mark.parametrize("small_bytes", [0, 1 << 20])
async def test_h12_concat_while_both_ends_are_unflushed(small_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("siltstone.container.changes.concat.SMALL_BYTES", small_bytes)
        async with world(3, settings=QUIET, latency=jittered(0.2)) as made:
            owner = await filled(made)
            container = owner.container
            await container.create("source")
            await container.append("source", b"S" * 5_000)
            await container.seal("source")

            async def append(number: int) -> int:
                await made.environment.sleep(number * 0.01)
                return await container.append("a", b"%04d" % number)

            joined, *offsets = await asyncio.gather(
                container.concat("a", "source"), *(append(number) for number in range(60))
            )
            wanted = bytearray(pattern(1, 5_000)) + bytes(60 * 4 + 5_000)
            wanted[joined : joined + 5_000] = b"S" * 5_000
            for number, offset in enumerate(offsets):
                wanted[offset : offset + 4] = b"%04d" % number
            assert await everything(owner) == wanted
            assert await container.concat("a", "source") == joined
            await made.crash(owner, keep_index=False)
            owner = await made.open()
            assert await everything(owner) == wanted
            assert await owner.container.concat("a", "source") == joined
            await made.check(owner, strict=False)
            await owner.container.close()


@pytest.mark.parametrize("change", ["truncate", "truncate all", "seal", "delete", "recreate"])
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.2, 0.4])
async def test_h13_state_changes_against_a_running_flush(change: str, delay: float) -> None:
    async with world(4, settings=with_settings(flush_age_s=1e6), latency=jittered(0.2)) as made:
        owner = await made.open()
        container = owner.container
        await container.create("a")
        data = pattern(1, 40_000)
        await container.append("a", data)
        flushing = asyncio.create_task(container.flush())
        await made.environment.sleep(delay)
        if change == "truncate":
            await container.truncate("a", 25_000)
        elif change == "truncate all":
            await container.truncate("a", 40_000)
        elif change == "seal":
            await container.seal("a")
        else:
            await container.delete("a")
        if change == "recreate":
            await container.create("a")
            await container.append("a", b"again")
        await flushing
        await container.flush()
        for look in range(2):
            if change == "delete":
                with pytest.raises(SegmentNotFoundError):
                    await owner.container.info("a")
            elif change == "recreate":
                assert await everything(owner) == b"again"
            else:
                start = {"truncate": 25_000, "truncate all": 40_000}.get(change, 0)
                assert await everything(owner) == data[start:]
                if start:
                    with pytest.raises(SegmentTruncatedError):
                        await owner.container.read("a", start - 1, 1)
            if not look:
                await made.crash(owner, keep_index=False)
                owner = await made.open()
        await made.environment.sleep(60)
        await owner.container.collect()
        await owner.container.flush()
        await owner.container.collect()
        await made.check(owner, strict=False)
        kept = made.names(data_prefix(0))
        named = (
            {chunk.chunk for chunk in await owner.container.chunks("a")}
            if change not in ("delete",)
            else set()
        )
        assert not [name for name in kept if name not in named and "e00000000000000000002" in name]
        await owner.container.close()


# --- H14: exactly once ----------------------------------------------------------------------------


async def test_h14_a_late_repeat_when_the_log_forgot_the_append() -> None:
    async with world(settings=QUIET) as made:
        owner = await filled(made)
        writer = await owner.container.register_writer("a", "loader")
        offset = await owner.container.append_as("a", writer.number, 9, b"once")
        appended = made.shared_log.end - 1
        for _ in range(3):
            await owner.container.flush()
            await owner.container.checkpoint()
        assert made.shared_log.first > appended
        await made.crash(owner, keep_index=False)
        owner = await made.open()
        again = await owner.container.register_writer("a", "loader")
        assert (again.number, again.sequence) == (writer.number, 9)
        assert await owner.container.append_as("a", writer.number, 9, b"once") == offset
        assert (await owner.container.info("a")).length == 5_004
        await owner.container.close()


async def test_h14_a_repeat_waits_for_the_original() -> None:
    """The frame of the original dies: its repeat must not be answered from memory."""
    async with world(settings=QUIET, latency=jittered(0.1)) as made:
        plan = FaultPlan()
        owner = await filled(made, plan=plan)
        writer = await owner.container.register_writer("a", "loader")
        plan.fail("append", 1, applied=False)
        calls = [owner.container.append_as("a", writer.number, 1, b"once") for _ in range(3)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, OutcomeUnknownError) for result in results), results
        await made.crash(owner)
        owner = await made.open()
        assert await owner.container.append_as("a", writer.number, 1, b"once") == 5_000
        await owner.container.close()


async def test_h14_marks_survive_a_skip_of_dead_bytes() -> None:
    """Truncated before it was flushed: the bytes go, the writer's sequence stays."""
    async with world(settings=QUIET) as made:
        owner = await filled(made)
        writer = await owner.container.register_writer("a", "loader")
        offset = await owner.container.append_as("a", writer.number, 4, b"dead")
        await owner.container.truncate("a", offset + 4)
        for _ in range(3):
            await owner.container.flush()
            await owner.container.checkpoint()
        await made.crash(owner, keep_index=False)
        owner = await made.open()
        assert await owner.container.append_as("a", writer.number, 4, b"dead") == offset
        assert (await owner.container.info("a")).length == offset + 4
        await owner.container.close()


# --- H16: back-pressure ---------------------------------------------------------------------------


async def test_h16_the_bound_is_reached_while_storage_is_down() -> None:

    settings = with_settings(unflushed_bytes_max=20_000, append_deadline_s=90.0)
    async with world(settings=settings) as made:
        owner = await filled(made)
        container = owner.container

        def down(call: StorageCall) -> Fate:
            return Fate.LOST_CALL

        owner.storage.plan = down
        taken = 0
        with suppress(BackPressureError):
            while taken < 100:
                await container.append("a", pattern(taken, 4_000))
                taken += 1
        assert 4 <= taken < 100
        # What relieves the container continues, also with long-term storage down.
        await container.create("other")
        await container.truncate("a", 6_000)
        with pytest.raises(BackPressureError):
            await container.commit([Append("a", b"no"), Put("none", b"", b"")], [])
        waiting = [asyncio.create_task(_appended(container, 4_000)) for _ in range(6)]
        await made.environment.sleep(3)
        owner.storage.plan = lambda call: Fate.DONE
        await asyncio.gather(*waiting)
        await made.environment.sleep(60)
        assert container.stats().unflushed_bytes == 0
        assert (await container.info("a")).length == 5_000 + 4_000 * (taken + 6)
        await made.check(owner)
        await container.close()


async def _appended(container: Any, length: int) -> int:
    return int(await container.append("a", bytes(length)))


# --- H18: politeness ------------------------------------------------------------------------------


async def test_h18_a_live_owner_is_not_disturbed() -> None:
    async with world(settings=QUIET) as made:
        owner = await filled(made)
        frames = list(made.shared_log.frames)
        with pytest.raises(StoreInUseError):
            await made.open(index="other")
        assert made.shared_log.frames == frames
        await owner.container.append("a", b"more")
        with suppress(ChunkError):
            await owner.container.flush()
        assert owner.container.failure is None
        await owner.container.close()
