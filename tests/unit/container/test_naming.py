"""Attributes and renames when several things happen at once or nothing can be written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from siltstone.container.models.segments import (
    ATTRIBUTE_BYTES_MAX,
    ATTRIBUTES_MAX,
    Append,
    AttributeIs,
    SetAttribute,
)
from siltstone.core.errors import (
    AttributeLimitError,
    ConditionFailedError,
    SegmentExistsError,
    SegmentNameError,
    SegmentNotFoundError,
    StorageFullError,
)
from siltstone.testing.virtual_time import jittered
from tests.support.container.container_world import Owner, World, pattern, world

pytestmark = pytest.mark.virtual_time

MIB = 2**20


async def opened(here: World, names: tuple[str, ...] = ("a",)) -> Owner:
    owner = await here.open()
    for name in names:
        await owner.container.create(name)
    return owner


async def test_limits_are_those_of_what_is_assigned() -> None:
    async with world() as here:
        container = (await opened(here)).container
        several = [SetAttribute("a", f"{number}", "") for number in range(ATTRIBUTES_MAX)]
        first = asyncio.create_task(container.commit(several))
        await asyncio.sleep(0)
        with pytest.raises(AttributeLimitError):
            await container.commit([SetAttribute("a", "one more", "")])
        assert first.done()
        swap = [SetAttribute("a", "0", None), SetAttribute("a", "one more", "")]
        await container.commit(swap)
        room = ATTRIBUTE_BYTES_MAX - 2
        most = "ü" * (room // 2)
        await container.create("b", attributes={"kk": most})
        with pytest.raises(AttributeLimitError):
            await container.commit([SetAttribute("b", "kk", most + "x"), Append("b", b"x")])
        info = await container.info("b")
        assert (info.length, info.attributes) == (0, {"kk": most})
        with pytest.raises(AttributeLimitError):
            await container.create("c", attributes={"kk": most, "x": ""})
        await container.create("b", exist_ok=True, attributes={"other": ""})
        assert (await container.info("b")).attributes == {"kk": most}
        await container.close()


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [("", "", ValueError), ("a=b", "", ValueError), (b"k", "", TypeError), ("k", 1, TypeError)],
)
async def test_what_can_be_no_attribute(key: str, value: str, kind: type[Exception]) -> None:
    async with world() as here:
        container = (await opened(here)).container
        with pytest.raises(kind):
            await container.commit([SetAttribute("a", key, value)])
        with pytest.raises(kind):
            await container.commit([Append("a", b"")], [AttributeIs("a", key, value)])
        with pytest.raises(kind):
            await container.create("b", attributes={key: value})
        await container.close()


async def test_of_equal_conditional_changes_one_wins() -> None:
    async with world(latency=jittered(0.05)) as here:
        container = (await opened(here)).container

        async def take(who: str) -> object:
            condition = AttributeIs("a", "owner", None)
            try:
                await container.commit([SetAttribute("a", "owner", who)], [condition])
            except ConditionFailedError as error:
                return error.current
            return None

        found = await asyncio.gather(*(take(f"{number}") for number in range(9)))
        assert found == [None] + ["0"] * 8
        await container.close()


async def test_a_writer_continues_by_the_new_name() -> None:
    async with world() as here:
        owner = await opened(here)
        writer = await owner.container.register_writer("a", "w")
        first = pattern(1, 5_000)
        await owner.container.append_as("a", writer.number, 1, first)
        await owner.container.flush()
        await owner.container.rename("a", "b")
        assert await owner.container.append_as("b", writer.number, 1, first) == 0
        assert await owner.container.append_as("b", writer.number, 2, first) == 5_000
        await owner.container.flush()
        chunks = await owner.container.chunks("b")
        assert {chunk.chunk.split("/")[3] for chunk in chunks} == {"a"}
        await here.crash(owner, keep_index=False)
        owner = await here.open()
        assert await owner.container.append_as("b", writer.number, 2, first) == 5_000
        assert await owner.container.read("b", 0, 20_000) == first * 2
        with pytest.raises(SegmentNotFoundError):
            await owner.container.info("a")
        await here.check(owner, strict=False)
        await owner.container.close()


async def test_a_rename_on_its_way_stops_appends_whatever_else_is_acknowledged() -> None:
    async with world(latency=lambda pool, chance: 1.0) as here:
        container = (await opened(here)).container
        await container.append("a", b"12345")
        truncating = asyncio.create_task(container.truncate("a", 3))
        await asyncio.sleep(0)
        renaming = asyncio.create_task(container.rename("a", "b"))
        await truncating
        assert not renaming.done()
        with pytest.raises(SegmentNotFoundError):
            await container.append("a", b"late")
        await renaming
        assert (await container.info("b")).start_offset == 3
        await container.close()


@pytest.mark.slow
@pytest.mark.parametrize("length", [1_000, 2 * MIB])
@pytest.mark.parametrize("renamed", ["source", "target"])
@pytest.mark.parametrize("wait_s", [0.0, 0.05, 0.1, 0.2, 0.4])
async def test_a_rename_waits_for_a_concat(length: int, renamed: str, wait_s: float) -> None:
    async with world(latency=lambda pool, chance: 0.1) as here:
        container = (await opened(here, ("source", "target"))).container
        data = pattern(2, length)
        await container.append("source", data)
        await container.seal("source")
        ended: list[str] = []

        async def call(name: str, work: Awaitable[object]) -> bool:
            try:
                await work
            except SegmentNotFoundError:
                return False
            finally:
                ended.append(name)
            return True

        joining = asyncio.create_task(call("concat", container.concat("target", "source")))
        await here.environment.sleep(wait_s)
        done = await call("rename", container.rename(renamed, "other"))
        joined = await joining
        assert joined or done
        if joined and done:
            assert (renamed, ended) == ("target", ["concat", "rename"])
        infos = {info.name: info.length for info in await container.list_segments()}
        assert sum(infos.values()) == length
        left = {"target"} if joined else {"target", "source"}
        assert infos.keys() == ((left - {renamed}) | {"other"} if done else left)
        await container.flush()
        await container.close()


async def test_a_full_log_leaves_the_old_name() -> None:
    async with world() as here:
        owner = await opened(here)
        container = owner.container
        await container.append("a", b"1")
        full = StorageFullError("injected")
        owner.log.plan.fail("append", 1, applied=False, error=full)
        with pytest.raises(StorageFullError):
            await container.rename("a", "b")
        await here.environment.sleep(60)
        assert await container.append("a", b"2") == 1
        with pytest.raises(SegmentNotFoundError):
            await container.append("b", b"3")
        await container.rename("a", "b")
        assert await container.append("b", b"3") == 2
        await container.close()


async def test_names_that_are_taken_or_impossible() -> None:
    async with world() as here:
        container = (await opened(here, ("a", "b"))).container
        for name in ("a", "b"):
            with pytest.raises(SegmentExistsError):
                await container.rename("a", name)
        with pytest.raises(SegmentNameError):
            await container.rename("a", "_system/x")
        with pytest.raises(SegmentNotFoundError):
            await container.rename("c", "d")
        deleting = asyncio.create_task(container.delete("b"))
        await asyncio.sleep(0)
        await container.rename("a", "b")
        await deleting
        await container.close()


async def test_a_reader_follows_names_and_attributes() -> None:
    async with world() as here:
        owner = await opened(here)
        reader = await here.open_reader()
        await owner.container.append("a", b"123")
        await reader.refresh()
        assert await reader.read("a", 0, 3) == b"123"
        await owner.container.commit([SetAttribute("a", "k", "v")])
        await owner.container.rename("a", "b")
        await reader.refresh()
        assert (await reader.info("b")).attributes == {"k": "v"}
        assert await reader.read("b", 0, 3) == b"123"
        with pytest.raises(SegmentNotFoundError):
            await reader.info("a")
        await reader.close()
        await owner.container.close()


WEEK_S = 7 * 24 * 3600.0


async def test_a_repeated_rename_succeeds_while_it_holds() -> None:
    async with world() as here:
        owner = await opened(here, ("a", "other"))
        await owner.container.append("a", b"123")
        await asyncio.gather(*(owner.container.rename("a", "b") for _ in range(3)))
        await here.crash(owner, keep_index=False)
        owner = await here.open()
        container = owner.container
        await container.rename("a", "b")
        assert [info.name for info in await container.list_segments()] == ["b", "other"]
        # With a target name of another segment, or of none, it is no repeat.
        for new in ("other", "c"):
            with pytest.raises(SegmentNotFoundError):
                await container.rename("a", new)
        # Nor is it a concat that took place.
        with pytest.raises(SegmentNotFoundError):
            await container.concat("b", "a")
        await container.rename("b", "a")
        await container.rename("b", "a")
        await container.rename("a", "c")
        with pytest.raises(SegmentNotFoundError):
            await container.rename("a", "b")
        await container.create("a")
        await container.rename("a", "b")
        assert (await container.info("b")).length == 0
        assert await container.read("c", 0, 3) == b"123"
        await container.close()


async def test_a_concat_is_not_taken_for_a_rename() -> None:
    async with world() as here:
        container = (await opened(here, ("a", "b"))).container
        await container.seal("a")
        await container.concat("b", "a")
        with pytest.raises(SegmentNotFoundError):
            await container.rename("a", "b")
        await container.close()


async def test_a_rename_is_forgotten_a_week_after_it() -> None:
    async with world() as here:
        owner = await opened(here)
        container = owner.container
        # All in one millisecond: each name is forgotten on its own.
        for old, new in (("a", "b"), ("b", "c"), ("c", "a"), ("a", "d")):
            await container.rename(old, new)
        left = ["a", "b", "c"]
        assert [name for name in left if owner.rows.tombstone(name)] == left
        here.environment.clock.now += 1000.0
        await container.rename("d", "b")
        await container.rename("b", "e")
        here.environment.clock.now += WEEK_S - 500.0
        await container.collect()
        assert [name for name in (*left, "d") if owner.rows.tombstone(name)] == ["b", "d"]
        await container.rename("b", "e")
        here.environment.clock.now += 600.0
        await container.collect()
        assert not [name for name in (*left, "d") if owner.rows.tombstone(name)]
        with pytest.raises(SegmentNotFoundError):
            await container.rename("b", "e")
        await here.check(owner)
        await container.close()
