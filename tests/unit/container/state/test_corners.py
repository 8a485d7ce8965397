"""What callers meet at the limits of a container: names, conditions, cancellations, ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from siltstone.container.models.segments import (
    Append,
    LengthIs,
    Operation,
    Put,
    SetAttribute,
    VersionIs,
)
from siltstone.container.models.settings import ContainerSettings
from siltstone.container.state.open_segment import OpenSegment
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    AppendTooLargeError,
    BackPressureError,
    ClosedError,
    ConditionFailedError,
    LogError,
    OffsetError,
    Outcome,
    OutcomeUnknownError,
    SegmentExistsError,
    SegmentNameError,
    SegmentNotFoundError,
    StorageFullError,
    TableExistsError,
    TableNotFoundError,
    WriterExpiredError,
)
from siltstone.testing.faults.faulty_fenced_log import FaultPlan
from siltstone.testing.virtual_time import Latency
from tests.support import inside
from tests.support.container.container_world import (
    SETTINGS,
    Owner,
    World,
    pattern,
    with_settings,
    world,
)

pytestmark = pytest.mark.virtual_time

Story = Callable[[World, Owner], Awaitable[None]]
LOST = (LogError, OutcomeUnknownError, ClosedError)


@asynccontextmanager
async def owned(
    settings: ContainerSettings = SETTINGS, latency: Latency | None = None
) -> AsyncIterator[tuple[World, Owner]]:
    async with world(settings=settings) as made:
        owner = await made.open()
        await owner.container.create("a")
        if latency is not None:
            made.environment.latency = latency
        yield made, owner
        await owner.container.close()


async def appended(container: Any, data: bytes, name: str = "a", **choices: Any) -> int:
    return int(await container.append(name, data, **choices))


# --- limits and names -----------------------------------------------------------------------------


async def test_an_append_fits_in_a_frame_or_not_at_all() -> None:
    async with owned(with_settings(chunk_bytes=64 * MIB)) as (_, owner):
        container = owner.container
        limit = container.frame_data_max
        assert 7 * MIB < limit < 8 * MIB
        assert await appended(container, bytes(limit)) == 0
        for data in (bytes(limit + 1), bytearray(limit + 1)):
            with pytest.raises(AppendTooLargeError) as caught:
                await container.append("a", data)
            assert str(limit) in str(caught.value)
        with pytest.raises(AppendTooLargeError):
            await container.append_many("a", [bytes(limit), b"x"])
        await container.create_table("t")
        with pytest.raises(AppendTooLargeError):
            await container.commit([Append("a", bytes(limit)), Put("t", b"k", bytes(MIB))])
        assert (await container.info("a")).length == limit
        assert await container.table_get("t", b"k") is None


@pytest.mark.parametrize("name", ["", "x\0y", "x" * 1_025, "é" * 600, "_system/x", "\ud800"])
async def test_names_that_no_segment_has(name: str) -> None:
    async with owned() as (_, owner):
        with pytest.raises(SegmentNameError):
            await owner.container.create(name)
        with pytest.raises(SegmentNameError):
            await owner.container.create_table(name)


async def test_names_are_compared_as_bytes_and_listed_in_their_order() -> None:
    names = ["b", "a/b", "a", "Z", "é", "e\u0301", "a" * 1_024, "a b", "日本"]
    async with owned() as (_, owner):
        await owner.container.delete("a")
        for name in names:
            await owner.container.create(name)
            await owner.container.append(name, name.encode())
        await owner.container.flush()
        found = [info.name for info in await owner.container.list_segments()]
        assert found == sorted(names, key=str.encode)
        for name in names:
            assert await owner.container.read(name, 0, 2_000) == name.encode()
        assert [i.name for i in await owner.container.list_segments("a", "a", 2)] == ["a b", "a/b"]


async def test_what_is_there_already_and_what_is_not() -> None:
    async with owned() as (_, owner):
        container = owner.container
        with pytest.raises(SegmentExistsError):
            await container.create("a")
        assert (await container.create("a", exist_ok=True)).name == "a"
        await container.create_table("t")
        with pytest.raises(TableExistsError):
            await container.create_table("t")
        await container.create_table("t", exist_ok=True)
        for call in (
            lambda: container.append("x", b"1"),
            lambda: container.append("x", b""),
            lambda: container.seal("x"),
            lambda: container.truncate("x", 0),
            lambda: container.delete("x"),
            lambda: container.info("x"),
            lambda: container.flush("x"),
            lambda: container.register_writer("x", "w"),
            lambda: container.commit([Append("x", b"1")]),
        ):
            with pytest.raises(SegmentNotFoundError):
                await call()
        with pytest.raises(TableNotFoundError):
            await container.commit([Put("x", b"", b"")])


# --- answers wait for what they rest on -----------------------------------------------------------


async def test_a_failed_condition_is_told_when_its_cause_is_acknowledged() -> None:
    async with owned() as (made, owner):
        container = owner.container
        await container.create_table("t")
        made.environment.latency = lambda pool, chance: 2.0 if "log" in pool.name else 0.0
        cause = asyncio.ensure_future(container.append("a", b"12345"))
        await asyncio.sleep(0)
        first = asyncio.create_task(container.commit([Put("t", b"k", b"")], [LengthIs("a", 0)]))
        second = asyncio.create_task(appended(container, b"x", expected_offset=0))
        await made.environment.sleep(1.5)
        assert not cause.done()
        assert not first.done()
        assert not second.done()
        await made.environment.sleep(4)
        with pytest.raises(ConditionFailedError):
            await first
        with pytest.raises(OffsetError):
            await second


async def test_a_failed_condition_dies_with_its_cause() -> None:
    async with owned() as (made, owner):
        container = owner.container
        await container.create_table("t")
        made.environment.latency = lambda pool, chance: 2.0 if "log" in pool.name else 0.0
        owner.log.plan.fail("append", 1, applied=False)
        cause = asyncio.ensure_future(container.commit([Put("t", b"k", b"1")]))
        await asyncio.sleep(0)
        late = asyncio.create_task(
            container.commit([Put("t", b"k", b"2")], [VersionIs("t", b"k", None)])
        )
        results = await asyncio.gather(cause, late, return_exceptions=True)
        assert [type(result) for result in results] == [OutcomeUnknownError] * 2


async def test_an_empty_append_waits_for_the_length_that_it_tells() -> None:
    async with owned() as (made, owner):
        # Only an open segment takes bytes before anything is awaited.
        assert (await owner.container.info("a")).length == 0
        made.environment.latency = lambda pool, chance: 2.0 if "log" in pool.name else 0.0
        filling = asyncio.ensure_future(owner.container.append("a", b"12345"))
        assert await appended(owner.container, b"") == 5
        assert filling.done()
        assert (await owner.container.info("a")).length == 5


async def test_a_pending_create_or_delete_is_told_when_it_is_acknowledged() -> None:
    async with owned() as (made, owner):
        container = owner.container
        made.environment.latency = lambda pool, chance: 2.0 if "log" in pool.name else 0.0
        owner.log.plan.fail("append", 1, applied=False)
        calls = [
            container.create("b"),
            container.create("b"),
            container.create("b", exist_ok=True),
            container.delete("a"),
            container.delete("a"),
            appended(container, b"x"),
            container.seal("a"),
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [OutcomeUnknownError] * len(calls), results


# --- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [False, True])
async def test_a_container_that_failed_or_closed_does_nothing_more(closed: bool) -> None:
    async with owned() as (_, owner):
        container = owner.container
        await container.create_table("t")
        await container.create("sealed")
        await container.seal("sealed")
        writer = await container.register_writer("a", "w")
        await container.append_as("a", writer.number, 0, b"once")
        if closed:
            await container.close()
        else:
            owner.log.plan.fail("append", 1, applied=False)
            with pytest.raises(OutcomeUnknownError):
                await container.append("a", b"lost")
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "append": lambda: container.append("a", b"x"),
            "empty append": lambda: container.append("a", b""),
            "bytearray": lambda: container.append("a", bytearray(b"x")),
            "append_many": lambda: container.append_many("a", [b"x"]),
            "repeat": lambda: container.append_as("a", writer.number, 0, b"once"),
            "create": lambda: container.create("new"),
            "create again": lambda: container.create("a", exist_ok=True),
            "seal": lambda: container.seal("a"),
            "seal again": lambda: container.seal("sealed"),
            "truncate": lambda: container.truncate("a", 2),
            "truncate nothing": lambda: container.truncate("a", 0),
            "delete": lambda: container.delete("a"),
            "concat": lambda: container.concat("a", "sealed"),
            "writer": lambda: container.register_writer("a", "v"),
            "writer again": lambda: container.register_writer("a", "w"),
            "commit": lambda: container.commit([Put("t", b"k", b"")]),
            "empty commit": lambda: container.commit([], [LengthIs("a", 4)]),
            "table": lambda: container.create_table("t", exist_ok=True),
            "flush": lambda: container.flush(),
            "checkpoint": lambda: container.checkpoint(),
            "collect": lambda: container.collect(),
            "read": lambda: container.read("a", 0, 1),
            "info": lambda: container.info("a"),
        }
        answered = []
        for name, call in calls.items():
            try:
                await call()
                answered.append(name)
            except LOST:
                continue
        assert not answered


async def test_a_cancelled_append_frees_its_caller_at_once() -> None:
    async with owned() as (made, owner):
        container = owner.container
        made.environment.latency = lambda pool, chance: 4.0 if "log" in pool.name else 0.0
        calls = [asyncio.create_task(appended(container, b"%d" % n)) for n in range(3)]
        await made.environment.sleep(1)
        calls[1].cancel()
        before = made.environment.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await calls[1]
        assert made.environment.monotonic() == before
        assert await calls[0] == 0
        assert await calls[2] == 2
        assert await container.read("a", 0, 9) == b"012"


@pytest.mark.slow
async def test_a_log_that_hangs_lets_a_bounded_amount_pile_up() -> None:

    settings = with_settings(
        chunk_bytes=64 * MIB, unflushed_bytes_max=12 * MIB, append_deadline_s=20.0
    )
    async with owned(settings) as (made, owner):
        container = owner.container
        hanging = made.environment.latency
        made.environment.latency = lambda pool, chance: 1e4 if "log" in pool.name else 0.0
        tasks = []
        for number in range(60):
            tasks.append(asyncio.ensure_future(container.append("a", bytes(MIB))))
            if number % 5 == 0:
                await asyncio.sleep(0)
        await made.environment.sleep(50)
        refused = [
            task
            for task in tasks
            if task.done() and isinstance(task.exception(), BackPressureError)
        ]
        assert len(refused) >= 60 - 20 - 8, "more is in memory than the bound and two frames"
        made.environment.latency = hanging
        await asyncio.gather(*tasks, return_exceptions=True)


# --- a full tier 1 --------------------------------------------------------------------------------


async def test_a_full_log_takes_back_what_was_assigned() -> None:
    async with owned() as (made, owner):
        container = owner.container
        writer = await container.register_writer("a", "w")
        await container.append("a", b"kept")
        full = StorageFullError("injected")
        owner.log.plan.fail("append", 1, applied=False, error=full)
        calls: list[Awaitable[Any]] = [
            container.append("a", b"1"),
            container.append("a", bytearray(b"22")),
            container.append_as("a", writer.number, 1, b"333"),
            container.create("b"),
            container.seal("a"),
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, StorageFullError) for result in results), results
        assert all(result.outcome is Outcome.NOT_APPLIED for result in results)  # type: ignore[union-attr]
        with pytest.raises(StorageFullError):
            await container.append("a", b"at once")
        await container.truncate("a", 2)
        await container.flush()
        await container.collect()
        await made.environment.sleep(2)
        assert await appended(container, b"more") == 4
        assert await container.append_as("a", writer.number, 1, b"333") == 8
        with pytest.raises(SegmentNotFoundError):
            await container.info("b")
        assert await container.read("a", 2, 99) == b"ptmore333"
        await made.check(owner)


async def test_a_flush_that_finds_the_log_full_leaves_no_orphan() -> None:
    async with owned() as (made, owner):
        container = owner.container
        await container.append("a", pattern(1, 9_000))
        await container.flush()
        await container.append("a", pattern(2, 9_000))
        for number in range(1, 200):
            owner.log.plan.fail("append", number, applied=False, error=StorageFullError("injected"))
        with pytest.raises(StorageFullError):
            await container.flush()
        owner.log.plan.faults.clear()
        await made.environment.sleep(60)
        await container.flush()
        await made.check(owner)
        assert await container.read("a", 0, 18_000) == pattern(1, 9_000) + pattern(2, 9_000)


# --- memory ---------------------------------------------------------------------------------------


async def test_idle_segments_leave_memory_and_come_back() -> None:
    async with owned(with_settings(segments_idle_max=8)) as (made, owner):
        container = owner.container
        writers = {}
        for number in range(40):
            name = f"s{number:02d}"
            await container.create(name)
            writers[name] = (await container.register_writer(name, "w")).number
            await container.append_as(name, writers[name], 3, name.encode())
            if number % 3 == 2:
                await container.flush()
        assert len(inside.parts(container).pipeline.replica.by_id) < 15
        for name, number in writers.items():
            assert await container.read(name, 0, 9) == name.encode()
            assert await container.append_as(name, number, 3, name.encode()) == 0
            assert await appended(container, b"!", name) == 3
        await container.flush()
        await made.check(owner)


async def test_a_segment_stays_in_memory_while_a_writer_of_it_is_made() -> None:
    async with owned(with_settings(segments_idle_max=1)) as (_, owner):
        container = owner.container
        await container.create("b")
        making = asyncio.ensure_future(container.register_writer("a", "w"))
        await asyncio.sleep(0)
        await container.info("b")
        with pytest.raises(WriterExpiredError):
            await container.append_as("a", 99, 1, b"nobody's")
        assert await container.append_as("a", (await making).number, 1, b"mine") == 0


async def test_busy_segments_are_not_all_looked_at_for_each_one_that_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = 0

    def idle(segment: OpenSegment) -> bool:
        nonlocal looked
        looked += 1
        return bool(was_idle(segment))

    was_idle = OpenSegment.idle.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(OpenSegment, "idle", property(idle))
    async with owned(with_settings(segments_idle_max=10)) as (made, owner):
        container = owner.container
        opened = inside.parts(container).pipeline.replica.by_id
        for number in range(100):
            await container.create(f"s{number}")
            await appended(container, b"!", f"s{number}")
        assert len(opened) >= 100
        assert looked < 100
        await container.flush()
        for number in range(30):
            await container.create(f"t{number}")
            await container.info(f"t{number}")
        assert len(opened) <= 10
        await made.check(owner)


async def test_a_commit_takes_more_segments_than_may_be_idle() -> None:
    async with owned(with_settings(segments_idle_max=1)) as (made, owner):
        container = owner.container
        names = [f"s{number}" for number in range(6)]
        for name in names:
            await container.create(name)
        await appended(container, b"busy", "s0")
        await container.flush()
        await appended(container, b"busy", "s1")
        operations: list[Operation] = [
            *(Append(name, name.encode()) for name in names[2:4] * 2),
            *(SetAttribute(name, "k", "v") for name in names[4:]),
        ]
        await container.commit(operations, [LengthIs(name, 0) for name in names[2:]])
        assert await container.read("s2", 0, 9) == b"s2s2"
        await container.flush()
        await made.check(owner)


async def test_the_longest_idle_writer_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("siltstone.container.changes.segment_changes.WRITERS_MAX", 5)

    async with world() as made:
        owner = await made.open()
        await owner.container.create("a")
        container = owner.container
        numbers = {}
        for name in "abcde":
            numbers[name] = (await container.register_writer("a", name)).number
            await made.environment.sleep(1)
        for name in "acde":
            await container.append_as("a", numbers[name], 0, name.encode())
        await container.flush()
        await made.environment.sleep(1)
        # Not flushed yet, and just now: not idle.
        await container.append_as("a", numbers["b"], 0, b"b")
        await container.register_writer("a", "f")
        gone = []
        for name, number in numbers.items():
            try:
                await container.append_as("a", number, 7, b"later")
            except WriterExpiredError:
                gone.append(name)
        assert len(gone) == 1
        assert gone != ["b"], "the newest one went"
        again = await container.register_writer("a", gone[0])
        assert (again.sequence, again.number in numbers.values()) == (-1, False)
        await made.crash(owner, keep_index=False)
        owner = await made.open()
        with pytest.raises(WriterExpiredError):
            await owner.container.append_as("a", 999, 0, b"x")
        await owner.container.close()


# --- slow storage ---------------------------------------------------------------------------------


async def test_calls_that_hang_cost_no_byte() -> None:
    async with owned(with_settings(storage_deadline_s=5.0, storage_threads=64)) as (made, owner):
        container = owner.container
        quick = made.environment.latency
        made.environment.latency = lambda pool, chance: (
            float("inf") if "chunks" in pool.name else 0.0
        )
        await container.append("a", pattern(1, 9_000))
        await made.environment.sleep(100)
        assert await container.read("a", 0, 9_000) == pattern(1, 9_000)
        assert container.stats().last_error is not None
        made.environment.latency = quick
        assert await appended(container, b"more") == 9_000
        await made.environment.sleep(100)
        assert container.failure is None
        assert container.stats().unflushed_bytes == 0
        await made.check(owner, strict=False)


# --- joining --------------------------------------------------------------------------------------


@pytest.mark.parametrize("small_bytes", [0, MIB])
async def test_the_same_concat_twice_at_once(
    small_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.container.changes.concat.SMALL_BYTES", small_bytes)
    async with owned(latency=lambda pool, chance: 0.1) as (_, owner):
        container = owner.container
        await container.append("a", b"12345")
        await container.create("b")
        await container.append("b", b"678")
        await container.seal("b")
        results = await asyncio.gather(*(container.concat("a", "b") for _ in range(3)))
        assert results == [5, 5, 5]
        assert await container.read("a", 0, 99) == b"12345678"


async def test_a_large_concat_wakes_followers_that_wait_for_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("siltstone.container.changes.concat.SMALL_BYTES", 0)
    async with owned() as (made, owner):
        container = owner.container
        await container.create("b")
        await container.append("b", b"678")
        await container.seal("b")
        waiting = asyncio.create_task(container.wait_for_length("a", 0, 1_000))
        await made.environment.sleep(1)
        await container.concat("a", "b")
        await made.environment.sleep(1)
        assert waiting.done()
        assert (await waiting).length == 3


async def test_one_segment_that_cannot_be_flushed_does_not_stop_the_garbage_of_others() -> None:
    async with owned() as (made, owner):
        container = owner.container
        await container.append("a", pattern(1, 9_000))
        await container.create("b")
        await container.append("b", pattern(2, 9_000))
        await container.flush()
        await container.truncate("b", 9_000)
        await made.environment.sleep(60)
        await container.flush()
        await made.environment.sleep(60)
        assert not [name for name in made.names() if "/b/" in name]


def test_plan_is_used() -> None:
    """The worlds of these tests hand their faults to the log."""
    with world() as made:
        plan = FaultPlan()
        owner = made.run(made.open(plan=plan))
        assert owner.log.plan is plan
        assert plan.counts["claim"] == 1
        made.run(owner.container.close())
