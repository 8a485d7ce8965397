"""Safe mode: when it begins and ends, what it refuses, and what continues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage, Profile
from siltstone.container.changes import concat
from siltstone.container.commit.back_pressure import Pressure
from siltstone.container.health.space import RoomWatch, SpaceLimits, is_short
from siltstone.container.models.segments import Append, Put, Remove
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.constants import KIB
from siltstone.core.errors import ChunkStorageFullError, SafeModeError
from siltstone.testing.faults.faulty_chunk_storage import Fate
from siltstone.testing.virtual_time import VirtualEnvironment
from tests.support import inside
from tests.support.container.container_world import Owner, World, pattern, with_settings, world

pytestmark = pytest.mark.virtual_time

CAPACITY = 400 * KIB
SETTINGS = with_settings(free_bytes_min=100 * KIB, space_interval_s=30.0, garbage_delay_s=0.0)


@asynccontextmanager
async def owned(
    settings: ContainerSettings = SETTINGS, **choices: Any
) -> AsyncIterator[tuple[World, Owner]]:
    choices.setdefault("profile", Profile(capacity_bytes=CAPACITY))
    async with world(settings=settings, **choices) as made:
        owner = await made.open()
        await owner.container.create("a")
        await owner.container.create("b")
        await owner.container.create_table("t")
        yield made, owner
        assert owner.container.failure is None
        await made.check(owner, strict=False)
        await owner.container.close()


@pytest.mark.parametrize(
    ("free", "used", "was", "short"),
    [
        (None, None, False, False),
        (100, None, False, False),
        (99, None, False, True),
        (124, None, True, True),
        (125, None, True, False),
        (1_000, 999, False, False),
        (1_000, 1_000, False, True),
        (1_000, 900, True, True),
        (1_000, 899, True, False),
        (124, 899, True, True),
    ],
)
def test_when_room_is_short(free: int | None, used: int | None, was: bool, short: bool) -> None:
    limits = SpaceLimits(free_bytes_min=100, used_bytes_max=1_000)
    assert is_short(RoomWatch(free_bytes=free, used_bytes=used), limits, was=was) is short


async def fill(made: World, owner: Owner) -> None:
    """Append until safe mode refuses."""
    for _ in range(40):
        try:
            await owner.container.append("a", pattern(3, 16 * KIB))
        except SafeModeError:
            return
        await made.environment.sleep(31)
    raise AssertionError("nothing was ever refused")


async def safe_mode(owner: Owner) -> bool:
    return (await owner.container.health()).safe_mode


async def refused(owner: Owner) -> None:
    """Everything that adds bytes of users is refused and has no effect."""
    container = owner.container
    writer = await container.register_writer("a", "w")
    lengths = [(await container.info(name)).length for name in ("a", "b")]
    appends: list[Awaitable[object]] = [
        container.append("a", b"x"),
        container.append_many("a", [b"x", b"y"]),
        container.append_as("a", writer.number, 1, b"x"),
        container.commit([Append("b", b"x")]),
        container.commit([Put("t", b"k", b"v")]),
        container.commit([Remove("t", b"k"), Put("t", b"k", b"v")]),
    ]
    for append in appends:
        with pytest.raises(SafeModeError, match="too little room"):
            await append
    assert lengths == [(await container.info(name)).length for name in ("a", "b")]


@pytest.mark.slow
@pytest.mark.parametrize("small_bytes", [0, concat.SMALL_BYTES])
async def test_safe_mode_from_beginning_to_end(
    small_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concat, "SMALL_BYTES", small_bytes)
    async with owned() as (made, owner):
        container = owner.container
        await container.append("b", pattern(1, 2_000_000 // 1_000))
        await container.seal("b")
        assert not await safe_mode(owner)
        await fill(made, owner)
        found = await container.health()
        assert found.safe_mode
        assert found.free_bytes is not None
        assert found.free_bytes < 100 * KIB
        await refused(owner)
        with pytest.raises(SafeModeError, match=f"free_bytes={found.free_bytes} "):
            await container.concat("a", "b")
        # What adds no bytes of users continues, and what is acknowledged is flushed.
        end = (await container.info("a")).length
        assert await container.read("a", end - 100, 100) == pattern(3, 16 * KIB)[-100:]
        await container.create("c")
        await container.seal("c")
        await container.commit([Remove("t", b"k")])
        await container.flush()
        await container.checkpoint()
        assert container.stats().unflushed_bytes == 0
        assert await safe_mode(owner)
        # A little room is not enough to leave; a truncation makes enough, without any other call.
        await container.truncate("a", end)
        await container.delete("b")
        await container.flush()
        await made.environment.sleep(120)
        found = await container.health()
        assert not found.safe_mode
        assert await container.append("a", b"again") == end


async def test_a_full_storage_is_safe_mode_though_it_does_not_say_how_full_it_is() -> None:
    """As with a quota: it ends with the first flush that succeeds."""
    async with owned(replace(SETTINGS, free_bytes_min=0)) as (made, owner):
        container = owner.container

        def full(operation: str, name: str) -> None:
            if operation in ("create", "write"):
                raise ChunkStorageFullError("quota", chunk=name, operation=operation)

        owner.storage.before = full
        await container.append("a", pattern(1, 9_000))
        await made.environment.sleep(20)
        assert await safe_mode(owner)
        await refused(owner)
        owner.storage.before = lambda operation, name: None
        await made.environment.sleep(120)
        assert not await safe_mode(owner)
        assert await container.append("a", b"again") == 9_000


async def test_a_full_storage_without_anything_left_to_flush_is_over() -> None:
    async with owned(replace(SETTINGS, free_bytes_min=0)) as (made, owner):
        container = owner.container
        await container.flush()

        def full(operation: str, name: str) -> None:
            if "data/" in name and operation in ("create", "write"):
                raise ChunkStorageFullError("quota", chunk=name, operation=operation)

        owner.storage.before = full
        await container.append("a", pattern(1, 9_000))
        await made.environment.sleep(20)
        assert await safe_mode(owner)
        await container.delete("a")
        await made.environment.sleep(60)
        assert not await safe_mode(owner)
        owner.storage.before = lambda operation, name: None


@pytest.mark.slow
async def test_a_limit_on_used_space() -> None:

    settings = replace(SETTINGS, free_bytes_min=0, used_bytes_max=200 * KIB)
    async with owned(settings, profile=Profile()) as (made, owner):
        container = owner.container
        await fill(made, owner)
        found = await container.health()
        assert found.used_bytes is not None
        assert found.used_bytes >= 200 * KIB
        await container.truncate("a", (await container.info("a")).length)
        await container.flush()
        await made.environment.sleep(120)
        assert not await safe_mode(owner)


@pytest.mark.slow
async def test_a_look_that_fails_changes_nothing() -> None:
    async with owned() as (made, owner):
        await fill(made, owner)
        owner.storage.plan = lambda call: (
            Fate.REFUSED if call.operation == "free_space" else Fate.DONE
        )
        await made.environment.sleep(25)
        assert await safe_mode(owner)
        owner.storage.plan = lambda call: Fate.DONE


async def test_appends_that_wait_for_room_in_tier_1_are_refused_too() -> None:
    pressure = Pressure(bound=10, deadline_s=100)
    pressure.add(10)
    waiting = asyncio.create_task(pressure.admit(5))
    updating = asyncio.create_task(pressure.admit(0))
    await asyncio.sleep(1)
    pressure.refuse(lambda: SafeModeError("no room"))
    with pytest.raises(SafeModeError):
        await waiting
    with pytest.raises(SafeModeError):
        await pressure.admit(1)
    assert not updating.done()
    pressure.release(10)
    await updating
    assert not pressure.open
    pressure.refuse(None)
    await pressure.admit(3)
    assert pressure.held_bytes == 3


@pytest.mark.slow
async def test_a_reader_tells_that_room_is_short() -> None:
    async with owned() as (made, owner):
        await fill(made, owner)
        reader = await made.open_reader()
        assert (await reader.health()).safe_mode
        await reader.close()


async def test_storage_that_cannot_tell_is_never_short() -> None:

    made_bucket = VirtualEnvironment()

    def deaf() -> ChunkStorage:
        storage = MemoryChunkStorage(inside.bucket(SHARED), clock=made_bucket.time)
        storage._capabilities = replace(storage.capabilities, free_space=False, used_space=False)
        return storage

    async with owned(replace(SETTINGS, used_bytes_max=KIB), new_storage=deaf) as (made, owner):
        await made.environment.sleep(100)
        found = await owner.container.health()
        assert (found.safe_mode, found.free_bytes, found.used_bytes) == (False, None, None)
        assert not [call for call in owner.storage.calls if "space" in call.operation]


SHARED = MemoryChunkStorage()
