"""Repeats of what took place tell its result, whatever refuses new work meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from siltstone.container.models.imports import ImportMode
from siltstone.container.models.segments import Append, LengthIs, Put, VersionIs
from siltstone.core.errors import (
    BackPressureError,
    ConditionFailedError,
    OffsetError,
    Outcome,
    SafeModeError,
    SegmentSealedError,
    SequenceError,
    StorageFullError,
)
from tests.support import inside
from tests.support.container.container_world import Owner, World, with_settings, world
from tests.support.container.imported_chunks import bring, gives, opened

pytestmark = pytest.mark.virtual_time

SETTINGS = with_settings(append_deadline_s=1.0)
MUCH = 10**12


async def safe_mode(_: World, owner: Owner) -> None:
    inside.parts(owner.container).pressure.refuse(lambda: SafeModeError("too little room"))


async def back_pressure(_: World, owner: Owner) -> None:
    inside.parts(owner.container).pressure.add(MUCH)
    inside.parts(owner.container).table_pressure.add(MUCH)


async def full(_: World, owner: Owner) -> None:
    """Tier 1 was full, and is not asked again for a moment."""
    refuse_next(owner)
    with pytest.raises(StorageFullError):
        await owner.container.append("other", b"x")


def refuse_next(owner: Owner) -> None:
    """Let the log have no room for the next frame."""
    error = StorageFullError("injected")
    owner.log.plan.fail("append", 1, applied=False, error=error)


Refusing = Callable[[World, Owner], Awaitable[None]]
REFUSING: dict[str, tuple[Refusing, type[Exception]]] = {
    "safe mode": (safe_mode, SafeModeError),
    "back-pressure": (back_pressure, BackPressureError),
    "a full tier 1": (full, StorageFullError),
}


@asynccontextmanager
async def owned() -> AsyncIterator[tuple[World, Owner]]:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        for name in ("a", "other"):
            await owner.container.create(name)
        await owner.container.create_table("t")
        yield made, owner
        assert owner.container.failure is None
        await owner.container.close()


async def first_calls(owner: Owner) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Verbs that may be repeated, on segments of their own."""
    container = owner.container
    for name in ("target", "source", "old"):
        await container.create(name)
        await container.append(name, name.encode())
    await container.seal("source")
    writer = await container.register_writer("a", "w")
    ticket = await opened(owner, "job")
    chunks = bring(owner.storage.inner, ticket, [b"brought"])

    async def imported() -> Any:
        outputs = [gives("imported", chunks, ImportMode.CREATE)]
        return (await container.imports.commit("job", outputs)).segments

    return {
        "append": lambda: container.append_as("a", writer.number, 5, b"event"),
        "writer": lambda: container.register_writer("other", "v"),
        "create": lambda: container.create("new", exist_ok=True, attributes={"k": "v"}),
        "table": lambda: container.create_table("u", exist_ok=True),
        "seal": lambda: sealed(owner, "old"),
        "truncate": lambda: container.truncate("old", 2),
        "rename": lambda: container.rename("old", "renamed"),
        "concat": lambda: container.concat("target", "source"),
        "session": lambda: opened(owner, "session"),
        "import": imported,
    }


async def sealed(owner: Owner, name: str) -> tuple[int, bool]:
    info = await owner.container.seal(name)
    return info.length, info.sealed


RENAMED = ("seal", "truncate")  # of a segment that is renamed by then


@pytest.mark.parametrize("name", REFUSING)
async def test_what_refuses_new_work_refuses_no_repeat(name: str) -> None:
    refusing, error = REFUSING[name]
    async with owned() as (made, owner):
        calls = await first_calls(owner)
        results = {verb: await call() for verb, call in calls.items()}
        container = owner.container
        await container.seal("target")
        calls["seal"] = lambda: sealed(owner, "renamed")
        calls["truncate"] = lambda: container.truncate("renamed", 2)
        for verb in RENAMED:
            results[verb] = await calls[verb]()
        writer = await container.register_writer("a", "w")
        assert (writer.sequence, writer.offset, writer.length) == (5, 0, 5)
        await refusing(made, owner)
        for verb, call in calls.items():
            assert await call() == results[verb], verb
        assert await container.register_writer("a", "w") == writer
        assert await container.writers("a") == [writer]
        news: list[Callable[[], Awaitable[Any]]] = [
            lambda: container.append_as("a", writer.number, 6, b"event"),
            lambda: container.append("a", b"event"),
        ]
        for new in news:
            with pytest.raises(error):
                await new()


@pytest.mark.parametrize("name", [*REFUSING, "a seal"])
async def test_conditions_that_hold_no_more_are_told_before_refusals(name: str) -> None:
    """The repeat of a conditional change tells by that whether it took place."""

    async def seal(_: World, owner: Owner) -> None:
        await owner.container.seal("a")

    refusing, error = REFUSING.get(name, (seal, SegmentSealedError))
    async with owned() as (made, owner):
        container = owner.container
        key = VersionIs("t", b"k", None)
        assert await container.append("a", b"once", 0) == 0
        await container.commit([Put("t", b"k", b"v")], [key])
        await refusing(made, owner)
        with pytest.raises(OffsetError, match="expected=4 actual=0"):
            await container.append("a", b"once", 0)
        with pytest.raises(ConditionFailedError):
            await container.commit([Put("t", b"k", b"v"), Append("a", b"x")], [key])
        with pytest.raises(ConditionFailedError):
            await container.commit([Append("a", b"once")], [LengthIs("a", 0)])
        with pytest.raises(error):
            await container.append("a", b"more", 4)
        with pytest.raises(error):
            await container.commit([Append("a", b"more")], [LengthIs("a", 4)])


async def test_a_writer_of_a_sealed_segment_is_known_and_a_new_one_refused() -> None:
    async with owned() as (_, owner):
        container = owner.container
        writer = await container.register_writer("a", "w")
        assert await container.append_as("a", writer.number, 7, b"event") == 0
        await container.seal("a")
        assert await container.append_as("a", writer.number, 7, b"event") == 0
        assert (await container.register_writer("a", "w")).sequence == 7
        with pytest.raises(SegmentSealedError) as refusal:
            await container.append_as("a", writer.number, 8, b"event")
        assert refusal.value.outcome is Outcome.NOT_APPLIED
        with pytest.raises(SegmentSealedError):
            await container.register_writer("a", "v")
        await container.truncate("a", 5)
        assert await container.append_as("a", writer.number, 7, b"event") == 0


async def test_a_repeat_that_shares_its_frame_with_what_has_no_room_is_told() -> None:
    async with owned() as (made, owner):
        container = owner.container
        writer = await container.register_writer("a", "w")
        await container.append_as("a", writer.number, 1, b"event")
        refuse_next(owner)
        new = asyncio.ensure_future(container.append("other", b"new"))
        assert await container.append_as("a", writer.number, 1, b"event") == 0
        with pytest.raises(StorageFullError):
            await new
        await made.environment.sleep(2)
        # A repeat whose first attempt had no room counts as new work too.
        refuse_next(owner)
        both = [container.append_as("a", writer.number, 2, b"later") for _ in range(2)]
        results = await asyncio.gather(*both, return_exceptions=True)
        assert [type(result) for result in results] == [StorageFullError, StorageFullError]
        assert (await container.register_writer("a", "w")).sequence == 1
        await made.environment.sleep(2)
        assert await container.append_as("a", writer.number, 2, b"later") == 5


async def test_two_at_a_time_are_one_append_though_a_seal_comes_between() -> None:
    async with owned() as (made, owner):
        container = owner.container
        writer = await container.register_writer("a", "w")
        await back_pressure(made, owner)
        both = [
            asyncio.ensure_future(container.append_as("a", writer.number, 1, b"event"))
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        inside.parts(owner.container).table_pressure.release(MUCH)
        inside.parts(owner.container).pressure.release(MUCH)
        await asyncio.gather(both[0], container.seal("a"))
        assert await asyncio.gather(*both) == [0, 0]


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("opened_again", [False, True])
async def test_the_last_sequence_with_other_bytes_is_no_repeat(
    flushed: bool, opened_again: bool
) -> None:
    async with world(settings=SETTINGS) as made:
        owner = await made.open()
        await owner.container.create("a")
        writer = await owner.container.register_writer("a", "w")
        await owner.container.append_as("a", writer.number, 3, b"event")
        if flushed:
            await owner.container.flush()
        if opened_again:
            await owner.container.close()
            owner = await made.open()
        container = owner.container
        for other in (b"Event", b"events", b"e"):
            with pytest.raises(SequenceError, match="last_sequence=3"):
                await container.append_as("a", writer.number, 3, other)
        assert await container.append_as("a", writer.number, 3, b"event") == 0
        assert (await container.info("a")).length == 5
        await container.close()


async def test_readers_are_told_of_writers() -> None:
    async with owned() as (made, owner):
        container = owner.container
        for name in ("w", "v"):
            writer = await container.register_writer("a", name)
            if name == "w":
                await container.append_as("a", writer.number, 9, b"event")
        reader = await made.open_reader()
        told = [
            (one.name, one.sequence, one.offset, one.length) for one in await reader.writers("a")
        ]
        assert told == [("v", -1, 0, 0), ("w", 9, 0, 5)]
        assert await reader.writers("a") == await container.writers("a")
        await reader.close()
