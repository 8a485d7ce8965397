"""Updates of one table without a waiter yet: their order, refusals, and results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from siltstone.container.container import Container
from siltstone.container.models.segments import (
    Append,
    ChangeKeys,
    Operation,
    Put,
    Remove,
    RemoveRange,
    VersionIs,
)
from siltstone.core.constants import MIB
from siltstone.core.environment import Pool
from siltstone.core.errors import (
    AppendTooLargeError,
    BackPressureError,
    ClosedError,
    ConditionFailedError,
    FencedError,
    SafeModeError,
    SegmentSealedError,
    StorageFullError,
    TableNotFoundError,
)
from siltstone.testing.virtual_time import Latency, instant
from tests.support import inside
from tests.support.container.container_world import Owner, World, with_settings, world
from tests.support.soak import share_of

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(append_deadline_s=1.0)
MUCH = 10**12
FRAME_S = 0.01
Story = Callable[[World, Owner], Awaitable[None]]
Call = Callable[[Container], Awaitable[Any]]


def slow_frames(pool: Pool, _: Random) -> float:
    """The log takes this long for a frame, and the next one is filled meanwhile."""
    return FRAME_S if pool.name.startswith("log-") else 0.0


@asynccontextmanager
async def owned(latency: Latency = instant) -> AsyncIterator[tuple[World, Owner]]:
    async with world(settings=SETTINGS, latency=latency) as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.create_table("t")
        yield made, owner


async def rows(container: Container) -> dict[bytes, tuple[int, bytes]]:
    found = await container.table_scan("t")
    return {key: (value.version, value.value) for key, value in found}


def put(container: Container, key: bytes, value: bytes) -> asyncio.Future[int]:
    return container.update("t", [(key, value)])


def put_new(container: Container, key: bytes, value: bytes) -> asyncio.Future[int]:
    return container.update("t", [(key, value)], [(key, None)])


# --- order ---


async def test_of_conditional_puts_that_race_in_one_frame_the_first_one_wins() -> None:
    async with owned() as (_, owner):
        container = owner.container
        frames = owner.log.plan.counts["append"]
        racing = [put_new(container, b"k", b"%d" % number) for number in range(20)]
        version = await racing[0]
        for loser in racing[1:]:
            with pytest.raises(ConditionFailedError) as failed:
                await loser
            assert failed.value.condition == VersionIs("t", b"k", None)
            assert failed.value.current == version
        assert owner.log.plan.counts["append"] == frames + 1
        assert await rows(container) == {b"k": (version, b"0")}
        await container.close()


async def test_a_chain_of_versions_is_as_long_as_its_members_are_right() -> None:
    async with owned() as (_, owner):
        container = owner.container
        first = await put(container, b"k", b"1")
        right = container.update("t", [(b"k", b"2"), (b"other", b"")], [(b"k", first)])
        wrong = container.update("t", [(b"k", b"3")], [(b"other", None), (b"k", first)])
        gone = container.update("t", [(b"k", None)], [(b"no", None)])
        again = put_new(container, b"k", b"4")
        second = await right
        with pytest.raises(ConditionFailedError) as failed:
            await wrong
        assert failed.value.condition == VersionIs("t", b"other", None)
        assert failed.value.current == second
        assert first < second < await gone < await again
        assert await rows(container) == {b"k": (await again, b"4"), b"other": (second, b"")}
        await container.close()


@pytest.mark.slow
async def test_updates_and_commits_of_one_key_take_effect_in_the_order_of_their_calls() -> None:
    async with owned() as (_, owner):
        container = owner.container
        big = bytes(7 * MIB)  # two of these do not fit in one frame
        made: list[Awaitable[Any]] = []
        for number in range(4):
            made.append(put(container, b"k", b"plain %d" % number))
            made.append(container.update("t", [(b"k", None), (b"large", big)]))
            made.append(put_new(container, b"k", b"new"))
            commit = container.commit([Append("a", b"x"), Remove("t", b"k")])
            made.append(asyncio.ensure_future(commit))
            await asyncio.sleep(0)  # a commit begins when it is run
            made.append(put_new(container, b"k", b"last %d" % number))
        results = await asyncio.gather(*made)
        versions = [getattr(result, "version", result) for result in results]
        assert versions == sorted(set(versions))
        assert (await rows(container))[b"k"] == (versions[-1], b"last 3")
        assert (await container.info("a")).length == 4
        await container.close()


async def test_a_refused_condition_was_looked_at_when_it_was_asked_for() -> None:
    async with owned() as (_, owner):
        container = owner.container
        version = await put(container, b"k", b"1")
        refused = put_new(container, b"k", b"2")
        removed = container.update("t", [(b"k", None)])
        with pytest.raises(ConditionFailedError) as failed:
            await refused
        assert failed.value.current == version
        await removed
        assert await rows(container) == {}
        await container.close()


async def test_what_is_in_the_next_frame_counts_when_an_older_one_is_acknowledged() -> None:
    async with owned(slow_frames) as (_, owner):
        container = owner.container
        old = [put(container, b"a", b"1"), put(container, b"b", b"1")]
        await asyncio.sleep(FRAME_S / 2)
        new = [container.update("t", [(b"a", None)]), put(container, b"b", b"2")]
        await asyncio.sleep(FRAME_S)
        assert [future.done() for future in old + new] == [True, True, False, False]
        again = put_new(container, b"a", b"3")
        refused = container.update("t", [(b"b", b"3")], [(b"b", old[1].result())])
        with pytest.raises(ConditionFailedError) as failed:
            await refused
        assert failed.value.current == new[1].result()
        assert await rows(container) == {
            b"a": (await again, b"3"),
            b"b": (new[1].result(), b"2"),
        }
        await container.close()


# --- what refuses ---


def refuse_next(owner: Owner) -> None:
    owner.log.plan.fail("append", 1, applied=False, error=StorageFullError("injected"))


async def safe_mode(_: World, owner: Owner) -> None:
    inside.parts(owner.container).pressure.refuse(lambda: SafeModeError("too little room"))


async def back_pressure_of_segments(_: World, owner: Owner) -> None:
    inside.parts(owner.container).pressure.add(MUCH)


async def back_pressure_of_tables(_: World, owner: Owner) -> None:
    inside.parts(owner.container).table_pressure.add(MUCH)


async def full(_: World, owner: Owner) -> None:
    refuse_next(owner)
    with pytest.raises(StorageFullError):
        await owner.container.append("a", b"x")


async def closed(_: World, owner: Owner) -> None:
    await owner.container.close()


async def fenced(made: World, owner: Owner) -> None:
    other = await made.open(takeover=True, index="other")
    with pytest.raises(FencedError):
        await owner.container.append("a", b"x")
    await other.container.close()


REFUSING: dict[str, tuple[Story, type[Exception]]] = {
    "safe mode": (safe_mode, SafeModeError),
    "segments": (back_pressure_of_segments, BackPressureError),
    "tables": (back_pressure_of_tables, BackPressureError),
    "a full tier 1": (full, StorageFullError),
    "closed": (closed, ClosedError),
    "fenced": (fenced, FencedError),
}


@pytest.mark.parametrize("name", REFUSING)
async def test_what_refuses_a_commit_refuses_an_update(name: str) -> None:
    refusing, error = REFUSING[name]
    calls: list[Call] = [
        lambda c: c.commit([Put("t", b"new", b"")]),
        lambda c: c.commit([ChangeKeys("t", [b"k", b"new"], [None, b""])]),
        lambda c: put(c, b"new", b""),
        lambda c: put_new(c, b"new", b""),
        lambda c: c.update("t", [(b"k", None), (b"new", b"")]),
    ]
    async with owned() as (made, owner):
        container = owner.container
        await put(container, b"k", b"1")
        await refusing(made, owner)
        for call in calls:
            with pytest.raises(error):
                await call(container)
        if not container.closed:
            assert list(await rows(container)) == [b"k"]
            # The repeat of an update that took place shows that the condition no longer holds.
            with pytest.raises(ConditionFailedError):
                await put_new(container, b"k", b"1")
            await container.close()


async def test_a_removal_makes_room_so_safe_mode_takes_it() -> None:
    async with owned() as (made, owner):
        container = owner.container
        await put(container, b"k", b"1")
        await safe_mode(made, owner)
        await container.update("t", [(b"k", None)])
        assert await rows(container) == {}
        await container.close()


async def test_an_update_that_waits_for_room_continues_when_there_is_some() -> None:
    async with owned() as (_, owner):
        container = owner.container
        pressure = inside.parts(owner.container).table_pressure
        pressure.add(MUCH)
        waiting = [put(container, b"a", b"1"), put(container, b"a", b"2")]
        await asyncio.sleep(0)
        assert not any(future.done() for future in waiting)
        pressure.release(MUCH)
        first, second = await asyncio.gather(*waiting)
        assert await rows(container) == {b"a": (second, b"2")}
        assert first < second
        await container.close()


async def test_what_a_full_tier_1_dropped_fails_no_condition() -> None:
    async with owned() as (made, owner):
        container = owner.container
        refuse_next(owner)
        dropped = put(container, b"k", b"1")
        refused = put_new(container, b"k", b"2")
        for future in (dropped, refused):
            with pytest.raises(StorageFullError):
                await future
        await made.environment.sleep(2)
        assert await put_new(container, b"k", b"3")
        await container.close()


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("k", b"", TypeError),
        (bytearray(b"k"), b"", TypeError),
        (b"k", "v", TypeError),
        (b"k", bytearray(b"v"), TypeError),
        (bytes(65_536), None, ValueError),
    ],
)
async def test_many_keys_are_checked_before_one_changes(
    key: Any, value: Any, error: type[Exception]
) -> None:
    async with owned() as (_, owner):
        changes = ChangeKeys("t", [b"first", key], [b"1", value])
        with pytest.raises(error):
            await owner.container.commit([changes])
        assert await rows(owner.container) == {}
        await owner.container.close()


async def test_a_seal_of_a_segment_says_nothing_of_tables() -> None:
    async with owned() as (_, owner):
        container = owner.container
        sealing = asyncio.ensure_future(container.seal("a"))
        await asyncio.sleep(0)
        version = put(container, b"k", b"1")
        with pytest.raises(SegmentSealedError):
            await container.commit([Append("a", b"x"), Put("t", b"k", b"2")])
        await sealing
        assert await rows(container) == {b"k": (await version, b"1")}
        await container.close()


async def test_a_table_that_is_not_there_is_told() -> None:
    async with owned() as (_, owner):
        container = owner.container
        with pytest.raises(TableNotFoundError):
            await container.update("no", [(b"k", b"v")])
        with pytest.raises(TableNotFoundError):
            await container.update("no", [(b"k", b"v")], [(b"k", None)])
        made = asyncio.ensure_future(container.create_table("later"))
        await made
        assert await container.update("later", [(b"k", b"v")])
        await container.close()


@pytest.mark.slow
async def test_what_fits_in_no_frame_changes_nothing() -> None:
    async with owned() as (_, owner):
        container = owner.container
        most = inside.parts(owner.container).pipeline.body_bytes_max
        for size in (most, most - 48):
            with pytest.raises(AppendTooLargeError):
                await put(container, b"k", bytes(size))
            with pytest.raises(ConditionFailedError):  # which counts more
                await container.update("t", [(b"k", bytes(size))], [(b"k", 1)])
        before = container.stats().table_version
        value = bytes(most - 49)  # 8 of the piece, 28 of the record, 12 of the entry, 1 of the key
        version = await put(container, b"k", value)
        assert version - before == most - 8
        assert await rows(container) == {b"k": (version, value)}
        await container.close()


async def test_what_is_no_bytes_changes_nothing() -> None:
    async with owned() as (_, owner):
        container: Any = owner.container
        before = container.stats().table_version
        for key, value in [("text", b"v"), (b"k", "text"), (b"k", 7)]:
            with pytest.raises(TypeError):
                await container.update("t", [(b"first", b"1"), (key, value)])
        assert await rows(container) == {}
        await put(container, b"k", b"v")
        assert container.stats().table_version > before
        await container.close()
        again = await _.open()
        assert list(await rows(again.container)) == [b"k"]
        await again.container.close()


async def test_a_caller_that_gives_up_does_not_take_the_update_back() -> None:
    async with owned() as (_, owner):
        container = owner.container
        futures = [put(container, b"%d" % number, b"v") for number in range(10)]
        for future in futures[::2]:
            future.cancel()
        await asyncio.wait(futures)
        assert [future.cancelled() for future in futures] == [True, False] * 5
        assert len(await rows(container)) == 10
        await container.close()


# --- everything, against a dict ---

KEYS = st.sampled_from([b"", b"a", b"ab"])
VALUES = st.none() | st.binary(max_size=3)
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3)
STEPS = (
    st.tuples(st.just("update"), PAIRS)
    | st.tuples(st.just("if absent"), KEYS, VALUES)
    | st.tuples(st.just("if known"), KEYS, VALUES)
    | st.tuples(st.just("commit"), PAIRS, KEYS | st.none())
    | st.tuples(st.just("change keys"), PAIRS)
    | st.tuples(st.just("pass"), st.integers(1, 3))
    | st.tuples(st.just("settle"))
    | st.tuples(st.just("flush"))
)


class _Told:
    """The dict that is given the calls in order; versions are known when the results are."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.calls: list[tuple[Awaitable[Any], bool]] = []
        self.state: dict[bytes, tuple[int, bytes]] = {}  # by the number of the call
        self.versions: list[int | None] = []

    def call(self, work: Awaitable[Any], changes: list[tuple[bytes, bytes | None]] | None) -> None:
        """Note a call that makes ``changes``; ``None`` if it has to be refused."""
        for key, value in changes or ():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = (len(self.calls), value)
        self.calls.append((work, changes is not None))

    async def settle(self) -> None:
        for work, happens in self.calls[len(self.versions) :]:
            try:
                result = await work
                assert happens
                self.versions.append(getattr(result, "version", result))
            except ConditionFailedError:
                assert not happens
                self.versions.append(None)
        known = [version for version in self.versions if version is not None]
        assert known == sorted(set(known))

    async def check(self) -> None:
        await self.settle()
        expected = {key: (self.versions[at], value) for key, (at, value) in self.state.items()}
        assert await rows(self.container) == expected

    async def do(self, step: tuple[Any, ...]) -> None:
        container = self.container
        match step:
            case ("update", changes):
                self.call(container.update("t", changes), changes)
            case ("if absent", key, value):
                work = container.update("t", [(key, value)], [(key, None)])
                self.call(work, None if key in self.state else [(key, value)])
            case ("if known", key, value):
                at = self.state.get(key, (-1, b""))[0]
                version = self.versions[at] if 0 <= at < len(self.versions) else 12345678
                work = container.update("t", [(key, value)], [(key, version)])
                self.call(work, None if version == 12345678 else [(key, value)])
            case ("commit", changes, start):
                operations: list[Operation] = [
                    Remove("t", key) if value is None else Put("t", key, value)
                    for key, value in changes
                ]
                if start is not None:
                    operations.insert(0, RemoveRange("t", start))
                    gone = [(key, None) for key in self.state if key >= start]
                    changes = [*gone, *changes]
                commit = container.commit([Append("a", b"x"), *operations])
                self.call(asyncio.ensure_future(commit), changes)
                await asyncio.sleep(0)  # a commit begins when it is run
            case ("change keys", changes):
                keys, values = [key for key, _ in changes], [value for _, value in changes]
                commit = container.commit([Append("a", b"x"), ChangeKeys("t", keys, values)])
                self.call(asyncio.ensure_future(commit), changes)
                await asyncio.sleep(0)
            case ("pass", count):  # this many halves of what the log takes for a frame
                await asyncio.sleep(count * FRAME_S / 2)
            case ("settle",):
                await self.check()
            case ("flush",):
                await container.flush()


@settings(
    max_examples=share_of(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(STEPS, min_size=10, max_size=40))
async def test_plain_and_other_updates_are_those_of_one_dict(steps: list[tuple[Any, ...]]) -> None:
    async with owned(slow_frames) as (made, owner):
        told = _Told(owner.container)
        for step in steps:
            await told.do(step)
        await told.check()
        await made.crash(owner)
        told.container = (await made.open()).container
        await told.check()
        await told.container.close()
